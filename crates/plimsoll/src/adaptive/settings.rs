use std::time::Duration;

use super::{Adaptive, Limit};
use crate::{Gate, GateBuilder, InvalidLimit, Queue};

/// The usual options of an adaptive limit, and whether they go together.
///
/// ```
/// use plimsoll::adaptive::{Limit, Sample, Settings};
/// use std::time::Duration;
///
/// #[derive(Debug)]
/// struct Fixed(u32);
///
/// impl Limit for Fixed {
///     fn limit(&self) -> u32 {
///         self.0
///     }
///
///     fn sample(&mut self, _sample: &Sample) {}
/// }
///
/// let settings = Settings {
///     maximum: 200,
///     queue_timeout: Some(Duration::from_millis(100)),
///     ..Settings::default()
/// };
/// let gate = settings.builder(|settings| Fixed(settings.initial))?.name("api").build();
/// assert_eq!(gate.snapshot().limit(), 5);
///
/// let backwards = Settings { minimum: 10, maximum: 5, ..Settings::default() };
/// assert_eq!(
///     backwards.check().unwrap_err().to_string(),
///     "`maximum` is 5: expected more than the minimum",
/// );
/// # Ok::<(), plimsoll::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// The limit never falls below this. At least 1.
    pub minimum: u32,
    /// The limit to begin with, from the minimum to the maximum.
    pub initial: u32,
    /// The limit never rises above this. More than the minimum.
    pub maximum: u32,
    /// How many times the latency of an idle server is still taken for good. More than 1.
    pub tolerance: f64,
    /// The bound of the queue never falls below this. At least 1.
    pub min_queue: u32,
    /// The bound of the queue to begin with, at least its minimum.
    pub initial_queue: u32,
    /// How long anybody waits at most.
    pub queue_timeout: Option<Duration>,
}

impl Default for Settings {
    /// 5 at once to begin with, from 5 to 500; 20 may wait, for ever; a tolerance of 1.5.
    fn default() -> Self {
        Self {
            minimum: 5,
            initial: 5,
            maximum: 500,
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
        let counts = [
            ("minimum", self.minimum),
            ("initial", self.initial),
            ("maximum", self.maximum),
            ("min_queue", self.min_queue),
            ("initial_queue", self.initial_queue),
        ];
        for (option, count) in counts {
            if count == 0 {
                return Err(InvalidLimit::new(option, count, "at least 1"));
            }
        }
        if !(self.tolerance > 1.0 && self.tolerance.is_finite()) {
            let rule = "a number greater than 1";
            return Err(InvalidLimit::new("tolerance", self.tolerance, rule));
        }
        if self.maximum <= self.minimum {
            let rule = "more than the minimum";
            return Err(InvalidLimit::new("maximum", self.maximum, rule));
        }
        if !(self.minimum..=self.maximum).contains(&self.initial) {
            let rule = "from the minimum to the maximum";
            return Err(InvalidLimit::new("initial", self.initial, rule));
        }
        if self.initial_queue < self.min_queue {
            let rule = "at least the minimum of the queue";
            return Err(InvalidLimit::new("initial_queue", self.initial_queue, rule));
        }
        Ok(())
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
            .within(self.minimum, self.maximum)
            .with_min_queue(self.min_queue);
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
