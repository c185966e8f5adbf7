//! One key of a keyed limit, to be compared with a naive limiter as a gate is.

use plimsoll::{
    Acquire, Carry, Clock, Demand, Denied, Keyed, Limiter, ManualClock, Permit, Queue, Reservation,
    Shareable, Snapshot, Standing,
};

use super::{Described, Subject};
use crate::reference::Spec;

/// Builds one, which begins with its first use. Leaked: the futures under test borrow from it, and a test may.
pub(super) fn one_key<R: Described>(
    rule: R,
    queue: Option<Queue>,
    time: &ManualClock,
) -> &'static dyn Subject {
    let builder = Keyed::builder(rule).clock(time.clock()).max_keys(1);
    let builder = queue
        .into_iter()
        .fold(builder, |one, queue| one.queue(queue));
    let one = OneKey {
        keyed: builder.build(),
        clock: time.clock(),
    };
    let _ = one.keyed.try_acquire(&KEY, 0);
    Box::leak(Box::new(&*Box::leak(Box::new(one))))
}

/// One key of a keyed limit with room for one. Before each operation another key asks for its place, so that it is
/// forgotten as often as it can be.
struct OneKey<R: Described> {
    keyed: Keyed<u8, R>,
    clock: Clock,
}

const KEY: u8 = 1;
const OTHER: u8 = 2;

/// A key whose gate is kept is never forgotten, and nothing would be tested.
const NOT_A_GATE: &str = "only a gate can do that";

impl<R: Described> OneKey<R> {
    /// The key has a place, or will find one.
    fn pressed(&'static self) -> &'static Keyed<u8, R> {
        drop(self.keyed.try_acquire(&OTHER, 1));
        self.keyed.forget(&OTHER);
        &self.keyed
    }
}

impl<R: Described> Limiter for &'static OneKey<R> {
    fn try_acquire(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        self.pressed().try_acquire(&KEY, demand)
    }

    fn acquire(&self, demand: Demand) -> Acquire<'_> {
        let one = *self;
        Acquire::from_future(async move { one.pressed().acquire(&KEY, demand).await })
    }

    fn reserve(&self, _demand: Demand) -> Result<Reservation<'_>, Denied> {
        unreachable!("{NOT_A_GATE}")
    }

    fn estimate(&self, demand: Demand) -> Result<(), Denied> {
        self.pressed().estimate(&KEY, demand)
    }

    fn snapshot(&self) -> Snapshot {
        let keyed = self.pressed();
        let new = || {
            // Not known, and so as good as new.
            drop(keyed.gate(&KEY).expect("there is a place"));
            keyed.snapshot_of(&KEY)
        };
        keyed.snapshot_of(&KEY).or_else(new).expect("it is known")
    }

    fn standing(&self) -> Standing {
        self.pressed().standing(&KEY)
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

    fn internals(&self) -> Option<&dyn plimsoll::Internals> {
        Some(self)
    }
}

impl<R: Described> plimsoll::Internals for &'static OneKey<R> {
    fn source(&self) -> Option<&dyn Shareable> {
        None
    }

    fn undo(&self, permit: Permit<'_>) {
        self.pressed().undo(&KEY, permit);
    }

    fn charge(&self, cost: u64) {
        self.pressed().charge(&KEY, cost);
    }
}

impl<R: Described> Subject for &'static OneKey<R> {
    fn is_gate(&self) -> bool {
        false
    }

    fn resize_if_possible(&self, limit: u64) -> bool {
        R::resize_keys(self.pressed(), limit)
    }

    fn set_bound(&self, _bound: u64) {
        unreachable!("{NOT_A_GATE}")
    }

    fn add(&self, _amount: u64) {
        unreachable!("{NOT_A_GATE}")
    }

    fn reset(&self) {
        unreachable!("{NOT_A_GATE}")
    }

    fn is_known(&self) -> bool {
        self.keyed.snapshot_of(&KEY).is_some()
    }

    fn replace(&self, spec: &Spec, carry: Carry) {
        R::replace_keys(&self.keyed, spec, carry);
    }

    fn book(&self, _cost: u64) -> Reservation<'_> {
        unreachable!("{NOT_A_GATE}")
    }
}
