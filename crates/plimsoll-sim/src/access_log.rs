//! Recorded arrivals.

/// The arrival times of recorded requests, for [`Simulation::access_log`](crate::Simulation::access_log).
///
/// `plimsoll-replay` reads such times from access logs; `plimsoll simulate --access-log` uses both.
///
/// ```
/// use plimsoll_sim::AccessLog;
///
/// let log = AccessLog::of_nanos([1_794_744_001_000_000_000, 1_794_744_003_000_000_000]).unwrap();
/// assert_eq!(log.len(), 2);
/// assert!(AccessLog::of_nanos([]).is_none());
/// ```
#[derive(Clone, Debug)]
pub struct AccessLog {
    /// The arrivals in nanoseconds since the first one, in order.
    arrivals: Vec<u64>,
}

impl AccessLog {
    /// Creates a log from arrival times in nanoseconds since any moment, in any order. `None` if there are none. The first arrival
    /// becomes the start of the simulation.
    #[must_use]
    pub fn of_nanos(moments: impl IntoIterator<Item = i64>) -> Option<Self> {
        let mut moments: Vec<i64> = moments.into_iter().collect();
        moments.sort_unstable();
        let first = *moments.first()?;
        let arrivals = moments.into_iter().map(|at| at.abs_diff(first)).collect();
        Some(Self { arrivals })
    }

    /// The number of requests.
    #[must_use]
    pub fn len(&self) -> usize {
        self.arrivals.len()
    }

    /// Whether the log has no requests. Always false.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.arrivals.is_empty()
    }

    /// The arrivals, in nanoseconds since the first.
    pub(crate) fn arrivals(&self) -> Vec<u64> {
        self.arrivals.clone()
    }
}
