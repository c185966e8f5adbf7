//! The limiters, what is done to them, and what must hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plimsoll::adaptive::{Adaptive, Verdict};
use plimsoll::{
    All, Concurrency, Demand, Gate, Keyed, Limiter, LimiterExt, Outcome, Permit, Priority, Queue,
    Quota, SlidingLog, TokenBucket,
};

use crate::chance::Chance;
use crate::more::More;
use crate::record::{Record, Stopwatch};
use crate::waker;

/// What the default clock may be late by, twice (a grant and its expiry), with what a test takes to read its own clock.
pub(crate) const LATE: Duration = Duration::from_millis(25);

const SLOTS: u64 = 7;
const MOST_SLOTS: u64 = 9;
const BUCKET: (u64, u64) = (2000, 50);
const LOG: (u64, Duration) = (500, Duration::from_millis(100));
const KEYS: u64 = 6;

/// Threads that ask. More than there are processors, so that holders are preempted in the middle.
pub(crate) const ASKERS: u64 = 12;

/// How much is held at once, seen by those who hold it.
#[derive(Default)]
pub(crate) struct Held(AtomicU64);

impl Held {
    fn hold<T>(&self, cost: u64, limit: u64, while_held: impl FnOnce() -> T) -> T {
        let held = self.0.fetch_add(cost, Ordering::SeqCst) + cost;
        assert!(held <= limit, "{held} held at once of {limit}");
        let output = while_held();
        self.0.fetch_sub(cost, Ordering::SeqCst);
        output
    }
}

pub(crate) struct Subjects {
    slots: Gate<Concurrency>,
    slots_held: Held,
    resized: Gate<Concurrency>,
    resized_held: Held,
    bucket: Gate<TokenBucket>,
    bucket_record: Record,
    log: Gate<SlidingLog>,
    log_record: Record,
    learning: Gate<Adaptive<Verdict>>,
    keyed_slots: Keyed<u64, Concurrency>,
    keyed_held: Vec<Held>,
    keyed_buckets: Keyed<u64, TokenBucket>,
    keyed_record: Vec<Record>,
    left: Gate<Concurrency>,
    right: Gate<Concurrency>,
    both: All,
    both_held: Held,
    more: More,
}

fn queue() -> Queue {
    Queue::fifo(40).timeout(Duration::from_millis(30))
}

fn slots(limit: u64, queue: Queue) -> Gate<Concurrency> {
    Gate::builder(Concurrency::new(limit)).queue(queue).build()
}

impl Subjects {
    pub(crate) fn new() -> Self {
        let (rate, burst) = BUCKET;
        let bucket = TokenBucket::per_second(rate).burst(burst);
        let left = slots(2, Queue::fifo(1000));
        let right = slots(3, Queue::fifo(1000));
        let members: [Arc<dyn Limiter>; 2] = [Arc::new(left.clone()), Arc::new(right.clone())];
        Self {
            slots: slots(SLOTS, queue()),
            slots_held: Held::default(),
            resized: slots(MOST_SLOTS, Queue::lifo(40)),
            resized_held: Held::default(),
            bucket: Gate::builder(bucket.clone()).queue(queue()).build(),
            bucket_record: Record::default(),
            log: Gate::new(SlidingLog::new(Quota::new(LOG.0, LOG.1))),
            log_record: Record::default(),
            learning: Gate::builder(Adaptive::new(Verdict::new()))
                .queue(queue())
                .build(),
            keyed_slots: Keyed::builder(Concurrency::new(2))
                .queue(queue())
                .max_keys(16)
                .build(),
            keyed_held: (0..KEYS).map(|_| Held::default()).collect(),
            keyed_buckets: Keyed::builder(TokenBucket::per_second(500).burst(10))
                .max_keys(16)
                .build(),
            keyed_record: (0..KEYS).map(|_| Record::default()).collect(),
            both: All::new(members),
            both_held: Held::default(),
            more: More::new(),
            left,
            right,
        }
    }

    /// One random thing.
    pub(crate) fn step(&self, chance: &mut Chance, watch: &Stopwatch) {
        match chance.below(18) {
            0 | 1 => self.ask_slots(chance),
            2 => self.ask_resized(chance),
            3 | 4 => self.ask_bucket(chance, watch),
            5 | 6 => self.ask_log(chance, watch),
            7 => self.learn(chance),
            8 => self.ask_keyed_slots(chance),
            9 => self.ask_keyed_buckets(chance, watch),
            10 => self.ask_both(chance),
            11..=16 => self.more.step(chance, watch),
            _ => self.look_and_change(chance),
        }
    }

    fn ask_slots(&self, chance: &mut Chance) {
        let cost = chance.cost(4);
        if let Some(permit) = ask(&self.slots, cost, chance) {
            use_up(permit, &self.slots_held, SLOTS, chance);
        }
    }

    fn ask_resized(&self, chance: &mut Chance) {
        let cost = chance.cost(3);
        if let Some(permit) = ask(&self.resized, cost, chance) {
            use_up(permit, &self.resized_held, MOST_SLOTS, chance);
        }
    }

    fn ask_bucket(&self, chance: &mut Chance, watch: &Stopwatch) {
        let before = watch.now();
        let cost = chance.cost(5);
        if let Some(permit) = ask(&self.bucket, cost, chance) {
            // What is undone at once may be used by others.
            if chance.one_in(8) {
                permit.undo();
            } else {
                self.bucket_record.add(before, watch.now(), cost);
                permit.forget();
            }
        }
    }

    fn ask_log(&self, chance: &mut Chance, watch: &Stopwatch) {
        let cost = chance.cost(9);
        let before = watch.now();
        if let Ok(permit) = self.log.try_acquire(cost) {
            if chance.one_in(16) {
                permit.undo();
            } else {
                self.log_record.add(before, watch.now(), cost);
            }
        }
    }

    fn learn(&self, chance: &mut Chance) {
        if let Some(permit) = ask(&self.learning, 1, chance) {
            permit.finish(match chance.below(4) {
                0 => Outcome::Overload,
                1 => Outcome::Ignore,
                _ => Outcome::Success,
            });
        }
    }

    fn ask_keyed_slots(&self, chance: &mut Chance) {
        let key = chance.below(KEYS);
        let held = &self.keyed_held[usize::try_from(key).expect("few")];
        let permit = if chance.one_in(2) {
            self.keyed_slots.try_acquire(&key, 1).ok()
        } else {
            let demand = Demand::ONE.within(Duration::from_millis(chance.below(20)));
            let future = self.keyed_slots.acquire(&key, demand);
            block_on(future).ok()
        };
        if let Some(permit) = permit {
            use_up(permit, held, 2, chance);
        }
    }

    fn ask_keyed_buckets(&self, chance: &mut Chance, watch: &Stopwatch) {
        let key = chance.below(KEYS);
        let before = watch.now();
        if self.keyed_buckets.try_acquire(&key, 1).is_ok() {
            let record = &self.keyed_record[usize::try_from(key).expect("few")];
            record.add(before, watch.now(), 1);
        }
        // Others come and go, and are forgotten.
        let _passing = self.keyed_buckets.try_acquire(&(100 + chance.below(40)), 1);
    }

    fn ask_both(&self, chance: &mut Chance) {
        let permit = if chance.one_in(3) {
            self.both.try_acquire(1).ok()
        } else {
            let within = Duration::from_millis(1 + chance.below(20));
            block_on(self.both.acquire(Demand::ONE.within(within))).ok()
        };
        if let Some(permit) = permit {
            use_up(permit, &self.both_held, 2, chance);
        }
        if chance.one_in(2)
            && let Some(permit) = ask(&self.left, 1, chance)
        {
            drop(permit);
        }
        if chance.one_in(2)
            && let Some(permit) = ask(&self.right, 1, chance)
        {
            drop(permit);
        }
    }

    fn look_and_change(&self, chance: &mut Chance) {
        match chance.below(8) {
            0 => self
                .resized
                .resize(chance.cost(MOST_SLOTS))
                .expect("at least 1"),
            1 => self.resized.set_queue(Some(Queue::fifo(30))),
            2 => self
                .resized
                .set_queue(Some(Queue::lifo(20).timeout(Duration::from_millis(5)))),
            3 => drop(self.slots.subscribe(16)),
            4 => drop(self.bucket.estimate(chance.cost(20))),
            5 => drop(self.both.estimate(Demand::ONE)),
            6 => assert!(self.slots.snapshot().in_use() <= SLOTS),
            _ => drop(self.keyed_buckets.top(3)),
        }
    }

    pub(crate) fn check_in_the_end(&self) {
        let gates: [(&str, &dyn Limiter, u64); 4] = [
            ("slots", &self.slots, SLOTS),
            ("left", &self.left, 2),
            ("right", &self.right, 3),
            ("learning", &self.learning, 0),
        ];
        for (what, gate, limit) in gates {
            let seen = gate.snapshot();
            assert_eq!(
                (seen.in_use(), seen.queued(), seen.waiters()),
                (0, 0, 0),
                "{what}"
            );
            if limit > 0 {
                let all = gate.try_acquire(Demand::of(limit)).expect(what);
                assert!(
                    gate.try_acquire(Demand::ONE).is_err(),
                    "{what} has more than its limit"
                );
                drop(all);
            }
        }
        self.more.check_in_the_end();
        let resized = self.resized.snapshot();
        assert_eq!((resized.in_use(), resized.queued()), (0, 0));
        let keyed = self.keyed_slots.snapshot();
        assert_eq!((keyed.in_use(), keyed.queued()), (0, 0));
        assert_eq!(self.bucket.snapshot().queued(), 0);

        let (rate, burst) = BUCKET;
        for span in [5, 50, 500].map(Duration::from_millis) {
            let late = (span + LATE).as_secs_f64() * rate as f64;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "small"
            )]
            let allowed = burst + late.ceil() as u64;
            self.bucket_record.check("bucket", span, allowed);
            let allowed = 10 + (allowed - burst).div_ceil(rate / 500);
            for record in &self.keyed_record {
                record.check("keyed bucket", span, allowed);
            }
        }
        let (limit, window) = LOG;
        self.log_record.check("log", window - LATE, limit);
    }
}

/// Asks in one of many ways. Whatever is granted and not returned here comes back as a permit.
pub(crate) fn ask<'a>(
    limiter: &'a dyn Limiter,
    cost: u64,
    chance: &mut Chance,
) -> Option<Permit<'a>> {
    let priority = Priority::ALL[usize::try_from(chance.below(3)).expect("three")];
    let demand = Demand::of(cost).priority(priority);
    let within = Duration::from_micros(chance.below(8000));
    match chance.below(8) {
        0 | 1 => limiter.try_acquire(demand).ok(),
        2 | 3 => block_on(limiter.acquire(demand.within(within))).ok(),
        4 => limiter.acquire_blocking(demand.within(within)).ok(),
        5 => {
            // Cancelled in the middle, or granted at once.
            let granted = waker::poll_once_and_drop(limiter.acquire(demand), &waker::panicking());
            granted.and_then(Result::ok)
        }
        6 => {
            drop(limiter.reserve(demand.within(within)));
            None
        }
        _ => {
            // Owned, and finished by another thread.
            let permit = block_on(limiter.acquire_owned(demand.within(within))).ok()?;
            std::thread::scope(|scope| {
                scope.spawn(move || drop(permit));
            });
            None
        }
    }
}

/// Holds a permit for a moment and ends it in one of many ways.
pub(crate) fn use_up(mut permit: Permit<'_>, held: &Held, limit: u64, chance: &mut Chance) {
    let spins = chance.below(2000);
    held.hold(permit.cost(), limit, || {
        for step in 0..spins {
            std::hint::black_box(step);
        }
    });
    match chance.below(6) {
        0 => permit.undo(),
        1 => permit.finish(Outcome::Success),
        2 => {
            let part = permit.split(permit.cost() / 2);
            drop(permit);
            drop(part);
        }
        3 => {
            if let Some(part) = permit.split(permit.cost() / 2) {
                assert!(permit.merge(part).is_ok(), "of one limiter");
            }
            drop(permit);
        }
        4 => {
            permit.give_back(Outcome::Overload);
            permit.give_back(Outcome::Success);
            permit.undo();
        }
        _ => drop(permit.into_owned()),
    }
}

/// Waits on this thread: what a runtime does, without one.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        if let std::task::Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        std::thread::park();
    }
}
