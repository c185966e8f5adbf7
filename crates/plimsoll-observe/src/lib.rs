#![doc = include_str!("../README.md")]

mod cells;
mod exporter;
mod histogram;
mod invalid;
mod meter;
mod metered;
mod method;
mod metric;
mod metrics;
mod names;
mod permit;
mod refusals;
mod request;
#[cfg(feature = "tracing")]
mod span;
#[cfg(not(feature = "tracing"))]
#[path = "no_span.rs"]
mod span;
#[cfg(feature = "tracing")]
mod trace;
mod watch;

pub use invalid::InvalidMetrics;
pub use metered::{Metered, MeteredAcquire};
pub use method::Method;
pub use metric::Metric;
pub use metrics::{Metrics, MetricsBuilder};
pub use permit::MeteredPermit;
pub use prometheus_client;
#[cfg(feature = "tracing")]
pub use trace::Trace;
pub use watch::{Observer, Watch};
