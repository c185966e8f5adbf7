use std::error::Error;
use std::fmt;

use crate::Metric;

/// The error of metrics that cannot be exported. Its message names the invalid setting and the allowed values.
///
/// [`MetricsBuilder::register`](crate::MetricsBuilder::register) returns it for a name or a label that Prometheus does
/// not allow, for a counter without `_total`, and for two metrics of the same name.
/// [`Metrics::meter`](crate::Metrics::meter) returns it for a second limiter that no label or name distinguishes from
/// the first.
///
/// ```
/// use plimsoll_observe::{Metric, Metrics};
/// use plimsoll_observe::prometheus_client::registry::Registry;
///
/// let invalid = Metrics::builder()
///     .rename(Metric::QueueItems, "waiting room")
///     .register(&mut Registry::default())
///     .unwrap_err();
/// assert_eq!(
///     invalid.to_string(),
///     "`waiting room` for `http_requests_queue_items_total`: \
///      expected letters, digits, `_` and `:`, and no digit first",
/// );
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidMetrics(Problem);

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Problem {
    Name(Metric, String),
    NoTotal(Metric, String),
    Clash(Metric, Metric, String),
    Label(String),
    Second,
    Twice(String),
}

impl From<Problem> for InvalidMetrics {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl fmt::Display for InvalidMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Problem::Name(metric, name) => write!(
                f,
                "`{name}` for `{metric}`: expected letters, digits, `_` and `:`, and no digit first"
            ),
            Problem::NoTotal(metric, name) => write!(
                f,
                "`{name}` for `{metric}`: expected a name with `_total` at its end, as all counters have"
            ),
            Problem::Clash(one, other, name) => write!(
                f,
                "`{name}` for `{other}`: expected a name that differs from that of `{one}`"
            ),
            Problem::Label(label) => write!(
                f,
                "label `{label}`: expected letters, digits and `_`, no digit first, not `__` first, \
                 and none of `method`, `priority`, `reason` and `le`"
            ),
            Problem::Second => {
                f.write_str("a second limiter: expected a label to tell them apart by")
            }
            Problem::Twice(name) => write!(
                f,
                "a second limiter `{name}`: expected each to have a name of its own"
            ),
        }
    }
}

impl Error for InvalidMetrics {}
