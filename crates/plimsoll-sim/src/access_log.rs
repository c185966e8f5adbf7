//! Requests as they came once.

/// When requests came, from the first on.
///
/// It is made of moments; `plimsoll-replay` reads them from logs, and that is what `plimsoll simulate --access-log` does.
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
    /// Nanoseconds since the first, in order.
    arrivals: Vec<u64>,
}

impl AccessLog {
    /// Requests that came at these moments, in nanoseconds since any moment, in any order. `None` if there are none.
    #[must_use]
    pub fn of_nanos(moments: impl IntoIterator<Item = i64>) -> Option<Self> {
        let mut moments: Vec<i64> = moments.into_iter().collect();
        moments.sort_unstable();
        let first = *moments.first()?;
        let arrivals = moments.into_iter().map(|at| at.abs_diff(first)).collect();
        Some(Self { arrivals })
    }

    /// How many requests there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.arrivals.len()
    }

    /// Whether there is none; never so.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.arrivals.is_empty()
    }

    /// The arrivals, in nanoseconds since the first.
    pub(crate) fn arrivals(&self) -> Vec<u64> {
        self.arrivals.clone()
    }
}
