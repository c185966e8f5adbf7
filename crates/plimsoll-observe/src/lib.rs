//! Metrics and tracing for the limiters of [`plimsoll`].
//!
//! A [`Metered`] limiter counts what is asked of it, by the method of the request and the priority of the demand,
//! and a registry of `prometheus-client` exports it:
//!
//! ```
//! use std::sync::Arc;
//! use plimsoll::{Concurrency, Gate, Outcome, Queue};
//! use plimsoll_observe::Metrics;
//! use plimsoll_observe::prometheus_client::encoding::text;
//! use plimsoll_observe::prometheus_client::registry::Registry;
//!
//! let mut registry = Registry::default();
//! let gate = Gate::builder(Concurrency::new(2)).queue(Queue::fifo(5)).build();
//! let metered = Metrics::register(&mut registry).meter(Arc::new(gate))?;
//!
//! let permit = metered.try_acquire("GET", 1).unwrap();
//!
//! let mut page = String::new();
//! text::encode(&mut page, &registry)?;
//! println!("{page}");
//! assert!(page.contains(
//!     "# TYPE http_requests_concurrency_items_total gauge\n\
//!      http_requests_concurrency_items_total{method=\"GET\",priority=\"normal\"} 1\n"
//! ));
//! assert!(page.contains("http_requests_queue_limit_total 5\n"));
//! permit.finish(Outcome::Success);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What `text::encode` writes is served as `application/openmetrics-text; version=1.0.0; charset=utf-8`.
//!
//! # What is measured
//!
//! | [`Metric`] | name | type | labels | buckets |
//! |---|---|---|---|---|
//! | [`ConcurrencyItems`](Metric::ConcurrencyItems) | `http_requests_concurrency_items_total` | gauge | method, priority | |
//! | [`ConcurrencyLimit`](Metric::ConcurrencyLimit) | `http_requests_concurrency_limit_total` | gauge | | |
//! | [`QueueItems`](Metric::QueueItems) | `http_requests_queue_items_total` | gauge | method, priority | |
//! | [`QueueLimit`](Metric::QueueLimit) | `http_requests_queue_limit_total` | gauge | | |
//! | [`ProcessingTime`](Metric::ProcessingTime) | `http_requests_task_processing_time_seconds` | histogram | method, priority | 0.001 · 2^k, k = 0…19 |
//! | [`QueueTime`](Metric::QueueTime) | `http_requests_queue_time_seconds` | histogram | method, priority | 0.0005 · 2^k, k = 0…19 |
//! | [`Rejected`](Metric::Rejected) | `http_requests_rejected_total` | counter | method, priority, reason | |
//! | [`Refused`](Metric::Refused) | `plimsoll_refused_total` | counter | limiter, reason | |
//!
//! Every value of a label is of a closed set, so that there are never more series than those, whatever clients send:
//!
//! - `method`: the nine [methods](Method) in upper case, and `UNKNOWN`.
//! - `priority`: `critical`, `normal`, `noncritical`.
//! - `reason`: `queue_timeout` for [`TimedOut`](plimsoll::Reason::TimedOut), whether it waited or was refused because
//!   it would have had to wait too long. `max_queue_items` for everything else, which all means that there was
//!   no room: `QueueFull`, `Evicted`, `Exhausted` (of a limit without a queue, or of one who does not
//!   wait), `TooLarge`, `TooSoon`, `SoftThrottle`, `LockedOut`, `KeysFull`, `Saturated`, `Shed`, and also `Closed`
//!   and `Unavailable`. Spans and events have the reason itself, and so has `plimsoll_refused_total`.
//! - `limiter`: the names that limiters were given, up to 256 of them.
//!
//! Items are requests, whatever their cost; limits are what the [limiter](plimsoll::Snapshot) says at the
//! scrape, in permits. A request counts as waiting from when it has to until it has read its answer,
//! times are those of the limiter's clock. A series appears when there is something to say. Each metric can be
//! [renamed](MetricsBuilder::rename) or [switched off](MetricsBuilder::off).
//!
//! # What it costs
//!
//! Cells for all ten methods and three priorities are made beforehand, 12 kB for a limiter. Counting a request is
//! four atomic additions and a reading of the clock: no lock, and nothing is allocated. Switching a
//! metric off makes the page shorter, not the counting.
//!
//! # Why `prometheus-client`?
//!
//! The `metrics` facade has a global recorder, which decides the buckets of histograms by name, and looks every
//! metric up by its labels. A registry of `prometheus-client` is a value: two in one process do not know of each
//! other, tests run side by side, and a collector reads limits at the moment of the scrape, so that there is no copy
//! that could be out of date. Whoever has another pipeline reads [`Snapshot`](plimsoll::Snapshot) and
//! [`Events`](plimsoll::Events) directly.
//!
//! # Tracing
//!
//! With the feature `tracing` each request through a [`Metered`] limiter has a span `plimsoll.acquire` (target
//! `plimsoll`, level debug) from asking until the permit is back, with the fields `limiter`, `method`, `priority`,
//! `cost`, and when they are known `waited` and `took` in seconds, `outcome`, and `reason` if it was refused.
//! The work is inside it if it is run in `MeteredPermit::span`. While no subscriber is interested, it costs a look
//! at a word. `Trace` turns the [events](plimsoll::Events) of a limiter into events of `tracing`.
//!
//! For OpenTelemetry, add the layer of `tracing-opentelemetry` to the subscriber, with a filter that lets
//! `plimsoll=debug` through: spans become spans of the trace in which the request was made, events become
//! events of the span that is entered when they are told. Metrics go the usual way too: a collector with a Prometheus
//! receiver scrapes the page.

mod asking;
mod cells;
mod exporter;
mod histogram;
mod invalid;
mod metered;
mod method;
mod metric;
mod metrics;
mod names;
mod permit;
mod refusals;
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
