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
    /// The order in which waiters are served.
    #[serde(default)]
    pub order: Order,
    /// The seed of a random order. For `order: random` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u32>,
    /// The demand that is refused when the queue is full: `oldest` in a lifo queue and `incoming` in others, unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full: Option<Full>,
    /// The quantity that is compared with the bound: usage and waiters together beyond the limit, or waiters only.
    #[serde(default)]
    pub counts: QueueBoundCounts,
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

    /// Builds the queue of the core.
    ///
    /// ```
    /// use plimsoll_spec::{Queue, Units, document, read_one};
    ///
    /// let root = document("{ bound: 100, order: lifo, timeout: 500ms }", "a queue")?;
    /// let queue: Queue = read_one(&root, Units::Required)?;
    /// let gate = plimsoll::Gate::builder(plimsoll::Concurrency::new(8)).queue(queue.build()).build();
    /// assert!(gate.try_acquire(1).is_ok());
    /// # Ok::<(), plimsoll_spec::Problem>(())
    /// ```
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
            QueueBoundCounts::Excess => plimsoll::Counts::Excess,
            QueueBoundCounts::Waiting => plimsoll::Counts::Waiting,
        });
        queue.timeout(self.timeout.map(std::time::Duration::from))
    }
}

/// The order in which waiters are served.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Order {
    /// First in, first out.
    #[default]
    Fifo,
    /// Last in, first out.
    Lifo,
    /// A random waiter; all have the same probability.
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
    /// The waiter that joined last.
    Newest,
}

/// The quantity that is compared with the bound of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum QueueBoundCounts {
    /// Usage and waiters together, beyond the limit.
    #[default]
    Excess,
    /// Waiters only.
    Waiting,
}
