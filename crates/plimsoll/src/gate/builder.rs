use super::core::Core;
use super::inside::Inside;
use crate::adaptive::{Adaptive, Limit};
use crate::name::Name;
use crate::totals::Totals;
use crate::{Clock, Gate, Queue, Rule};

/// Settings of a [`Gate`]. See [`Gate::builder`].
#[derive(Debug)]
#[must_use]
pub struct GateBuilder<R> {
    rule: R,
    clock: Clock,
    queue: Option<Queue>,
    name: Option<Name>,
    totals: bool,
}

impl<R: Rule> GateBuilder<R> {
    pub(super) fn new(rule: R) -> Self {
        Self {
            rule,
            clock: if R::LEARNS {
                Clock::precise()
            } else {
                Clock::system()
            },
            queue: None,
            name: None,
            totals: true,
        }
    }

    /// Takes time from `clock` instead of [`Clock::system`], or of [`Clock::precise`] for an
    /// [adaptive](crate::adaptive) limit.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Lets callers of [`Gate::acquire`] wait. Without a queue nobody waits.
    pub fn queue(mut self, queue: Queue) -> Self {
        self.queue = Some(queue);
        self
    }

    /// Gives the limiter a name, which its refusals carry. It is kept for the life of the process.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(Name::new(name));
        self
    }

    /// Whether to count what is granted and refused at once, as by default. Counting costs a kilobyte
    /// and, by the benchmarks, less than a nanosecond a decision.
    pub fn totals(mut self, counted: bool) -> Self {
        self.totals = counted;
        self
    }

    /// Builds the limiter. It starts at this moment of its clock.
    #[must_use]
    pub fn build(mut self) -> Gate<R> {
        if let Some(queue) = &mut self.queue {
            queue.bound = self.rule.begin_queue(queue.bound);
        }
        let inside = Inside::new(self.queue);
        let totals = Totals::new(self.totals);
        Gate::from_core(Core::new(self.rule, self.clock, totals, self.name, inside))
    }
}

impl<L: Limit> GateBuilder<Adaptive<L>> {
    /// How much may wait at a limit, in place of its root. Called when the limit has changed; an algorithm with
    /// [its own idea](Limit::queue_bound) goes before.
    ///
    /// ```
    /// # use plimsoll::adaptive::{Adaptive, Limit};
    /// # use plimsoll::{Gate, Queue};
    /// # fn doc(algorithm: impl Limit) {
    /// let gate = Gate::builder(Adaptive::new(algorithm))
    ///     .queue(Queue::fifo(20))
    ///     .queue_size(|limit| limit / 2)
    ///     .build();
    /// # }
    /// ```
    pub fn queue_size(mut self, size: impl Fn(u32) -> u32 + Send + Sync + 'static) -> Self {
        self.rule = self.rule.with_queue_size(size);
        self
    }
}
