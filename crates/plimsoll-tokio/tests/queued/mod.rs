//! Limiters that let everybody wait.

use plimsoll::{Gate, ManualClock, Queue, Rule};

/// A limiter with a fifo queue for as many as come, on a clock moved by hand.
pub(crate) fn queued<R: Rule>(rule: R, time: &ManualClock) -> Gate<R> {
    let gate = Gate::builder(rule).queue(Queue::fifo(u64::MAX));
    gate.clock(time.clock()).build()
}
