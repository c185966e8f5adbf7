use super::locked::Inside;
use super::word::Core;
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
            clock: if rule.learning().is_some() {
                Clock::precise()
            } else {
                Clock::system()
            },
            rule,
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

    pub(crate) fn map_rule(mut self, change: impl FnOnce(R) -> R) -> Self {
        self.rule = change(self.rule);
        self
    }

    /// Builds the limiter. It starts at this moment of its clock.
    #[must_use]
    pub fn build(mut self) -> Gate<R> {
        if let Some(queue) = &mut self.queue
            && let Some(learning) = self.rule.learning()
        {
            queue.bound = learning.begin_queue(queue.bound);
        }
        let inside = Inside::new(self.queue);
        let totals = Totals::new(self.totals);
        Gate::from_core(Core::new(self.rule, self.clock, totals, self.name, inside))
    }
}
