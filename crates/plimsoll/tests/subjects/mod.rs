//! Every kind of limiter, as something that permits are taken from and come back to.

use std::sync::Arc;
use std::time::Duration;

use plimsoll::adaptive::{Adaptive, Limit, Sample};
use plimsoll::{
    All, Bandwidths, Batched, Concurrency, Demand, FixedWindow, Gate, Keyed, Limiter, LimiterExt,
    ManualClock, Partitions, PenaltyBucket, Permit, Quota, Refresh, Rule, SlidingCounter,
    SlidingLog, SlidingWindow, TokenBucket,
};

pub(crate) const LIMIT: u64 = 12;

/// So long that nothing worth mentioning comes back while a test lasts.
const AGES: Duration = Duration::from_secs(1_000_000);

/// One of the limits that a limiter keeps.
pub(crate) struct Part {
    /// Whether dropping a permit gives it back.
    pub(crate) gives_back: bool,
    pub(crate) in_use: u64,
}

pub(crate) trait Subject {
    fn name(&self) -> &str;
    fn take(&self, cost: u64) -> Option<Permit<'_>>;
    fn undo(&self, permit: Permit<'_>) {
        permit.undo();
    }
    /// What each of its limits has in use.
    fn parts(&self) -> Vec<Part>;
    /// Whether permits know where they come from, and can be merged.
    fn is_known(&self) -> bool {
        true
    }
    /// How much less than was taken may come back, if time has passed: a bucket that is filled all the time cannot tell
    /// what has come from what would have found no room.
    fn may_lose(&self) -> bool {
        false
    }
}

/// A limiter, and those that stand behind it.
struct Plain {
    name: &'static str,
    limiter: Arc<dyn Limiter>,
    parts: Vec<(bool, Arc<dyn Limiter>)>,
}

impl Subject for Plain {
    fn name(&self) -> &str {
        self.name
    }

    fn take(&self, cost: u64) -> Option<Permit<'_>> {
        self.limiter.try_acquire(Demand::of(cost)).ok()
    }

    fn parts(&self) -> Vec<Part> {
        let part = |(gives_back, limiter): &(bool, Arc<dyn Limiter>)| Part {
            gives_back: *gives_back,
            in_use: limiter.snapshot().in_use(),
        };
        self.parts.iter().map(part).collect()
    }

    fn may_lose(&self) -> bool {
        self.name == "greedy" || self.name == "penalty"
    }
}

/// The same, taken without a borrow: a permit of a rate then does not know its gate.
struct Unbound(Plain);

impl Subject for Unbound {
    fn name(&self) -> &str {
        "unbound"
    }

    fn take(&self, cost: u64) -> Option<Permit<'_>> {
        self.0.limiter.attempt_owned(Demand::of(cost))
    }

    fn undo(&self, permit: Permit<'_>) {
        self.0.limiter.undo(permit);
    }

    fn parts(&self) -> Vec<Part> {
        self.0.parts()
    }

    fn is_known(&self) -> bool {
        false
    }
}

struct OfKey<R: Rule>(&'static str, Keyed<String, R>);

impl<R: Rule + Clone> Subject for OfKey<R> {
    fn name(&self) -> &str {
        self.0
    }

    fn take(&self, cost: u64) -> Option<Permit<'_>> {
        self.1.try_acquire("anna", cost).ok()
    }

    fn undo(&self, permit: Permit<'_>) {
        self.1.undo("anna", permit);
    }

    fn parts(&self) -> Vec<Part> {
        let left = self
            .1
            .standing("anna")
            .remaining
            .expect("a limit in memory");
        vec![Part {
            gives_back: R::RETURNS_PERMITS,
            in_use: LIMIT - left,
        }]
    }

    fn is_known(&self) -> bool {
        R::RETURNS_PERMITS
    }
}

struct InBatches(Batched<FixedWindow>);

impl Subject for InBatches {
    fn name(&self) -> &str {
        "batched"
    }

    fn take(&self, cost: u64) -> Option<Permit<'_>> {
        self.0.try_acquire(cost).ok()
    }

    fn parts(&self) -> Vec<Part> {
        self.0.return_stock();
        vec![Part {
            gives_back: false,
            in_use: self.0.snapshot().in_use(),
        }]
    }
}

/// An algorithm that has made up its mind.
#[derive(Debug)]
struct Fixed;

impl Limit for Fixed {
    fn limit(&self) -> u64 {
        LIMIT
    }

    fn sample(&mut self, _sample: &Sample) {}
}

fn gate<R: Rule>(rule: R, time: &ManualClock) -> Arc<dyn Limiter> {
    Arc::new(Gate::builder(rule).clock(time.clock()).build())
}

fn plain<R: Rule>(name: &'static str, rule: R, time: &ManualClock) -> Plain {
    let limiter = gate(rule, time);
    Plain {
        name,
        limiter: Arc::clone(&limiter),
        parts: vec![(R::RETURNS_PERMITS, limiter)],
    }
}

fn keyed<R: Rule + Clone>(name: &'static str, rule: R, time: &ManualClock) -> OfKey<R> {
    OfKey(name, Keyed::builder(rule).clock(time.clock()).build())
}

/// One of each kind, with a limit of [`LIMIT`].
pub(crate) fn subjects(time: &ManualClock) -> Vec<Box<dyn Subject>> {
    let quota = Quota::new(LIMIT, AGES);
    let slots = || Concurrency::new(LIMIT);
    let interval = TokenBucket::interval(quota);
    let shared = Gate::builder(slots()).clock(time.clock()).build();
    let partition = Partitions::try_new(shared.clone(), [("one", 1)]).expect("a partition");
    let members = [gate(slots(), time), gate(SlidingLog::new(quota), time)];
    let window = Gate::builder(FixedWindow::new(quota)).clock(time.clock());
    vec![
        Box::new(plain("slots", slots(), time)),
        Box::new(plain("adaptive", Adaptive::new(Fixed), time)),
        Box::new(plain("greedy", TokenBucket::greedy(quota), time)),
        Box::new(plain("interval", interval.clone(), time)),
        Box::new(plain(
            "penalty",
            PenaltyBucket::new(TokenBucket::greedy(quota)),
            time,
        )),
        Box::new(plain(
            "bandwidths",
            Bandwidths::new([interval.clone()]),
            time,
        )),
        Box::new(plain("refresh", Refresh::new(quota), time)),
        Box::new(plain("fixed", FixedWindow::new(quota), time)),
        Box::new(plain("sliding", SlidingWindow::new(quota, 4), time)),
        Box::new(plain("counter", SlidingCounter::new(quota), time)),
        Box::new(plain("log", SlidingLog::new(quota), time)),
        Box::new(Unbound(plain("unbound", FixedWindow::new(quota), time))),
        Box::new(keyed("keyed slots", slots(), time)),
        Box::new(keyed("keyed interval", interval, time)),
        Box::new(keyed("keyed fixed", FixedWindow::new(quota), time)),
        Box::new(keyed("keyed log", SlidingLog::new(quota), time)),
        Box::new(InBatches(Batched::new(window.build(), 3))),
        Box::new(Plain {
            name: "partition",
            limiter: Arc::new(partition.get("one").expect("it is there")),
            parts: vec![
                (true, Arc::new(shared)),
                (true, Arc::new(partition.get("one").expect("it is there"))),
            ],
        }),
        Box::new(Plain {
            name: "all",
            limiter: Arc::new(All::new(members.clone())),
            parts: [true, false].into_iter().zip(members).collect(),
        }),
    ]
}
