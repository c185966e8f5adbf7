use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use plimsoll::{Clock, Limiter, Reason, Snapshot};
use prometheus_client::registry::Registry;

use crate::cells::Cells;
use crate::exporter::Exporter;
use crate::invalid::Problem;
use crate::names::Names;
use crate::refusals::Refusals;
use crate::{InvalidMetrics, Metered, Metric, Observer};

/// The metrics of a registry. A clone is the same metrics.
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
pub struct Metrics(Arc<Shared>);

/// What the metrics and their registry share.
pub(crate) struct Shared {
    pub(crate) names: Names,
    /// Locked to add a limiter and to export, not to count.
    meters: Mutex<Vec<Weak<Meter>>>,
    pub(crate) refusals: Refusals,
}

/// What is counted about one limiter, for as long as anybody uses it.
pub(crate) struct Meter {
    /// The name of the limiter; empty if it has none.
    pub(crate) name: Box<str>,
    pub(crate) clock: Clock,
    pub(crate) cells: Cells,
    look: Box<dyn Fn() -> Snapshot + Send + Sync>,
}

impl Metrics {
    /// Metrics with other names, or not all of them.
    pub fn builder() -> MetricsBuilder {
        MetricsBuilder(Names::default())
    }

    /// All metrics, under the names they have, in `registry`.
    ///
    /// Register once in a registry, and [meter](Self::meter) as many limiters as you like: exporting one name twice
    /// is an error that a registry does not find.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        Self::builder().export_from(registry)
    }

    /// Counts what is asked of `limiter` through what this returns. It is exported for as long as that, or a permit
    /// of it, is there.
    ///
    /// # Errors
    ///
    /// If another limiter is exported already, and nothing tells them apart: there is no
    /// [label](MetricsBuilder::limiter_label), or both have the same name.
    pub fn meter<L>(&self, limiter: Arc<L>) -> Result<Metered<L>, InvalidMetrics>
    where
        L: Limiter + ?Sized + 'static,
    {
        let meter = self.meter_of(&limiter)?;
        Ok(Metered::new(limiter, meter))
    }

    /// Counts what somebody else asks of `limiter`, and says so: a layer, which sees requests come, wait and go. The
    /// limits themselves are read from the limiter.
    ///
    /// # Errors
    ///
    /// As [`meter`](Self::meter).
    pub fn observe<L>(&self, limiter: &Arc<L>) -> Result<Observer, InvalidMetrics>
    where
        L: Limiter + ?Sized + 'static,
    {
        self.meter_of(limiter).map(Observer::new)
    }

    fn meter_of<L>(&self, limiter: &Arc<L>) -> Result<Arc<Meter>, InvalidMetrics>
    where
        L: Limiter + ?Sized + 'static,
    {
        let seen = Arc::clone(limiter);
        let meter = Arc::new(Meter {
            name: limiter.name().unwrap_or_default().into(),
            clock: limiter.clock().clone(),
            cells: Cells::new(),
            look: Box::new(move || seen.snapshot()),
        });
        self.0.add(&meter)?;
        Ok(meter)
    }

    /// Counts a refusal by the name of the limiter, never by a key: for limits of which there are many, such as rates.
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
    /// Names that are new when there are 256 already are counted as `other`.
    pub fn refused(&self, limiter: &str, reason: Reason) {
        self.0.refusals.count(limiter, reason);
    }
}

impl Shared {
    fn add(&self, meter: &Arc<Meter>) -> Result<(), InvalidMetrics> {
        let labelled = self.names.limiter_label().is_some();
        let mut meters = self.lock();
        meters.retain(|other| other.strong_count() > 0);
        for other in meters.iter().filter_map(Weak::upgrade) {
            if !labelled {
                return Err(Problem::Second.into());
            }
            if other.name == meter.name {
                return Err(Problem::Twice(meter.name.to_string()).into());
            }
        }
        meters.push(Arc::downgrade(meter));
        Ok(())
    }

    /// Those that are still there.
    pub(crate) fn meters(&self) -> Vec<Arc<Meter>> {
        self.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// A panic cannot leave the list half changed.
    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Meter>>> {
        self.meters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Meter {
    pub(crate) fn snapshot(&self) -> Snapshot {
        (self.look)()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics")
            .field("limiters", &self.0.meters().len())
            .finish_non_exhaustive()
    }
}

/// Settings of [`Metrics`].
#[derive(Clone, Debug)]
#[must_use]
pub struct MetricsBuilder(Names);

impl MetricsBuilder {
    /// Exports a metric under another name. What is given is what is exported: a counter must have `_total` at its
    /// end, and a histogram adds `_bucket`, `_count` and `_sum`.
    pub fn rename(mut self, metric: Metric, name: impl Into<String>) -> Self {
        self.0.set(metric, Some(name.into()));
        self
    }

    /// Does not export a metric.
    pub fn off(mut self, metric: Metric) -> Self {
        self.0.set(metric, None);
        self
    }

    /// Adds a label with the name of the limiter to all metrics, for those who have more than one.
    pub fn limiter_label(mut self, label: impl Into<String>) -> Self {
        self.0.label_limiters(label.into());
        self
    }

    /// Exports the metrics from `registry`.
    ///
    /// # Errors
    ///
    /// If a name is not one that Prometheus knows, or if two metrics would have the same. Nothing is
    /// registered then.
    pub fn register(self, registry: &mut Registry) -> Result<Metrics, InvalidMetrics> {
        self.0.check()?;
        Ok(self.export_from(registry))
    }

    fn export_from(self, registry: &mut Registry) -> Metrics {
        let shared = Arc::new(Shared {
            names: self.0,
            meters: Mutex::default(),
            refusals: Refusals::default(),
        });
        registry.register_collector(Box::new(Exporter(Arc::clone(&shared))));
        Metrics(shared)
    }
}
