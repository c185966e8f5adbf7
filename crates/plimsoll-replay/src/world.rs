//! Decisions in virtual time: requests wait in queues, hold their permits until they end, and are charged then.

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

/// The purpose of a decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// The new configuration.
    New,
    /// The configuration for comparison.
    Old,
    /// A limit of the new configuration alone.
    Alone(usize),
    /// A limit with another number.
    Candidate(usize),
}

/// The parts of a request that are kept while it is decided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Brief {
    /// The number of the request in the replay.
    pub(crate) number: u64,
    pub(crate) at: i64,
    pub(crate) file: u32,
    pub(crate) line: u64,
    pub(crate) duration: u64,
    pub(crate) served: RecordedResponse,
    /// Whether its decision waits, so that its demand was counted before.
    pub(crate) waits: bool,
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
            waits: false,
        }
    }

    /// Whether it was refused when it was logged.
    pub(crate) const fn was_refused(&self) -> bool {
        matches!(self.served.status, 429 | 503)
    }
}

/// A receiver of decisions.
pub(crate) trait Sink {
    /// Receives a decision, after the request waited for `waited` nanoseconds. `what` returns its method and path.
    fn decided(
        &mut self,
        role: Role,
        of: &Brief,
        what: &dyn Fn() -> String,
        decided: &Result<Hold, Refusal>,
        waited: u64,
    );
}

/// The running and the waiting requests, on a virtual clock.
pub(crate) struct World {
    clock: ManualClock,
    /// The moment of the clock's origin.
    base: i64,
    /// The end of each running request, its number, and its place in `held`.
    running: BinaryHeap<Reverse<(Moment, u64, usize)>>,
    held: Slab<HeldRequest>,
    waiting: Vec<Option<Waiting>>,
    free: Vec<usize>,
    wakeups: Wakeups,
    count: u64,
}

type Wakeups = Arc<Mutex<Vec<usize>>>;

/// The permits of a running request.
enum HeldRequest {
    /// The permits of a decision of all limits.
    Hold(Hold, RecordedResponse),
    /// The permit of a limit that decided alone.
    Permit(Permit<'static>, Outcome),
}

/// Values by their places, which are reused.
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
    wakeups: Wakeups,
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        lock(&self.wakeups).push(self.place);
    }
}

fn lock(wakeups: &Wakeups) -> std::sync::MutexGuard<'_, Vec<usize>> {
    wakeups.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    /// Starts the clock at the beginning of the day of `first`, the arrival of the first request, so that windows of whole minutes
    /// and hours are those of wall-clock time.
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
            wakeups: Wakeups::default(),
            count: 0,
        };
        world.clock.advance_to(world.moment(first));
        world
    }

    /// Limits on this clock. Logs have no usage of the machine: it counts as zero.
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

    /// Advances the clock to a moment, and handles all events until then.
    pub(crate) fn pass_until(&mut self, at: i64, sink: &mut impl Sink) {
        let until = self.moment(at);
        while let Some(next) = self.next().filter(|next| *next <= until) {
            self.happen(next, sink);
        }
        if self.clock.now() < until {
            self.clock.advance_to(until);
        }
    }

    /// Handles all remaining events.
    pub(crate) fn finish(&mut self, sink: &mut impl Sink) {
        while let Some(next) = self.next() {
            self.happen(next, sink);
        }
    }

    fn next(&self) -> Option<Moment> {
        let ends = self.running.peek().map(|Reverse((end, ..))| *end);
        // Alarms are needed only for waiters.
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
                Some(HeldRequest::Hold(hold, served)) => end_hold(hold, &served),
                Some(HeldRequest::Permit(permit, outcome)) => permit.finish(outcome),
                None => {}
            }
        }
        self.poll_ready(sink);
    }

    /// Polls the decisions that were woken up.
    fn poll_ready(&mut self, sink: &mut impl Sink) {
        loop {
            let wakeups = std::mem::take(&mut *lock(&self.wakeups));
            if wakeups.is_empty() {
                return;
            }
            for place in wakeups {
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

    /// Makes a decision. A request that has to wait is stored.
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

    /// Handles a request that was decided at once.
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

    /// Stores a decision that has to wait.
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
            wakeups: Arc::clone(&self.wakeups),
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
        self.poll_ready(sink);
    }

    /// Holds the permits of a request until it ends.
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
        self.run(HeldRequest::Hold(hold, brief.served), brief);
    }

    /// Holds the permit of a limit that decided alone until the request ends.
    pub(crate) fn hold(&mut self, permit: Permit<'_>, brief: &Brief) {
        if !permit.gives_back() {
            return;
        }
        let outcome = outcome(&brief.served);
        if brief.duration == 0 {
            return permit.finish(outcome);
        }
        self.run(HeldRequest::Permit(permit.into_owned(), outcome), brief);
    }

    fn run(&mut self, held: HeldRequest, brief: &Brief) {
        self.count += 1;
        let end = self.clock.now().plus(Duration::from_nanos(brief.duration));
        let place = self.held.put(held);
        self.running.push(Reverse((end, self.count, place)));
    }
}

/// Ends the permits of a request that has been served.
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

/// The method and the path of a record, without the query, which may be secret.
fn what(record: &Record) -> String {
    let path = record.target().split('?').next().unwrap_or_default();
    let path: String = path.chars().take(200).collect();
    format!("{} {path}", record.method())
}
