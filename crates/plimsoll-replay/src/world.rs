//! Decisions in virtual time: requests wait in queues, hold what they were granted until they end, and are charged then.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use plimsoll::{ManualClock, Moment, Outcome, Permit};
use plimsoll_ambient::{CpuReading, MemoryReading, Sampler};
use plimsoll_config::{Config, ConfigError};
use plimsoll_engine::{Decide, Hold, Limits, RecordedResponse, Refusal};

use crate::record::Record;

/// For whom a decision is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// The configuration that is tried.
    New,
    /// The one that it is compared with.
    Old,
    /// A limit of it, as if it stood alone.
    Alone(usize),
    /// A limit with another number.
    Candidate(usize),
}

/// What is known of a request while it is decided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Brief {
    /// Its number among all.
    pub(crate) number: u64,
    pub(crate) at: i64,
    pub(crate) file: u32,
    pub(crate) line: u64,
    pub(crate) duration: u64,
    pub(crate) served: RecordedResponse,
}

impl Brief {
    pub(crate) fn of(record: &Record, number: u64) -> Self {
        let mut served = RecordedResponse::new(record.status);
        (served.sent, served.received) = (record.sent, record.received);
        Self {
            number,
            at: record.at,
            file: record.file,
            line: record.line,
            duration: record.duration.unwrap_or(0),
            served,
        }
    }

    /// Whether it was refused when it was logged.
    pub(crate) const fn was_refused(&self) -> bool {
        matches!(self.served.status, 429 | 503)
    }
}

/// Who is told of decisions.
pub(crate) trait Sink {
    /// A request was decided after it waited for so many nanoseconds; `what` is its method and path.
    fn decided(
        &mut self,
        role: Role,
        of: &Brief,
        what: &dyn Fn() -> String,
        decided: &Result<Hold, Refusal>,
        waited: u64,
    );
}

/// Everything that is under way.
pub(crate) struct World {
    clock: ManualClock,
    /// When the clock stood at its origin.
    base: i64,
    /// When what runs ends, its number, and its place in `held`.
    running: BinaryHeap<Reverse<(Moment, u64, usize)>>,
    held: Slab<Held>,
    waiting: Vec<Option<Waiting>>,
    free: Vec<usize>,
    woken: Woken,
    count: u64,
}

type Woken = Arc<Mutex<Vec<usize>>>;

/// What a request holds until it ends.
enum Held {
    /// Of a decision.
    Hold(Hold, RecordedResponse),
    /// Of a limit that was asked alone.
    Permit(Permit<'static>, Outcome),
}

/// Things by their places, which are used again.
struct Slab<T> {
    of: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Slab<T> {
    fn put(&mut self, it: T) -> usize {
        match self.free.pop() {
            Some(place) => {
                self.of[place] = Some(it);
                place
            }
            None => {
                self.of.push(Some(it));
                self.of.len() - 1
            }
        }
    }

    fn take(&mut self, place: usize) -> Option<T> {
        self.free.push(place);
        self.of[place].take()
    }
}

struct Waiting {
    decide: Decide,
    role: Role,
    brief: Brief,
    what: String,
    since: Moment,
    waker: Waker,
}

struct Flag {
    place: usize,
    woken: Woken,
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        lock(&self.woken).push(self.place);
    }
}

fn lock(woken: &Woken) -> std::sync::MutexGuard<'_, Vec<usize>> {
    woken.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    /// Nothing happens yet. `first` is when the first request comes: the clock begins with its day, so that windows of whole
    /// minutes and hours are those of the wall.
    pub(crate) fn new(first: i64) -> Self {
        const DAY: i64 = 86_400 * crate::time::SECOND;
        let base = first.div_euclid(DAY) * DAY;
        let world = Self {
            clock: ManualClock::new(),
            base,
            running: BinaryHeap::new(),
            held: Slab {
                of: Vec::new(),
                free: Vec::new(),
            },
            waiting: Vec::new(),
            free: Vec::new(),
            woken: Woken::default(),
            count: 0,
        };
        world.clock.advance_to(world.moment(first));
        world
    }

    /// Limits on this clock. What is used of the machine is not in a log: for them it is nothing.
    pub(crate) fn limits(&self, config: &Config) -> Result<Limits, ConfigError> {
        let sampler = Sampler::new(self.clock.clock());
        sampler.memory_source(|| {
            Ok(MemoryReading {
                used: 0,
                total: Some(1 << 40),
            })
        });
        sampler.cpu_source(|| {
            Ok(CpuReading {
                used: Duration::ZERO,
                cores: 1.0,
            })
        });
        config.build_sampled(&sampler).map(Limits::of)
    }

    fn moment(&self, at: i64) -> Moment {
        Moment::from_nanos(u64::try_from(at.saturating_sub(self.base)).unwrap_or(0))
    }

    /// Lets everything happen until a moment.
    pub(crate) fn pass_until(&mut self, at: i64, sink: &mut impl Sink) {
        let until = self.moment(at);
        while let Some(next) = self.next().filter(|next| *next <= until) {
            self.happen(next, sink);
        }
        if self.clock.now() < until {
            self.clock.advance_to(until);
        }
    }

    /// Lets everything happen that still will.
    pub(crate) fn finish(&mut self, sink: &mut impl Sink) {
        while let Some(next) = self.next() {
            self.happen(next, sink);
        }
    }

    fn next(&self) -> Option<Moment> {
        let ends = self.running.peek().map(|Reverse((end, ..))| *end);
        // Alarms concern only those who wait.
        let waits = self.free.len() < self.waiting.len();
        let rings = waits.then(|| self.clock.next_alarm()).flatten();
        ends.into_iter().chain(rings).min()
    }

    fn happen(&mut self, now: Moment, sink: &mut impl Sink) {
        self.clock.advance_to(now);
        while let Some(Reverse((end, _, place))) = self.running.peek()
            && *end <= now
        {
            let place = *place;
            self.running.pop();
            match self.held.take(place) {
                Some(Held::Hold(hold, served)) => end_hold(hold, &served),
                Some(Held::Permit(permit, outcome)) => permit.finish(outcome),
                None => {}
            }
        }
        self.poll_woken(sink);
    }

    /// Goes on with those who were woken.
    fn poll_woken(&mut self, sink: &mut impl Sink) {
        loop {
            let woken = std::mem::take(&mut *lock(&self.woken));
            if woken.is_empty() {
                return;
            }
            for place in woken {
                self.poll(place, sink);
            }
        }
    }

    fn poll(&mut self, place: usize, sink: &mut impl Sink) {
        let Some(waiting) = &mut self.waiting[place] else {
            return;
        };
        let mut cx = Context::from_waker(&waiting.waker);
        let Poll::Ready(decided) = Pin::new(&mut waiting.decide).poll(&mut cx) else {
            return;
        };
        let Some(waiting) = self.waiting[place].take() else {
            return;
        };
        self.free.push(place);
        let now = self.clock.now();
        let waited = u64::try_from(now.since(waiting.since).as_nanos()).unwrap_or(u64::MAX);
        sink.decided(
            waiting.role,
            &waiting.brief,
            &|| waiting.what.clone(),
            &decided,
            waited,
        );
        self.start(decided, &waiting.brief);
    }

    /// Follows a decision to its end.
    #[inline]
    pub(crate) fn follow(
        &mut self,
        mut decide: Decide,
        role: Role,
        brief: &Brief,
        record: &Record,
        sink: &mut impl Sink,
    ) {
        match decide.now() {
            Some(decided) => self.decided(decided, role, brief, record, sink),
            None => self.wait(decide, role, brief, record, sink),
        }
    }

    /// A request was decided at once.
    #[inline]
    pub(crate) fn decided(
        &mut self,
        decided: Result<Hold, Refusal>,
        role: Role,
        brief: &Brief,
        record: &Record,
        sink: &mut impl Sink,
    ) {
        sink.decided(role, brief, &|| what(record), &decided, 0);
        self.start(decided, brief);
    }

    /// Waits for a decision.
    pub(crate) fn wait(
        &mut self,
        decide: Decide,
        role: Role,
        brief: &Brief,
        record: &Record,
        sink: &mut impl Sink,
    ) {
        let place = self.free.pop().unwrap_or(self.waiting.len());
        let flag = Flag {
            place,
            woken: Arc::clone(&self.woken),
        };
        let waiting = Some(Waiting {
            decide,
            role,
            brief: *brief,
            what: what(record),
            since: self.clock.now(),
            waker: Waker::from(Arc::new(flag)),
        });
        match self.waiting.get_mut(place) {
            Some(free) => *free = waiting,
            None => self.waiting.push(waiting),
        }
        self.poll(place, sink);
        self.poll_woken(sink);
    }

    /// Holds what was granted until the request ends.
    fn start(&mut self, decided: Result<Hold, Refusal>, brief: &Brief) {
        let Ok(hold) = decided else {
            return;
        };
        if !hold.gives_back() && !hold.settles() {
            return;
        }
        if brief.duration == 0 {
            return end_hold(hold, &brief.served);
        }
        self.run(Held::Hold(hold, brief.served), brief);
    }

    /// Holds what a limit granted that was asked alone until the request ends.
    pub(crate) fn hold(&mut self, permit: Permit<'_>, brief: &Brief) {
        if !permit.gives_back() {
            return;
        }
        let outcome = outcome(&brief.served);
        if brief.duration == 0 {
            return permit.finish(outcome);
        }
        self.run(Held::Permit(permit.into_owned(), outcome), brief);
    }

    fn run(&mut self, held: Held, brief: &Brief) {
        self.count += 1;
        let end = self.clock.now().plus(Duration::from_nanos(brief.duration));
        let place = self.held.put(held);
        self.running.push(Reverse((end, self.count, place)));
    }
}

/// A request has been served.
fn end_hold(mut hold: Hold, served: &RecordedResponse) {
    hold.settle_recorded(served);
    hold.finish(outcome(served));
}

const fn outcome(served: &RecordedResponse) -> Outcome {
    match served.status {
        429 | 503 | 504 => Outcome::Overload,
        500.. => Outcome::Ignore,
        _ => Outcome::Success,
    }
}

/// The method and the path of a record: what follows a `?` may be secret.
fn what(record: &Record) -> String {
    let path = record.target().split('?').next().unwrap_or_default();
    let path: String = path.chars().take(200).collect();
    format!("{} {path}", record.method())
}
