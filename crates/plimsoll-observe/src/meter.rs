//! The counters of each metered limiter, and the list of all of them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use plimsoll::{Clock, Limiter, Snapshot};

use crate::InvalidMetrics;
use crate::cells::Cells;
use crate::invalid::Problem;
use crate::names::Names;
use crate::refusals::Refusals;

/// The state that the metrics and the exporter in their registry share.
pub(crate) struct Meters {
    pub(crate) names: Names,
    /// Locked to add a limiter and to export, not to count.
    meters: Mutex<Vec<Weak<Meter>>>,
    pub(crate) refusals: Refusals,
}

/// The counters of one limiter, as long as a handle or a permit refers to them.
pub(crate) struct Meter {
    /// The name of the limiter; empty if it has none.
    pub(crate) name: Box<str>,
    pub(crate) clock: Clock,
    pub(crate) cells: Cells,
    snapshot: Box<dyn Fn() -> Snapshot + Send + Sync>,
}

impl Meters {
    pub(crate) fn new(names: Names) -> Self {
        Self {
            names,
            meters: Mutex::default(),
            refusals: Refusals::default(),
        }
    }

    /// Starts to export `limiter`.
    pub(crate) fn add<L>(&self, limiter: &Arc<L>) -> Result<Arc<Meter>, InvalidMetrics>
    where
        L: Limiter + ?Sized + 'static,
    {
        let seen = Arc::clone(limiter);
        let meter = Arc::new(Meter {
            name: limiter.name().unwrap_or_default().into(),
            clock: limiter.clock().clone(),
            cells: Cells::new(),
            snapshot: Box::new(move || seen.snapshot()),
        });
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
        meters.push(Arc::downgrade(&meter));
        Ok(meter)
    }

    /// The meters in use.
    pub(crate) fn live(&self) -> Vec<Arc<Meter>> {
        self.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// A panic cannot leave the list half changed.
    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Meter>>> {
        self.meters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Meter {
    pub(crate) fn snapshot(&self) -> Snapshot {
        (self.snapshot)()
    }
}
