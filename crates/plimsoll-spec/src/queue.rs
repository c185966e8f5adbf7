//! Queues of limiters.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::value::Span;

/// Who may wait.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a queue such as { bound: 10 }")]
#[non_exhaustive]
pub struct Queue {
    /// How much may wait.
    pub bound: u64,
    /// Who is served first: who came first, who came last, or anybody.
    #[serde(default)]
    pub order: Order,
    /// Makes a random order the same each time. For `order: random` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u32>,
    /// Who fails when it is full: `oldest` in a lifo queue and `incoming` in others, unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full: Option<Full>,
    /// What is compared with the bound: what is in use beyond the limit, or only what waits.
    #[serde(default)]
    pub counts: Counts,
    /// How long anybody waits at most.
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

/// Who is served first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Order {
    /// Who came first.
    #[default]
    Fifo,
    /// Who came last.
    Lifo,
    /// Anybody, each as likely as any other.
    Random,
}

/// Who fails when a queue is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Full {
    /// The newcomer.
    Incoming,
    /// Who has waited longest.
    Oldest,
    /// Who came last.
    Newest,
}

/// What is compared with the bound of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Counts {
    /// What is in use beyond the limit.
    #[default]
    Excess,
    /// Only what waits.
    Waiting,
}
