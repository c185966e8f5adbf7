use std::fmt;

use prometheus_client::metrics::MetricType;

/// The eight metrics, each of which can be renamed or switched off.
///
/// The first seven describe requests that are [metered](crate::Metrics::meter) or [observed](crate::Metrics::observe).
///
/// ```
/// use plimsoll_observe::{Metric, Metrics};
/// use plimsoll_observe::prometheus_client::registry::Registry;
///
/// // All under a prefix of their own, and no histogram of the time in the queue.
/// let builder = Metric::ALL.into_iter().fold(Metrics::builder(), |builder, metric| {
///     builder.rename(metric, format!("shop_{metric}"))
/// });
/// let metrics = builder.off(Metric::QueueTime).register(&mut Registry::default());
/// assert!(metrics.is_ok());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Metric {
    /// `http_requests_concurrency_items_total`, a gauge: requests that hold a permit. By method and priority if
    /// [set](crate::MetricsBuilder::items_by_method).
    ConcurrencyItems,
    /// `http_requests_concurrency_limit_total`, a gauge: the limit.
    ConcurrencyLimit,
    /// `http_requests_queue_items_total`, a gauge by method and priority: requests that wait.
    QueueItems,
    /// `http_requests_queue_limit_total`, a gauge: the bound of the queue.
    QueueLimit,
    /// `http_requests_task_processing_time_seconds`, a histogram by method and priority: the time for which permits
    /// were held, in seconds. Buckets from 1 ms to 524 s, each twice the one before.
    ProcessingTime,
    /// `http_requests_queue_time_seconds`, a histogram by method and priority: the time that requests waited, in
    /// seconds, granted or not. Requests that did not wait are not included. Buckets from 0.5 ms to 262 s, each twice
    /// the one before.
    QueueTime,
    /// `http_requests_rejected_total`, a counter by method, priority and reason: requests that were refused.
    Rejected,
    /// `plimsoll_refused_total`, a counter by limiter and reason: refusals of limiters by name. See
    /// [`Metrics::refused`](crate::Metrics::refused).
    Refused,
}

impl Metric {
    /// All metrics, in the order of the variants.
    pub const ALL: [Self; 8] = [
        Self::ConcurrencyItems,
        Self::ConcurrencyLimit,
        Self::QueueItems,
        Self::QueueLimit,
        Self::ProcessingTime,
        Self::QueueTime,
        Self::Rejected,
        Self::Refused,
    ];

    /// Returns the default name. [`MetricsBuilder::rename`](crate::MetricsBuilder::rename) sets another.
    #[must_use]
    pub const fn default_name(self) -> &'static str {
        match self {
            Self::ConcurrencyItems => "http_requests_concurrency_items_total",
            Self::ConcurrencyLimit => "http_requests_concurrency_limit_total",
            Self::QueueItems => "http_requests_queue_items_total",
            Self::QueueLimit => "http_requests_queue_limit_total",
            Self::ProcessingTime => "http_requests_task_processing_time_seconds",
            Self::QueueTime => "http_requests_queue_time_seconds",
            Self::Rejected => "http_requests_rejected_total",
            Self::Refused => "plimsoll_refused_total",
        }
    }

    pub(crate) const fn help(self) -> &'static str {
        match self {
            Self::ConcurrencyItems => "Requests that are processed.",
            Self::ConcurrencyLimit => "How much may be processed at once.",
            Self::QueueItems => "Requests that wait.",
            Self::QueueLimit => "How much may wait.",
            Self::ProcessingTime => "How long requests were processed.",
            Self::QueueTime => "How long requests waited, of those that had to.",
            Self::Rejected => "Requests that were refused.",
            Self::Refused => "What was refused, by limiter.",
        }
    }

    pub(crate) const fn kind(self) -> MetricType {
        match self {
            Self::ConcurrencyItems
            | Self::ConcurrencyLimit
            | Self::QueueItems
            | Self::QueueLimit => MetricType::Gauge,
            Self::ProcessingTime | Self::QueueTime => MetricType::Histogram,
            Self::Rejected | Self::Refused => MetricType::Counter,
        }
    }
}

/// Prints the default name.
impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.default_name())
    }
}
