//! Pools of servers: chooses a server for a request, and counts requests in flight.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use http::HeaderValue;
use plimsoll_config::gateway::{HealthSpec, Origin, Protocol, UpstreamSpec};
use tokio::time::Instant;

use crate::budget::Budget;
use crate::counts::GatewayCounts;
use crate::health::Health;
use crate::tls::{Client, TlsError};

/// A pool of equivalent servers.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) name: String,
    pub(crate) endpoints: Vec<Arc<Endpoint>>,
    pub(crate) protocol: Protocol,
    pub(crate) host: Option<HeaderValue>,
    pub(crate) keep: usize,
    pub(crate) connect: Duration,
    pub(crate) response: Duration,
    pub(crate) idle: Duration,
    pub(crate) max_retries: u32,
    pub(crate) budget: Budget,
    health: HealthSpec,
    pub(crate) tls: Option<Client>,
    /// The index at which the next search starts, so that equally busy servers take turns.
    next: AtomicUsize,
}

/// One server.
pub(crate) struct Endpoint {
    /// Unique in the process.
    pub(crate) id: usize,
    pub(crate) origin: Origin,
    in_flight: AtomicUsize,
    answered: AtomicU64,
    failed: AtomicU64,
    health: Health,
}

/// The state of a server, for operators.
#[derive(Debug)]
pub(crate) struct ServerView {
    pub(crate) pool: String,
    pub(crate) server: String,
    pub(crate) in_flight: u64,
    /// The number of responses other than 5xx.
    pub(crate) answered: u64,
    /// The number of requests without a response, with a 5xx, or with a response that broke off.
    pub(crate) failed: u64,
    /// The time until its ejection ends. Meanwhile it gets requests only if all servers are ejected.
    pub(crate) ejected_for: Duration,
}

impl Endpoint {
    fn new(origin: Origin, now: Instant) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            origin,
            in_flight: AtomicUsize::new(0),
            answered: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            health: Health::new(now),
        }
    }
}

impl Pool {
    /// The pool that `spec` describes. Servers that `before` also has keep their health and counters.
    pub(crate) fn new(
        name: &str,
        spec: &UpstreamSpec,
        before: Option<&Self>,
    ) -> Result<Self, TlsError> {
        let now = Instant::now();
        let known = |origin: &Origin| {
            let mut known = before.iter().flat_map(|pool| &pool.endpoints);
            known.find(|it| it.origin == *origin).cloned()
        };
        let endpoint = |origin: &Origin| {
            known(origin).unwrap_or_else(|| Arc::new(Endpoint::new(origin.clone(), now)))
        };
        let origins = spec.to.as_slice();
        let tls = match origins.iter().any(|origin| origin.tls) {
            true => Some(Client::new(spec.ca.as_deref(), spec.protocol)?),
            false => None,
        };
        Ok(Self {
            name: name.to_owned(),
            endpoints: origins.iter().map(endpoint).collect(),
            protocol: spec.protocol,
            host: spec
                .host
                .as_deref()
                .and_then(|host| HeaderValue::from_str(host).ok()),
            keep: usize::try_from(spec.keep.0).unwrap_or(usize::MAX),
            connect: spec.timeouts.connect.into(),
            response: spec.timeouts.response.into(),
            idle: spec.timeouts.idle.into(),
            max_retries: spec.retries.most,
            budget: Budget::new(spec.retries.percent.0, spec.retries.least, now),
            health: spec.health.clone(),
            tls,
            next: AtomicUsize::new(0),
        })
    }

    /// The state of its servers.
    pub(crate) fn servers(&self, now: Instant) -> impl Iterator<Item = ServerView> {
        self.endpoints.iter().map(move |it| ServerView {
            pool: self.name.clone(),
            server: it.origin.to_string(),
            in_flight: it.in_flight.load(Ordering::Relaxed) as u64,
            answered: it.answered.load(Ordering::Relaxed),
            failed: it.failed.load(Ordering::Relaxed),
            ejected_for: Duration::from_millis(it.health.ejected(now)),
        })
    }

    /// Chooses the server with the fewest requests in flight among those that are neither `tried` nor ejected. If there is none,
    /// an untried one comes before a tried one, then the one whose ejection ends first.
    pub(crate) fn pick(
        self: &Arc<Self>,
        tried: &[usize],
        counts: &Arc<GatewayCounts>,
    ) -> Option<Lease> {
        let one = match &self.endpoints[..] {
            [] => return None,
            [only] => only,
            all => {
                let now = Instant::now();
                let start = self.next.fetch_add(1, Ordering::Relaxed);
                let turned = (0..all.len()).map(|at| &all[start.wrapping_add(at) % all.len()]);
                turned.min_by_key(|it| {
                    let busy = it.in_flight.load(Ordering::Relaxed);
                    (tried.contains(&it.id), it.health.ejected(now), busy)
                })?
            }
        };
        one.in_flight.fetch_add(1, Ordering::Relaxed);
        counts.in_flight.fetch_add(1, Ordering::Relaxed);
        Some(Lease {
            endpoint: Arc::clone(one),
            pool: Arc::clone(self),
            counts: Arc::clone(counts),
        })
    }
}

/// A request in flight at a server, until it is dropped.
pub(crate) struct Lease {
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) pool: Arc<Pool>,
    counts: Arc<GatewayCounts>,
}

impl Lease {
    pub(crate) fn succeeded(&self) {
        self.endpoint.answered.fetch_add(1, Ordering::Relaxed);
        self.endpoint.health.succeeded();
    }

    pub(crate) fn failed(&self) {
        let (endpoint, pool) = (&self.endpoint, &self.pool);
        endpoint.failed.fetch_add(1, Ordering::Relaxed);
        if endpoint.health.failed(&pool.health, Instant::now()) {
            self.counts.ejections.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(pool = pool.name, server = %endpoint.origin, "a server fails and is left alone for a while");
        }
    }

    /// Counts a response that broke off.
    pub(crate) fn aborted(&self, why: &dyn fmt::Display) {
        self.counts.aborted.fetch_add(1, Ordering::Relaxed);
        let (pool, server) = (&self.pool.name, &self.endpoint.origin);
        tracing::warn!(%pool, %server, %why, "an answer broke off");
        self.failed();
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.endpoint.in_flight.fetch_sub(1, Ordering::Relaxed);
        self.counts.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.origin)
    }
}
