//! An adaptive limit that learns nothing and remembers everything.

use std::sync::{Arc, Mutex};

use plimsoll::adaptive::{Adaptive, Limit, Sample};
use plimsoll::{Clock, Gate, Outcome, Queue};

/// What was learned of work that ended, in order. What says nothing is not told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorder(Arc<Mutex<Vec<Outcome>>>);

impl Recorder {
    /// A gate that tells this one, and has room for a few.
    pub(crate) fn gate(&self, clock: Clock) -> Gate<Adaptive<Self>> {
        let rule = Adaptive::new(self.clone());
        Gate::builder(rule)
            .queue(Queue::fifo(10))
            .clock(clock)
            .build()
    }

    /// What was told since the last look.
    pub(crate) fn told(&self) -> Vec<Outcome> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Limit for Recorder {
    fn limit(&self) -> u64 {
        4
    }

    fn sample(&mut self, sample: &Sample) {
        let outcome = match sample.overload {
            true => Outcome::Overload,
            false => Outcome::Success,
        };
        self.0.lock().unwrap().push(outcome);
    }
}
