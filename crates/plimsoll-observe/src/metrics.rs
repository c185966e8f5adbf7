use std::fmt;
use std::sync::Arc;

use plimsoll::{Limiter, Reason};
use prometheus_client::registry::Registry;

use crate::exporter::Exporter;
use crate::meter::Meters;
use crate::names::Names;
use crate::{InvalidMetrics, Metered, Metric, Observer};

/// The metrics of one registry. Clones share them.
///
/// Register once for each registry, then [meter](Self::meter) any number of limiters. With more than one limiter, set a
/// [label](MetricsBuilder::limiter_label) that distinguishes them, and name the limiters.
///
/// ```
/// use std::sync::Arc;
/// use plimsoll::{Concurrency, Gate};
/// use plimsoll_observe::{Metric, Metrics};
/// use plimsoll_observe::prometheus_client::registry::Registry;
///
/// let mut registry = Registry::default();
/// let metrics = Metrics::builder()
///     .rename(Metric::ConcurrencyItems, "requests_in_flight")
///     .off(Metric::QueueTime)
///     .limiter_label("limiter")
///     .register(&mut registry)?;
/// let api = metrics.meter(Arc::new(Gate::builder(Concurrency::new(10)).name("api").build()))?;
/// let db = metrics.meter(Arc::new(Gate::builder(Concurrency::new(3)).name("db").build()))?;
/// # Ok::<(), plimsoll_observe::InvalidMetrics>(())
/// ```
#[derive(Clone)]
pub struct Metrics(Arc<Meters>);

impl Metrics {
    /// Returns a builder, to rename metrics or switch some off.
    pub fn builder() -> MetricsBuilder {
        MetricsBuilder(Names::default())
    }

    /// Registers all metrics in `registry`, under their default names.
    ///
    /// Call it once for each registry: a registry does not notice that one name is exported twice.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        Self::builder().export_from(registry)
    }

    /// Wraps `limiter` so that requests made through the returned handle are counted.
    ///
    /// The limiter is exported until the handle, its clones and its permits are dropped.
    ///
    /// # Errors
    ///
    /// Returns an error if another limiter is exported and nothing distinguishes the two: there is no
    /// [label](MetricsBuilder::limiter_label), or both have the same name.
    pub fn meter<L>(&self, limiter: Arc<L>) -> Result<Metered<L>, InvalidMetrics>
    where
        L: Limiter + ?Sized + 'static,
    {
        let meter = self.0.add(&limiter)?;
        Ok(Metered::new(limiter, meter))
    }

    /// Counts requests to `limiter` that other code makes and reports to the returned [`Observer`].
    ///
    /// Use it in middleware, which sees requests arrive, wait and end. Limits and the queue bound are read from the
    /// limiter.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`meter`](Self::meter).
    pub fn observe<L>(&self, limiter: &Arc<L>) -> Result<Observer, InvalidMetrics>
    where
        L: Limiter + ?Sized + 'static,
    {
        self.0.add(limiter).map(Observer::new)
    }

    /// Counts a refusal under the name of a limiter, metered or not.
    ///
    /// Use it for many limiters of one kind, such as the rates of single keys: pass the name that they share, never a
    /// key.
    ///
    /// ```
    /// # let mut registry = plimsoll_observe::prometheus_client::registry::Registry::default();
    /// use plimsoll::Reason;
    /// use plimsoll_observe::Metrics;
    ///
    /// let metrics = Metrics::register(&mut registry);
    /// metrics.refused("per-address", Reason::Exhausted);
    /// # let mut page = String::new();
    /// # plimsoll_observe::prometheus_client::encoding::text::encode(&mut page, &registry)?;
    /// // plimsoll_refused_total{limiter="per-address",reason="exhausted"} 1
    /// # assert!(page.contains("plimsoll_refused_total{limiter=\"per-address\",reason=\"exhausted\"} 1\n"));
    /// # Ok::<(), std::fmt::Error>(())
    /// ```
    ///
    /// At most 256 names are counted; further ones are counted as `other`.
    pub fn refused(&self, limiter: &str, reason: Reason) {
        self.0.refusals.count(limiter, reason);
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics")
            .field("limiters", &self.0.live().len())
            .finish_non_exhaustive()
    }
}

/// The choice of exported metrics and their names. [`Metrics::builder`] returns one.
///
/// ```
/// use plimsoll_observe::{Metric, Metrics};
/// use plimsoll_observe::prometheus_client::registry::Registry;
///
/// let metrics = Metrics::builder()
///     .rename(Metric::Rejected, "requests_refused_total")
///     .off(Metric::QueueLimit)
///     .register(&mut Registry::default());
/// assert!(metrics.is_ok());
///
/// // Counters end with `_total`.
/// let metrics = Metrics::builder().rename(Metric::Rejected, "refused").register(&mut Registry::default());
/// assert!(metrics.is_err());
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct MetricsBuilder(Names);

impl MetricsBuilder {
    /// Exports a metric under another name.
    ///
    /// The name is exported unchanged, so the name of a counter must end with `_total`. A histogram adds `_bucket`,
    /// `_count` and `_sum`.
    pub fn rename(mut self, metric: Metric, name: impl Into<String>) -> Self {
        self.0.set(metric, Some(name.into()));
        self
    }

    /// Switches a metric off.
    pub fn off(mut self, metric: Metric) -> Self {
        self.0.set(metric, None);
        self
    }

    /// Adds a label with the name of the limiter to all metrics. Required to meter more than one limiter.
    pub fn limiter_label(mut self, label: impl Into<String>) -> Self {
        self.0.label_limiters(label.into());
        self
    }

    /// Labels [`ConcurrencyItems`](Metric::ConcurrencyItems) with the method and the priority. Default: one number without labels.
    pub fn items_by_method(mut self) -> Self {
        self.0.items_by_method = true;
        self
    }

    /// Registers the metrics in `registry`.
    ///
    /// # Errors
    ///
    /// Returns an error if a name is not valid in Prometheus, or two metrics have the same name. Nothing is then
    /// registered.
    pub fn register(self, registry: &mut Registry) -> Result<Metrics, InvalidMetrics> {
        self.0.check()?;
        Ok(self.export_from(registry))
    }

    fn export_from(self, registry: &mut Registry) -> Metrics {
        let meters = Arc::new(Meters::new(self.0));
        registry.register_collector(Box::new(Exporter(Arc::clone(&meters))));
        Metrics(meters)
    }
}
