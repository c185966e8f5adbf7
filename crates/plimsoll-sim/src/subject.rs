//! What a simulation needs of the limiter under test, and nothing else.

use std::cell::RefCell;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use plimsoll::adaptive::{Limit, Load, Sample};
use plimsoll::{Acquire, Clock, Concurrency, Counts, Demand, Gate, Moment, Outcome, Permit, Queue};

/// A gate, and the algorithm that says how wide it is.
pub(crate) struct Subject {
    gate: Gate<Concurrency>,
    /// Whether anybody may wait.
    waits: bool,
    learner: RefCell<Learner>,
}

struct Learner {
    limit: Box<dyn Limit>,
    /// What the gate was told last.
    width: u32,
    /// Whether the bound of the queue is the algorithm's to change, and what it was last.
    bound: Option<u32>,
    /// Whether anybody was refused since the last sample.
    refused: bool,
}

/// What becomes of a request at the gate.
pub(crate) enum Answer<'s> {
    Granted(Permit<'s>),
    Waiting(Acquire<'s>),
    Refused,
}

/// How a piece of work ended.
pub(crate) struct Ended {
    pub(crate) begun: Moment,
    pub(crate) now: Moment,
    /// Itself included.
    pub(crate) in_flight: u32,
    pub(crate) overload: bool,
}

impl Subject {
    /// Without a queue of its own, the gate has the one the algorithm wants, if it wants any.
    pub(crate) fn new(limit: Box<dyn Limit>, queue: Option<Queue>, clock: Clock) -> Self {
        let width = limit.limit().max(1);
        let bound = limit.queue_bound().filter(|_| queue.is_none());
        let queue = queue.or(bound.map(|bound| Queue::fifo(bound).counts(Counts::Waiting)));
        let gate = Gate::builder(Concurrency::new(width))
            .clock(clock)
            .totals(false);
        let gate = match queue {
            Some(queue) => gate.queue(queue).build(),
            None => gate.build(),
        };
        Self {
            gate,
            waits: queue.is_some(),
            learner: RefCell::new(Learner {
                limit,
                width,
                bound,
                refused: false,
            }),
        }
    }

    /// The limit now.
    pub(crate) fn limit(&self) -> u32 {
        self.learner.borrow().width
    }

    pub(crate) fn ask(&self, demand: Demand, context: &mut Context<'_>) -> Answer<'_> {
        if !self.waits {
            return match self.gate.try_acquire(demand) {
                Ok(permit) => Answer::Granted(permit),
                Err(_) => self.refused(),
            };
        }
        let mut acquire = self.gate.acquire(demand);
        match self.poll(&mut acquire, context) {
            Poll::Ready(answer) => answer,
            Poll::Pending => Answer::Waiting(acquire),
        }
    }

    /// Asks again for somebody who waits.
    pub(crate) fn poll<'s>(
        &self,
        acquire: &mut Acquire<'s>,
        context: &mut Context<'_>,
    ) -> Poll<Answer<'s>> {
        Pin::new(acquire).poll(context).map(|answer| match answer {
            Ok(permit) => Answer::Granted(permit),
            Err(_) => self.refused(),
        })
    }

    fn refused<'a>(&self) -> Answer<'a> {
        self.learner.borrow_mut().refused = true;
        Answer::Refused
    }

    /// The work behind a permit is done. The algorithm hears of it first, so that whoever is served by the permit
    /// is served under the new limit.
    pub(crate) fn finish(&self, permit: Permit<'_>, ended: &Ended) {
        let sample = Sample {
            start: ended.begun,
            end: ended.now,
            in_flight: ended.in_flight,
            overload: ended.overload,
            refused: std::mem::take(&mut self.learner.borrow_mut().refused),
        };
        self.learn(|limit| limit.sample(&sample));
        permit.finish(if ended.overload {
            Outcome::Overload
        } else {
            Outcome::Success
        });
    }

    pub(crate) fn tick_every(&self) -> Option<Duration> {
        let every = self.learner.borrow().limit.tick_every();
        every.filter(|every| !every.is_zero())
    }

    pub(crate) fn tick(&self, load: Load) {
        self.learn(|limit| limit.tick(load));
    }

    fn learn(&self, lesson: impl FnOnce(&mut dyn Limit)) {
        let mut learner = self.learner.borrow_mut();
        lesson(&mut *learner.limit);
        let width = learner.limit.limit().max(1);
        if width != learner.width && self.gate.resize(width).is_ok() {
            learner.width = width;
        }
        if let (Some(old), Some(bound)) = (learner.bound, learner.limit.queue_bound())
            && bound != old
        {
            self.gate.set_queue_bound(bound);
            learner.bound = Some(bound);
        }
    }
}
