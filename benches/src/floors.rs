//! What no limiter can do without: reading a clock, changing a shared word, and both.
//!
//! The bucket written by hand is a single number, the moment at which it is full again; no name, no
//! totals, no queue, no answer but yes or no.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use plimsoll::Clock;

use crate::asking::{Answer, Trial, asked, now};
use crate::contender::Contender;
use crate::contender::Role::Floor;

pub(crate) const BY_WORD: &str = "bucket by hand, word for a clock";
pub(crate) const BY_COUNTER: &str = "bucket by hand, processor's counter";
const COARSE: &str = "clock: the kernel's coarse clock";

/// A moment that is there to be read, as a coarse clock publishes it.
pub(crate) static PUBLISHED: AtomicU64 = AtomicU64::new(1 << 40);

/// By how much the kernel's coarse clock may be late.
static LATE: AtomicU64 = AtomicU64::new(12_000_000);

/// Reading clocks, whoever asks.
pub(crate) fn clocks() -> Vec<Contender<Trial>> {
    vec![
        asked(
            Floor,
            "clock: a word in memory",
            |_| (),
            |()| black_box(PUBLISHED.load(Ordering::Acquire)) > 0,
        ),
        asked(
            Floor,
            "clock: the processor's counter",
            |_| quanta::Clock::new(),
            |clock| black_box(clock.raw()) > 0,
        ),
        asked(
            Floor,
            "clock: the counter, in nanoseconds",
            |_| quanta::Clock::new(),
            |clock| black_box(clock.delta_as_nanos(0, clock.raw())) > 0,
        ),
        asked(
            Floor,
            "clock: Instant",
            |_| now(),
            |start| black_box(now()) >= *start,
        ),
    ]
}

/// Reading the clock that ours read by default, whatever is answered.
pub(crate) fn coarse_clock() -> Vec<Contender<Trial>> {
    let granted = |answer| (Clock::system(), answer == Answer::Granted);
    let read = |(clock, granted): &(Clock, bool)| {
        black_box(clock.now());
        *granted
    };
    vec![asked(Floor, COARSE, granted, read)]
}

/// Changing a word that others may change.
pub(crate) fn words() -> Vec<Contender<Trial>> {
    vec![
        asked(
            Floor,
            "load, compare and exchange",
            |_| AtomicU64::new(0),
            |word| swap_in(word, |old| Some(old + 1)),
        ),
        asked(
            Floor,
            "fetch and add",
            |_| AtomicU64::new(0),
            |word| black_box(word.fetch_add(1, Ordering::AcqRel)) < u64::MAX,
        ),
    ]
}

/// The least that can be called a limiter.
pub(crate) fn buckets() -> Vec<Contender<Trial>> {
    vec![
        asked(
            Floor,
            BY_WORD,
            |answer| Bucket::new(answer, ()),
            |bucket| bucket.take(PUBLISHED.load(Ordering::Acquire)),
        ),
        asked(
            Floor,
            "bucket by hand, the kernel's coarse clock",
            |answer| Bucket::new(answer, Clock::system()),
            |bucket| bucket.take(bucket.clock.now().as_nanos()),
        ),
        asked(
            Floor,
            "bucket by hand, the kernel's coarse clock, answers whole and counted",
            |answer| Bucket::new(answer, Clock::system()),
            |bucket| bucket.answer(bucket.clock.now().as_nanos()),
        ),
        asked(
            Floor,
            BY_COUNTER,
            |answer| Bucket::new(answer, quanta::Clock::new()),
            |bucket| bucket.take(bucket.clock.raw()),
        ),
        asked(
            Floor,
            "bucket by hand, counter in nanoseconds",
            |answer| Bucket::new(answer, quanta::Clock::new()),
            |bucket| bucket.take(bucket.clock.delta_as_nanos(0, bucket.clock.raw())),
        ),
    ]
}

/// What those cannot do without that spend what their thread has in stock, or whose state does not fit a word.
pub(crate) fn stocks_and_locks() -> Vec<Contender<Trial>> {
    thread_local! {
        static LEFT: Cell<u64> = const { Cell::new(0) };
    }
    vec![
        asked(
            Floor,
            "a stock of the thread, the kernel's coarse clock",
            |_| (Clock::system(), u64::MAX),
            |(clock, until)| {
                let left = LEFT.get();
                LEFT.set(if left > 0 { left - 1 } else { 32 });
                black_box(clock.now().as_nanos()) < *until
            },
        ),
        asked(
            Floor,
            "a stock of the thread, bounded in time, that a bucket by hand refills and counts",
            |answer| Stocked::new(Bucket::new(answer, Clock::system())),
            Stocked::take,
        ),
        asked(
            Floor,
            "a lock, the kernel's coarse clock",
            |_| (Clock::system(), Mutex::new(0)),
            |(clock, used)| {
                let now = clock.now().as_nanos();
                let mut used = used.lock().expect("nobody panics");
                *used += 1;
                now > *used
            },
        ),
    ]
}

/// A bucket of which threads take a batch at a time. A stock is that of one bucket of several, and is held for a while at most.
struct Stocked {
    bucket: Bucket<Clock>,
    id: usize,
    closed: AtomicBool,
    granted: AtomicU64,
}

/// What a thread has of a bucket.
struct Stock {
    id: Cell<usize>,
    left: Cell<u64>,
    taken: Cell<u64>,
    until: Cell<u64>,
}

const BATCH: u64 = 32;
const HELD: u64 = 10_000_000;

thread_local! {
    static STOCKS: [Stock; 16] = const {
        [const {
            Stock {
                id: Cell::new(0),
                left: Cell::new(0),
                taken: Cell::new(0),
                until: Cell::new(0),
            }
        }; 16]
    };
}

impl Stocked {
    fn new(bucket: Bucket<Clock>) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        Self {
            bucket,
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            closed: AtomicBool::new(false),
            granted: AtomicU64::new(0),
        }
    }

    fn take(&self) -> bool {
        let taken = STOCKS.with(|stocks| {
            let stock = &stocks[self.id % stocks.len()];
            let left = stock.left.get();
            let has = stock.id.get() == self.id && left > 0;
            let open = has && !self.closed.load(Ordering::Acquire);
            if !open || self.bucket.clock.now().as_nanos() >= stock.until.get() {
                return None;
            }
            stock.left.set(left - 1);
            Some(stock.taken.get())
        });
        taken.is_some() || self.restock()
    }

    #[inline(never)]
    fn restock(&self) -> bool {
        let Bucket {
            full_at,
            token,
            burst,
            clock,
            ..
        } = &self.bucket;
        let now = clock.now().as_nanos();
        let granted = swap_in(full_at, |full_at| {
            let full_at = full_at.max(now) + BATCH * token;
            (full_at <= now + burst).then_some(full_at)
        });
        if !granted {
            return self.bucket.take(now);
        }
        STOCKS.with(|stocks| {
            let stock = &stocks[self.id % stocks.len()];
            stock.id.set(self.id);
            stock.left.set(BATCH - 1);
            stock.taken.set(now);
            stock.until.set(now + HELD);
        });
        self.granted.fetch_add(BATCH, Ordering::Relaxed);
        true
    }
}

struct Bucket<C> {
    full_at: AtomicU64,
    token: u64,
    burst: u64,
    clock: C,
    /// How often it granted and refused.
    counts: Counts,
}

/// Keeps what a refusal says, unless the clock may be too late for it.
pub(crate) fn refuse(limit: u64, now: u64, ready_at: u64, full_at: u64) -> bool {
    if now + LATE.load(Ordering::Relaxed) >= ready_at {
        return false;
    }
    black_box(&Refused {
        _reason: 1,
        _limit: limit,
        _remaining: 0,
        _at: now,
        _ready_at: ready_at,
        _full_at: full_at,
        _limiter: None,
    });
    true
}

/// As much as a refusal of ours says.
struct Refused {
    _reason: u64,
    _limit: u64,
    _remaining: u64,
    _at: u64,
    _ready_at: u64,
    _full_at: u64,
    _limiter: Option<&'static str>,
}

impl<C> Bucket<C> {
    fn new(answer: Answer, clock: C) -> Self {
        let (token, burst) = match answer {
            Answer::Granted => (1, 1 << 32),
            Answer::Denied => (1 << 42, 0),
        };
        Self {
            full_at: AtomicU64::new(0),
            token,
            burst,
            clock,
            counts: Counts::default(),
        }
    }

    /// Keeps what a refusal says, and counts. Nothing is refused because the clock is late.
    fn answer(&self, now: u64) -> bool {
        let granted = self.take(now);
        if !granted {
            let full_at = self.full_at.load(Ordering::Acquire).max(now);
            let ready_at = full_at + self.token - self.burst;
            if !refuse(self.burst, now, ready_at, full_at) {
                return self.answer_precisely();
            }
        }
        self.counts.add(usize::from(!granted));
        granted
    }

    #[cold]
    fn answer_precisely(&self) -> bool {
        self.take(Clock::precise().now().as_nanos())
    }

    fn take(&self, now: u64) -> bool {
        swap_in(&self.full_at, |full_at| {
            let full_at = full_at.max(now) + self.token;
            (full_at <= now + self.burst).then_some(full_at)
        })
    }
}

/// Two counts that are exact whatever threads add to them, and of which no thread waits for another: each has a line of its
/// own, of at most so many threads at once.
#[derive(Default)]
pub(crate) struct Counts([Line; 16]);

#[derive(Default)]
#[repr(align(64))]
struct Line([AtomicU64; 2]);

thread_local! {
    /// The number of the thread, or `usize::MAX` before it has one.
    static THREAD: Cell<usize> = const { Cell::new(usize::MAX) };
}

impl Counts {
    pub(crate) fn add(&self, which: usize) {
        let line = match self.0.get(THREAD.get()) {
            Some(line) => line,
            None => self.number_thread(),
        };
        let count = &line.0[which];
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    #[cold]
    fn number_thread(&self) -> &Line {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed) % self.0.len();
        THREAD.set(number);
        &self.0[number]
    }
}

pub(crate) fn swap_in(word: &AtomicU64, next: impl Fn(u64) -> Option<u64>) -> bool {
    let mut old = word.load(Ordering::Acquire);
    while let Some(new) = next(old) {
        match word.compare_exchange_weak(old, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return true,
            Err(other) => old = other,
        }
    }
    false
}
