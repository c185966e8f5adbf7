use super::locked::Inside;
use super::word::Core;
use crate::name::Name;
use crate::totals::Totals;
use crate::{Clock, Gate, Metadata, Moment, Queue, Rule};

/// The settings of a [`Gate`]. [`Gate::builder`] returns one.
///
/// ```
/// use plimsoll::{Clock, Gate, Queue, TokenBucket};
/// use std::time::Duration;
///
/// let gate = Gate::builder(TokenBucket::per_second(100).burst(20))
///     .queue(Queue::fifo(50).timeout(Duration::from_millis(250)))
///     .clock(Clock::precise())
///     .name("api")
///     .build();
/// assert_eq!(gate.name(), Some("api"));
/// ```
#[derive(Debug)]
#[must_use]
pub struct GateBuilder<R> {
    rule: R,
    clock: Clock,
    queue: Option<Queue>,
    name: Option<String>,
    metadata: Option<Metadata>,
    totals: bool,
    began: Option<Moment>,
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
            metadata: None,
            totals: true,
            began: None,
        }
    }

    /// Sets the clock. Default: [`Clock::system`], and [`Clock::precise`] for an [adaptive](crate::adaptive) limit.
    ///
    /// With a [`ManualClock`](crate::ManualClock) tests are deterministic and need not sleep.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the queue in which [`Gate::acquire`] waits. Default: none, and `acquire` refuses every demand that
    /// [`Gate::try_acquire`] refuses.
    ///
    /// ```
    /// use plimsoll::{Concurrency, Gate, Queue, Reason};
    ///
    /// let gate = Gate::builder(Concurrency::new(1)).queue(Queue::fifo(0)).build();
    /// let _running = gate.try_acquire(1)?;
    /// let denied = gate.acquire_blocking(1).unwrap_err();
    /// assert_eq!(denied.reason(), Reason::QueueFull);
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    pub fn queue(mut self, queue: Queue) -> Self {
        self.queue = Some(queue);
        self
    }

    /// Sets the name of the gate, which its refusals carry. A name is stored once, for the life of the process.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Sets the metadata of refusals and permits: a phrase, a code, and pairs. See [`Metadata`].
    pub fn metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = Some(metadata);
        self
    }

    /// Sets whether the gate counts grants and refusals, for [`Snapshot`](crate::Snapshot). Default: yes. Counting
    /// costs a kilobyte and, by the benchmarks, less than a nanosecond per decision.
    pub fn totals(mut self, counted: bool) -> Self {
        self.totals = counted;
        self
    }

    /// Sets the moment from which windows and refills are counted, for a gate that continues one of an earlier process.
    /// Default: the moment of [`build`](Self::build).
    #[doc(hidden)]
    pub fn began(mut self, at: Moment) -> Self {
        self.began = Some(at);
        self
    }

    pub(crate) fn map_rule(mut self, change: impl FnOnce(R) -> R) -> Self {
        self.rule = change(self.rule);
        self
    }

    /// Builds the gate. Its rule starts at this moment of its clock.
    #[must_use]
    pub fn build(mut self) -> Gate<R> {
        if let Some(queue) = &mut self.queue
            && let Some(learning) = self.rule.learning()
        {
            queue.bound = learning.begin_queue(queue.bound);
        }
        let inside = Inside::new(self.queue);
        let totals = Totals::new(self.totals);
        let name = Name::of(self.name.as_deref(), self.metadata.as_ref());
        let began = self.began;
        Gate::from_core(Core::new(
            self.rule, began, self.clock, totals, name, inside,
        ))
    }
}
