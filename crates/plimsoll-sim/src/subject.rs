//! The limiter under test: a real one, on the clock of the simulation.

use std::pin::Pin;
use std::task::{Context, Poll};

use plimsoll::adaptive::{Adaptive, Insight, Limit};
use plimsoll::{Acquire, Clock, Counts, Demand, Gate, Permit, Queue};

/// A gate whose limit an algorithm adjusts.
pub(crate) struct Subject {
    gate: Gate<Adaptive<Box<dyn Limit>>>,
    /// Whether the gate has a queue.
    waits: bool,
}

/// The answer of the gate to a request.
pub(crate) enum Answer<'s> {
    Granted(Permit<'s>),
    Waiting(Acquire<'s>),
    Refused,
}

impl Subject {
    /// Creates the gate. Without a queue in the file, it has the queue that the algorithm asks for, if any.
    pub(crate) fn new(limit: Box<dyn Limit>, queue: Option<(Queue, u64)>, clock: Clock) -> Self {
        let wanted = limit.queue_bound().filter(|_| queue.is_none());
        let gate = Gate::builder(Adaptive::new(limit))
            .clock(clock)
            .totals(false);
        let gate = match (queue, wanted) {
            // A queue in the file has this bound, whatever the current limit is.
            (Some((queue, bound)), _) => gate.queue(queue).queue_size(move |_| bound),
            (None, Some(bound)) => gate.queue(Queue::fifo(bound).counts(Counts::Waiting)),
            (None, None) => gate,
        };
        Self {
            gate: gate.build(),
            waits: queue.is_some() || wanted.is_some(),
        }
    }

    /// The current limit.
    pub(crate) fn limit(&self) -> u64 {
        self.gate.snapshot().limit()
    }

    /// The state of the algorithm.
    pub(crate) fn insight(&self) -> Insight {
        self.gate.insight()
    }

    pub(crate) fn ask(&self, demand: Demand, context: &mut Context<'_>) -> Answer<'_> {
        if !self.waits {
            return match self.gate.try_acquire(demand) {
                Ok(permit) => Answer::Granted(permit),
                Err(_) => Answer::Refused,
            };
        }
        let mut acquire = self.gate.acquire(demand);
        match self.poll(&mut acquire, context) {
            Poll::Ready(answer) => answer,
            Poll::Pending => Answer::Waiting(acquire),
        }
    }

    /// Polls a waiter.
    pub(crate) fn poll<'s>(
        &self,
        acquire: &mut Acquire<'s>,
        context: &mut Context<'_>,
    ) -> Poll<Answer<'s>> {
        Pin::new(acquire).poll(context).map(|answer| match answer {
            Ok(permit) => Answer::Granted(permit),
            Err(_) => Answer::Refused,
        })
    }
}
