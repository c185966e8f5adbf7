//! The queue of an ambient limiter, for demands that wait until it is no longer saturated.
//!
//! The queue is that of a [`Gate`], with its bound, orders, time-outs, deadlines and cancellation. The rule of the gate
//! takes nothing: it admits while the last sample does. After each sample the gate checks its waiters again.

use std::sync::Arc;

use plimsoll::{Clock, Counts, Gate, Moment, Queue, Refusal, Rule, Unpacked};

use crate::answer::{Answer, UNKNOWN};

/// Demands that wait for a limiter.
pub(crate) type Room = Gate<Door>;

/// A rule that grants while the limiter admits.
#[derive(Debug)]
pub(crate) struct Door(Arc<Answer>);

pub(crate) fn room(answer: &Arc<Answer>, queue: Queue, clock: Clock, name: Option<&str>) -> Room {
    // No cost exceeds the limit, because there is none; only the bound of the queue counts.
    let queue = queue.counts(Counts::Waiting);
    let builder = Gate::builder(Door(Arc::clone(answer)))
        .queue(queue)
        .clock(clock);
    match name {
        Some(name) => builder.name(name).build(),
        None => builder.build(),
    }
}

impl Door {
    /// Decides by the last sample alone, because nothing may be measured under the lock of the gate.
    fn refusal(&self, now: Moment) -> Option<Refusal> {
        let answer = match self.0.is_stale(now) {
            true => UNKNOWN,
            false => self.0.load(),
        };
        let reason = self.0.reason(answer)?;
        Some(Refusal::until_returned().with_reason(reason))
    }
}

impl Rule for Door {
    type State = ();
    type Fast = Unpacked;

    /// True although nothing is returned, because the time until it admits is unknown, as with permits that have to be returned.
    const RETURNS_PERMITS: bool = true;

    fn limit(&self) -> u64 {
        u64::MAX
    }

    fn fresh(&self, _now: Moment) {}

    fn take(&self, (): &mut (), now: Moment, _cost: u64) -> Result<(), Refusal> {
        self.refusal(now).map_or(Ok(()), Err)
    }

    fn available(&self, (): &(), now: Moment) -> u64 {
        if self.refusal(now).is_none() {
            u64::MAX
        } else {
            0
        }
    }

    fn in_use(&self, (): &(), _now: Moment) -> u64 {
        0
    }

    fn refund(&self, (): &mut (), _now: Moment, _taken: Moment, _cost: u64) {}

    fn full_at(&self, (): &(), _now: Moment) -> Option<Moment> {
        None
    }
}
