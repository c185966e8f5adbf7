//! What is compared with the naive limiters: a gate, and one key of a keyed limit.

use plimsoll::{
    Acquire, Bandwidths, Clock, Concurrency, Demand, Denied, FixedWindow, Gate, Keyed, Limiter,
    ManualClock, Permit, Queue, Refresh, Reservation, Rule, SlidingCounter, SlidingLog,
    SlidingWindow, Snapshot, Source, Standing, Terms, TokenBucket,
};

/// A limiter of any rule, with the operations that only some have. They say whether they were possible.
pub(crate) trait Subject: Limiter {
    fn resize(&self, limit: u32) -> bool;
    fn set_bound(&self, bound: u32) -> bool;
}

/// A rule that may be resized.
pub(crate) trait Resized: Rule + Clone {
    fn resize_gate(_gate: &Gate<Self>, _limit: u32) -> bool {
        false
    }
    fn resize_keys(_keyed: &Keyed<u8, Self>, _limit: u32) -> bool {
        false
    }
}

impl Resized for TokenBucket {}
impl Resized for FixedWindow {}
impl Resized for SlidingWindow {}
impl Resized for SlidingLog {}
impl Resized for SlidingCounter {}
impl Resized for Refresh {}
impl Resized for Bandwidths {}
impl Resized for Concurrency {
    fn resize_gate(gate: &Gate<Self>, limit: u32) -> bool {
        gate.resize(limit).is_ok()
    }
    fn resize_keys(keyed: &Keyed<u8, Self>, limit: u32) -> bool {
        keyed.resize(limit).is_ok()
    }
}

impl<R: Resized> Subject for Gate<R> {
    fn resize(&self, limit: u32) -> bool {
        R::resize_gate(self, limit)
    }

    fn set_bound(&self, bound: u32) -> bool {
        self.set_queue_bound(bound);
        true
    }
}

/// Which subject to build.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    Gate,
    OneKey,
}

impl Shape {
    /// Builds one. Leaked: the futures under test borrow from it, and a test may.
    pub(crate) fn build<R: Resized>(
        self,
        rule: R,
        queue: Option<Queue>,
        time: &ManualClock,
    ) -> &'static dyn Subject {
        match (self, queue) {
            (Self::Gate, queue) => {
                let builder = Gate::builder(rule).clock(time.clock());
                let builder = queue
                    .into_iter()
                    .fold(builder, |one, queue| one.queue(queue));
                Box::leak(Box::new(builder.build()))
            }
            (Self::OneKey, queue) => {
                let builder = Keyed::builder(rule).clock(time.clock()).max_keys(1);
                let builder = queue
                    .into_iter()
                    .fold(builder, |one, queue| one.queue(queue));
                let one = OneKey {
                    keyed: builder.build(),
                    clock: time.clock(),
                };
                // It begins with its first use.
                let _ = one.keyed.try_acquire(&KEY, 0);
                Box::leak(Box::new(&*Box::leak(Box::new(one))))
            }
        }
    }
}

/// One key of a keyed limit with room for one. Before each operation another key asks for its place, so that it is
/// forgotten as often as it can be.
struct OneKey<R: Rule> {
    keyed: Keyed<u8, R>,
    clock: Clock,
}

const KEY: u8 = 1;
const OTHER: u8 = 2;

impl<R: Resized> OneKey<R> {
    /// The key has a place, or will find one.
    fn pressed(&'static self) -> &'static Keyed<u8, R> {
        drop(self.keyed.try_acquire(&OTHER, 1));
        self.keyed.forget(&OTHER);
        &self.keyed
    }
}

impl<R: Resized> Limiter for &'static OneKey<R> {
    fn try_acquire(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        self.pressed().try_acquire(&KEY, demand)
    }

    fn acquire(&self, demand: Demand) -> Acquire<'_> {
        let one = *self;
        Acquire::from_future(async move { one.pressed().acquire(&KEY, demand).await })
    }

    fn reserve(&self, demand: Demand) -> Result<Reservation<'_>, Denied> {
        let gate: &'static Gate<R> = Box::leak(Box::new(self.pressed().gate(&KEY)?));
        gate.reserve(demand)
    }

    fn estimate(&self, demand: Demand) -> Result<(), Denied> {
        self.pressed().estimate(&KEY, demand)
    }

    fn snapshot(&self) -> Snapshot {
        let keyed = self.pressed();
        // Not known, and so as good as new.
        let standing = keyed.standing(&KEY);
        let new = Snapshot::of(standing.limit(), standing.remaining());
        keyed.snapshot_of(&KEY).unwrap_or(new)
    }

    fn undo(&self, permit: Permit<'_>) {
        self.pressed().undo(&KEY, permit);
    }

    fn charge(&self, cost: u32) {
        self.pressed().charge(&KEY, cost);
    }

    fn standing(&self) -> Option<Standing> {
        Some(self.pressed().standing(&KEY))
    }

    fn terms(&self) -> Terms {
        self.pressed().terms_of(&KEY)
    }

    fn close(&self) {
        self.keyed.close();
    }

    fn name(&self) -> Option<&str> {
        None
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn source(&self) -> &dyn Source {
        unreachable!("it is no member of anything")
    }
}

impl<R: Resized> Subject for &'static OneKey<R> {
    fn resize(&self, limit: u32) -> bool {
        R::resize_keys(self.pressed(), limit)
    }

    /// The queues of all keys are alike.
    fn set_bound(&self, _bound: u32) -> bool {
        false
    }
}
