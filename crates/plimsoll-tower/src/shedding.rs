//! Load shedding: everything that belongs to it, in one call.

use std::fmt;
use std::time::Duration;

use plimsoll::adaptive::{Adaptive, Limit, QueueContext, Settings, Verdict};
use plimsoll::{Clock, Gate, InvalidLimit};

use crate::{EndpointPriority, HttpLimitLayer, PriorityHeader, RequestLimit, SendFields};

/// The limiter of a layer that sheds load: its algorithm is chosen while the program runs.
pub type SheddingGate = Gate<Adaptive<Box<dyn Limit>>>;

/// A layer that sheds load.
pub type SheddingLayer = HttpLimitLayer<RequestLimit<SheddingGate>>;

/// Sheds load, with the usual settings: see [`LoadShed`].
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

/// Lets in as much at once as the server can bear, lets a few wait, and turns the rest away.
///
/// How much that is, an adaptive limit finds out from how long requests take and how many come through. Who cannot be let
/// in waits, by class: critical requests first, as the endpoint declares ([`EndpointPriority`]) or else the header `x-priority`
/// says ([`PriorityHeader`]), then normal ones. If the
/// queue is full, the lowest class goes, whoever came last. Nobody waits longer than half a second unless set: callers that
/// give up after a second or more then have as much left for the work itself, and a server that has become slow does not
/// work for callers that are gone. Both are answered with 503, without `Retry-After` unless it is
/// [set](Self::retry_full_after): nobody knows when there is room.
///
/// ```
/// use std::time::Duration;
/// use plimsoll_tower::LoadShed;
///
/// let (layer, gate) = LoadShed::new().max(200).queue_timeout(Duration::from_secs(1)).build()?;
/// // `layer` goes before the service; `gate` shows what goes on.
/// assert_eq!(gate.snapshot().limit(), 5);
/// # let _ = layer;
/// # Ok::<(), plimsoll::InvalidLimit>(())
/// ```
///
/// | option | unless set | must be |
/// |---|---|---|
/// | [`min`](Self::min) | 5 | at least 1 |
/// | [`initial`](Self::initial) | 5 | from the minimum to the maximum |
/// | [`max`](Self::max) | 500 | more than the minimum |
/// | [`min_queue`](Self::min_queue) | 20 | at least 1 |
/// | [`initial_queue`](Self::initial_queue) | 20 | at least the minimum queue |
/// | [`queue_timeout`](Self::queue_timeout) | 500 ms | |
/// | [`queue_size`](Self::queue_size) | the root of the limit, rounded up | |
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

/// How much may wait, by what goes on.
type QueueSize = Box<dyn Fn(&QueueContext) -> u64 + Send + Sync>;

/// How long anybody waits at most.
const QUEUE_TIMEOUT: Duration = Duration::from_millis(500);

impl LoadShed {
    /// The usual settings.
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

    /// The limit never falls below this.
    pub const fn min(mut self, min: u64) -> Self {
        self.settings.min = min;
        self
    }

    /// The limit to begin with.
    pub const fn initial(mut self, initial: u64) -> Self {
        self.settings.initial = initial;
        self
    }

    /// The limit never rises above this.
    pub const fn max(mut self, max: u64) -> Self {
        self.settings.max = max;
        self
    }

    /// The bound of the queue never falls below this.
    pub const fn min_queue(mut self, bound: u64) -> Self {
        self.settings.min_queue = bound;
        self
    }

    /// The bound of the queue to begin with.
    pub const fn initial_queue(mut self, bound: u64) -> Self {
        self.settings.initial_queue = bound;
        self
    }

    /// How long anybody waits at most. Well below what callers wait for an answer: who waits longer than its caller is
    /// worked for in vain.
    ///
    /// `None` lets requests wait for as long as it takes.
    pub fn queue_timeout(mut self, longest: impl Into<Option<Duration>>) -> Self {
        self.settings.queue_timeout = longest.into();
        self
    }

    /// The `Retry-After` of refused requests. Callers that obey it come back together, so that what a
    /// short overload turned away comes again as one.
    pub const fn retry_full_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// How much may wait, by what goes on; never less than the [minimum](Self::min_queue). See
    /// [`GateBuilder::queue_size`](plimsoll::GateBuilder::queue_size).
    pub fn queue_size(
        mut self,
        size: impl Fn(&QueueContext) -> u64 + Send + Sync + 'static,
    ) -> Self {
        self.queue_size = Some(Box::new(size));
        self
    }

    /// Finds the limit by this algorithm, built by its own builder or from the description that files have, in place of
    /// [`Verdict`], which needs no tuning. Whatever it finds stays from the [minimum](Self::min) to the
    /// [maximum](Self::max); the limit to begin with is that of the algorithm.
    ///
    /// ```
    /// use plimsoll::adaptive::{Gradient2, Windowed};
    /// use plimsoll_tower::LoadShed;
    ///
    /// let gradient = Gradient2::builder().initial(20).tolerance(2.0).build()?;
    /// let (layer, gate) = LoadShed::new().algorithm(Windowed::new(gradient)).build()?;
    /// assert_eq!(gate.snapshot().limit(), 20);
    ///
    /// // As a user of the program writes it, with `plimsoll-spec`.
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

    /// The name of the limiter in refusals and metrics; `load-shedding` unless set.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Takes time from this clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// The layer, and its limiter, whose [snapshots](Gate::snapshot) and [events](Gate::subscribe) show what goes on.
    ///
    /// What the layer has by itself can be set anew: another [priority](HttpLimitLayer::priority), another
    /// [answer](HttpLimitLayer::respond).
    ///
    /// # Errors
    ///
    /// If options do not go together: names the first, its value, and what is expected of it.
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
        // How many others are let in is nothing a caller could go by.
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
