use std::time::Duration;

use super::range::Range;
use super::{Adaptive, Limit};
use crate::{Gate, GateBuilder, InvalidLimit, Queue};

/// The usual options of an adaptive limit, and whether they go together.
///
/// ```
/// use plimsoll::adaptive::{Limit, Sample, Settings};
/// use std::time::Duration;
///
/// #[derive(Debug)]
/// struct Fixed(u64);
///
/// impl Limit for Fixed {
///     fn limit(&self) -> u64 {
///         self.0
///     }
///
///     fn sample(&mut self, _sample: &Sample) {}
/// }
///
/// let settings = Settings {
///     max: 200,
///     queue_timeout: Some(Duration::from_millis(100)),
///     ..Settings::default()
/// };
/// let gate = settings.builder(|settings| Fixed(settings.initial))?.name("api").build();
/// assert_eq!(gate.snapshot().limit(), 5);
///
/// let backwards = Settings { min: 10, max: 5, ..Settings::default() };
/// assert_eq!(
///     backwards.check().unwrap_err().to_string(),
///     "`max` is 5: expected above the minimum",
/// );
/// # Ok::<(), plimsoll::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// The limit never falls below this. At least 1.
    pub min: u64,
    /// The limit to begin with, from the minimum to the maximum.
    pub initial: u64,
    /// The limit never rises above this. More than the minimum.
    pub max: u64,
    /// How many times the latency of an idle server is still taken for good. More than 1.
    pub tolerance: f64,
    /// The bound of the queue never falls below this. At least 1.
    pub min_queue: u64,
    /// The bound of the queue to begin with, at least its minimum.
    pub initial_queue: u64,
    /// How long a demand waits at most.
    pub queue_timeout: Option<Duration>,
}

impl Default for Settings {
    /// 5 at once to begin with, from 5 to 500; 20 may wait, for ever; a tolerance of 1.5.
    fn default() -> Self {
        Self {
            min: 5,
            initial: 5,
            max: 500,
            tolerance: 1.5,
            min_queue: 20,
            initial_queue: 20,
            queue_timeout: None,
        }
    }
}

impl Settings {
    /// Whether the options go together.
    ///
    /// # Errors
    ///
    /// Names the first option that does not fit, its value, and what is expected of it.
    pub fn check(&self) -> Result<(), InvalidLimit> {
        let Self {
            min, initial, max, ..
        } = *self;
        let queue = (self.min_queue, self.initial_queue);
        Range { min, initial, max }.check_with_queue(self.tolerance, queue)
    }

    /// A gate with these settings, ready to be built, and the algorithm that `limit` makes of them. Whatever the
    /// algorithm says, the limit stays from the minimum to the maximum.
    ///
    /// # Errors
    ///
    /// If the options do not go together; see [`check`](Self::check).
    pub fn builder<L: Limit>(
        self,
        limit: impl FnOnce(&Self) -> L,
    ) -> Result<GateBuilder<Adaptive<L>>, InvalidLimit> {
        self.check()?;
        let rule = Adaptive::new(limit(&self))
            .within(self.min, self.max)
            .min_queue(self.min_queue);
        Ok(Gate::builder(rule).queue(self.queue()))
    }

    /// The queue to begin with: first come, first served, by priority.
    fn queue(&self) -> Queue {
        let queue = Queue::fifo(self.initial_queue);
        match self.queue_timeout {
            Some(timeout) => queue.timeout(timeout),
            None => queue,
        }
    }
}
