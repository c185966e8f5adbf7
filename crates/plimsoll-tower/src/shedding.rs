//! Load shedding: an adaptive concurrency limit with a bounded queue by priority, as one layer.

use std::fmt;
use std::time::Duration;

use plimsoll::adaptive::{Adaptive, Limit, QueueContext, Settings, Verdict};
use plimsoll::{Clock, Gate, InvalidLimit};

use crate::{EndpointPriority, HttpLimitLayer, PriorityHeader, RequestLimit, SendFields};

/// The limiter of a [`SheddingLayer`]. Its algorithm is chosen at run time.
pub type SheddingGate = Gate<Adaptive<Box<dyn Limit>>>;

/// The layer that [`LoadShed`] builds.
pub type SheddingLayer = HttpLimitLayer<RequestLimit<SheddingGate>>;

/// Returns a layer that sheds load, with the default settings of [`LoadShed`].
///
/// ```
/// let layer = plimsoll_tower::load_shedding();
/// # let _ = layer;
/// ```
pub fn load_shedding() -> SheddingLayer {
    match LoadShed::new().build() {
        Ok((layer, _gate)) => layer,
        Err(_) => unreachable!("the usual settings go together"),
    }
}

/// Builds a layer that admits as many concurrent requests as the server can handle, queues a few, and refuses the rest.
///
/// An adaptive limit finds the number of concurrent requests from their latency and throughput. Requests above the limit wait
/// by priority: critical requests first, then normal ones, then non-critical ones. The priority is the one that the endpoint
/// declares ([`EndpointPriority`]), or else that of the header `x-priority` ([`PriorityHeader`]). If the queue is full, the
/// newest waiter of the lowest class is refused.
///
/// By default requests wait for at most a quarter of a second: work for callers that have timed out is wasted, and a caller
/// with a time-out of a second or more still has three quarters of it left for the work itself. Requests that are refused, at
/// once or after waiting, are answered with 503, without `Retry-After` unless it is [set](Self::retry_full_after),
/// because the time until there is room is unknown.
///
/// ```
/// use std::time::Duration;
/// use plimsoll_tower::LoadShed;
///
/// let (layer, gate) = LoadShed::new().max(200).queue_timeout(Duration::from_secs(1)).build()?;
/// // Put `layer` before the service; `gate` has snapshots and events.
/// assert_eq!(gate.snapshot().limit(), 5);
/// # let _ = layer;
/// # Ok::<(), plimsoll::InvalidLimit>(())
/// ```
///
/// | option | default | constraint |
/// |---|---|---|
/// | [`min`](Self::min) | 5 | at least 1 |
/// | [`initial`](Self::initial) | 5 | from the minimum to the maximum |
/// | [`max`](Self::max) | 500 | more than the minimum |
/// | [`min_queue`](Self::min_queue) | 20 | at least 1 |
/// | [`initial_queue`](Self::initial_queue) | 20 | at least the minimum queue |
/// | [`queue_timeout`](Self::queue_timeout) | 250 ms | |
/// | [`queue_size`](Self::queue_size) | the square root of the limit, rounded up | |
/// | [`algorithm`](Self::algorithm) | [`Verdict`] | |
/// | [`retry_full_after`](Self::retry_full_after) | none | |
/// | [`clock`](Self::clock) | [`Clock::precise`] | |
#[must_use = "settings do nothing until they are built"]
pub struct LoadShed {
    settings: Settings,
    queue_size: Option<QueueSize>,
    algorithm: Option<Box<dyn Limit>>,
    name: String,
    retry_after: Option<Duration>,
    clock: Clock,
}

/// The bound of the queue, as a function of the state of the limiter.
type QueueSize = Box<dyn Fn(&QueueContext) -> u64 + Send + Sync>;

/// The default maximum wait.
const QUEUE_TIMEOUT: Duration = Duration::from_millis(250);

impl LoadShed {
    /// Returns the default settings.
    pub fn new() -> Self {
        Self {
            settings: Settings {
                queue_timeout: Some(QUEUE_TIMEOUT),
                ..Settings::default()
            },
            queue_size: None,
            algorithm: None,
            name: "load-shedding".to_owned(),
            retry_after: None,
            clock: Clock::precise(),
        }
    }

    /// Sets the minimum of the limit.
    pub const fn min(mut self, min: u64) -> Self {
        self.settings.min = min;
        self
    }

    /// Sets the initial limit. Not used if an [algorithm](Self::algorithm) is set.
    pub const fn initial(mut self, initial: u64) -> Self {
        self.settings.initial = initial;
        self
    }

    /// Sets the maximum of the limit.
    pub const fn max(mut self, max: u64) -> Self {
        self.settings.max = max;
        self
    }

    /// Sets the minimum bound of the queue.
    pub const fn min_queue(mut self, bound: u64) -> Self {
        self.settings.min_queue = bound;
        self
    }

    /// Sets the initial bound of the queue.
    pub const fn initial_queue(mut self, bound: u64) -> Self {
        self.settings.initial_queue = bound;
        self
    }

    /// Sets the maximum wait of a request; `None` for no maximum. It should be well below the time-out of the callers: work for
    /// callers that have timed out is wasted.
    pub fn queue_timeout(mut self, longest: impl Into<Option<Duration>>) -> Self {
        self.settings.queue_timeout = longest.into();
        self
    }

    /// Sets the `Retry-After` of refused requests. Clients that obey it return at the same time, so that the load of a short
    /// overload arrives again as one burst.
    pub const fn retry_full_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// Sets the bound of the queue as a function of the state of the limiter. The bound is never less than the
    /// [minimum](Self::min_queue). See [`GateBuilder::queue_size`](plimsoll::GateBuilder::queue_size).
    pub fn queue_size(
        mut self,
        size: impl Fn(&QueueContext) -> u64 + Send + Sync + 'static,
    ) -> Self {
        self.queue_size = Some(Box::new(size));
        self
    }

    /// Sets the algorithm that finds the limit, from its own builder or from a description in a file. Default: [`Verdict`], which
    /// needs no tuning. The limit stays within [minimum](Self::min) and [maximum](Self::max); the initial limit is that of the
    /// algorithm.
    ///
    /// ```
    /// use plimsoll::adaptive::{Gradient2, Windowed};
    /// use plimsoll_tower::LoadShed;
    ///
    /// let gradient = Gradient2::builder().initial(20).tolerance(2.0).build()?;
    /// let (layer, gate) = LoadShed::new().algorithm(Windowed::new(gradient)).build()?;
    /// assert_eq!(gate.snapshot().limit(), 20);
    ///
    /// // The description that a file has, read by `plimsoll-spec`.
    /// let vegas = plimsoll_spec::limit("vegas", "{ initial: 40, max: 200 }")?;
    /// let (layer, gate) = LoadShed::new().algorithm(vegas).build()?;
    /// assert_eq!(gate.snapshot().limit(), 40);
    /// # let _ = layer;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn algorithm(mut self, algorithm: impl Limit) -> Self {
        self.algorithm = Some(Box::new(algorithm));
        self
    }

    /// Sets the name of the limiter in refusals and metrics. Default: `load-shedding`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Builds the layer and its limiter, whose [snapshots](Gate::snapshot) and [events](Gate::subscribe) report its state.
    ///
    /// Settings of the layer itself can be changed afterwards: the [priority](HttpLimitLayer::priority), the
    /// [response](HttpLimitLayer::respond).
    ///
    /// # Errors
    ///
    /// Returns an error if options contradict each other: the error names the first one, its value, and the expected
    /// range.
    pub fn build(self) -> Result<(SheddingLayer, SheddingGate), InvalidLimit> {
        self.settings.check()?;
        let algorithm = match self.algorithm {
            Some(algorithm) => algorithm,
            None => {
                let verdict = Verdict::builder().min(self.settings.min);
                let verdict = verdict.initial(self.settings.initial);
                Box::new(verdict.max(self.settings.max).build()?)
            }
        };
        let mut gate = self.settings.builder(|_| algorithm)?;
        if let Some(size) = self.queue_size {
            gate = gate.queue_size(size);
        }
        let gate = gate.name(&self.name).clock(self.clock).build();
        // Header fields about the limit would not help a caller.
        let layer = HttpLimitLayer::new(RequestLimit::new(gate.clone()))
            .priority(EndpointPriority::new().or(PriorityHeader::default()))
            .send_fields(SendFields::Never);
        let layer = match self.retry_after {
            Some(wait) => layer.retry_full_after(wait),
            None => layer,
        };
        Ok((layer, gate))
    }
}

impl Default for LoadShed {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for LoadShed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadShed")
            .field("name", &self.name)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
