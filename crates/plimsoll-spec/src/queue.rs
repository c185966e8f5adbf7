//! Queues of limiters.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::value::Span;

/// A queue of waiters.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a queue such as { bound: 10 }")]
#[non_exhaustive]
pub struct Queue {
    /// The bound of the queue.
    pub bound: u64,
    /// The order in which waiters are served: the first, the last, or a random one.
    #[serde(default)]
    pub order: Order,
    /// The seed of a random order. For `order: random` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u32>,
    /// The demand that is refused when the queue is full: `oldest` in a lifo queue and `incoming` in others, unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full: Option<Full>,
    /// What counts towards the bound: usage and waiters together beyond the limit, or waiters only.
    #[serde(default)]
    pub counts: Counts,
    /// The longest wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
}

impl Queue {
    /// Fills in the default of `full`, which depends on the order.
    pub(crate) fn fill(&mut self) {
        self.full.get_or_insert(match self.order {
            Order::Fifo | Order::Random => Full::Incoming,
            Order::Lifo => Full::Oldest,
        });
    }

    /// The queue itself.
    pub fn build(&self) -> plimsoll::Queue {
        let queue = match self.order {
            Order::Fifo => plimsoll::Queue::fifo(self.bound),
            Order::Lifo => plimsoll::Queue::lifo(self.bound),
            Order::Random => plimsoll::Queue::random(self.bound),
        };
        let queue = match self.seed {
            Some(seed) => queue.seed(seed.into()),
            None => queue,
        };
        let queue = match self.full {
            None => queue,
            Some(Full::Incoming) => queue.full(plimsoll::Full::Incoming),
            Some(Full::Oldest) => queue.full(plimsoll::Full::Oldest),
            Some(Full::Newest) => queue.full(plimsoll::Full::Newest),
        };
        let queue = queue.counts(match self.counts {
            Counts::Excess => plimsoll::Counts::Excess,
            Counts::Waiting => plimsoll::Counts::Waiting,
        });
        match self.timeout {
            None => queue,
            Some(timeout) => queue.timeout(timeout.into()),
        }
    }
}

/// The order in which waiters are served.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Order {
    /// The first waiter.
    #[default]
    Fifo,
    /// The last waiter.
    Lifo,
    /// A random waiter, all with the same probability.
    Random,
}

/// The demand that is refused when a queue is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Full {
    /// The new demand.
    Incoming,
    /// The waiter that has waited longest.
    Oldest,
    /// The last waiter.
    Newest,
}

/// What counts towards the bound of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Counts {
    /// Usage and waiters together, beyond the limit.
    #[default]
    Excess,
    /// Waiters only.
    Waiting,
}
