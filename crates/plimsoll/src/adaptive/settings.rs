use std::time::Duration;

use super::range::Range;
use super::{Adaptive, Limit};
use crate::{Gate, GateBuilder, InvalidLimit, Queue};

/// The common settings of an adaptive limit, checked together.
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
    /// The minimum of the limit. At least 1.
    pub min: u64,
    /// The initial limit, from the minimum to the maximum.
    pub initial: u64,
    /// The maximum of the limit. Above the minimum.
    pub max: u64,
    /// The latency, as a multiple of the idle latency, up to which the server is not overloaded. More than 1.
    pub tolerance: f64,
    /// The minimum bound of the queue. At least 1.
    pub min_queue: u64,
    /// The initial bound of the queue, at least its minimum.
    pub initial_queue: u64,
    /// The longest time that a demand waits; `None` for no time-out.
    pub queue_timeout: Option<Duration>,
}

impl Default for Settings {
    /// Returns the defaults: a limit from 5 to 500 that starts at 5, a queue of 20 without a time-out, and a tolerance
    /// of 1.5.
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
    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// Returns an error that names the first invalid setting, its value, and the expected range.
    pub fn check(&self) -> Result<(), InvalidLimit> {
        let Self {
            min, initial, max, ..
        } = *self;
        let queue = (self.min_queue, self.initial_queue);
        Range { min, initial, max }.check_with_queue(self.tolerance, queue)
    }

    /// Returns a gate builder with these settings and the algorithm that `limit` creates from them. The limit is
    /// clamped to the minimum and the maximum.
    ///
    /// # Errors
    ///
    /// Returns an error if the settings are invalid; see [`check`](Self::check).
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

    /// The initial queue: first in, first out, by priority.
    fn queue(&self) -> Queue {
        let queue = Queue::fifo(self.initial_queue);
        match self.queue_timeout {
            Some(timeout) => queue.timeout(timeout),
            None => queue,
        }
    }
}
