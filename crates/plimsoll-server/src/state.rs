//! The state that all ports share.

use std::sync::Arc;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use plimsoll::Clock;
use plimsoll_admin::{Drain, HttpPort, Places, Reloads, constant_time_eq};
use plimsoll_engine::{Ask, Limits, Parametric};

use crate::leases::Leases;
use crate::quota::Quotas;
use crate::snapshot::Snapshots;
use crate::trace::Traces;

/// The state that all ports share.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) limits: Limits,
    /// The limits from the configuration of Envoy's reference server.
    pub(crate) envoy: Limits,
    pub(crate) parametric: Parametric,
    pub(crate) leases: Leases,
    pub(crate) quotas: Arc<Quotas>,
    pub(crate) connections: Places,
    pub(crate) reloads: Reloads,
    /// The directory for snapshots, if one is set.
    pub(crate) snapshots: Option<Snapshots>,
    pub(crate) clock: Clock,
    pub(crate) drain: Drain,
    /// The time that requests in progress have after the server begins to stop.
    pub(crate) drain_timeout: Duration,
    /// Timeout for the head of a request.
    pub(crate) head_timeout: Duration,
    /// The token that clients must send, if one is set.
    pub(crate) token: Option<String>,
    pub(crate) traces: Traces,
}

impl State {
    pub(crate) const fn needs_token(&self) -> bool {
        self.token.is_some()
    }

    /// Whether `presented` is the token. The comparison takes constant time.
    pub(crate) fn is_token(&self, presented: &[u8]) -> bool {
        let token = self.token.as_ref();
        token.is_none_or(|token| constant_time_eq(token.as_bytes(), presented))
    }

    /// Whether a request carries the token, if one is set.
    pub(crate) fn is_authorized(&self, headers: &HeaderMap) -> bool {
        self.is_authorized_by(headers.get(AUTHORIZATION).map(HeaderValue::as_bytes))
    }

    /// Whether a request with this field `authorization` carries the token, if one is set.
    pub(crate) fn is_authorized_by(&self, presented: Option<&[u8]>) -> bool {
        let presented = presented.and_then(|it| it.strip_prefix(b"Bearer "));
        !self.needs_token() || presented.is_some_and(|presented| self.is_token(presented))
    }

    /// An HTTP port with the timeouts and the connection limit of this server.
    pub(crate) fn http_port(&self) -> HttpPort {
        HttpPort::new(
            self.head_timeout,
            self.drain_timeout,
            self.connections.clone(),
        )
    }

    /// Checks that a limit can be taken from by name for a permit that is never returned.
    pub(crate) fn check(&self, ask: Ask<'_>) -> Result<(), String> {
        match self.limits.kind(ask.limit) {
            None => Err(format!("ERR there is no limit `{}`", ask.limit)),
            Some(plimsoll_engine::LimiterKind::Resource) => Err(format!(
                "ERR `{}` limits what is under way: take it over HTTP with POST /v1/leases, and release it there",
                ask.limit
            )),
            Some(_) => Ok(()),
        }
    }
}
