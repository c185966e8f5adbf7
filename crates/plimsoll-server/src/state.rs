//! What all ports share.

use std::sync::Arc;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use plimsoll::Clock;
use plimsoll_admin::{Drain, HttpPort, Places, Reloads, is_same};
use plimsoll_engine::{Ask, Limits, Parametric};

use crate::leases::Leases;
use crate::quota::Quotas;
use crate::snapshot::Snapshots;
use crate::trace::Traces;

/// What all ports share.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) limits: Limits,
    /// Those of the configuration of Envoy's reference server.
    pub(crate) envoy: Limits,
    pub(crate) parametric: Parametric,
    pub(crate) leases: Leases,
    pub(crate) quotas: Arc<Quotas>,
    pub(crate) connections: Places,
    pub(crate) reloads: Reloads,
    /// Where what limits remember is kept, if it is.
    pub(crate) snapshots: Option<Snapshots>,
    pub(crate) clock: Clock,
    pub(crate) drain: Drain,
    /// How long what is under way may take when the server stops.
    pub(crate) last: Duration,
    /// How long the head of a request may take.
    pub(crate) head: Duration,
    /// What clients must say to be answered, if anything.
    pub(crate) token: Option<String>,
    pub(crate) traces: Traces,
}

impl State {
    pub(crate) const fn needs_token(&self) -> bool {
        self.token.is_some()
    }

    /// Whether `said` is the token, in a time that does not depend on how much of it is right.
    pub(crate) fn is_token(&self, said: &[u8]) -> bool {
        let token = self.token.as_ref();
        token.is_none_or(|token| is_same(token.as_bytes(), said))
    }

    /// Whether a request carries the token, if one is set.
    pub(crate) fn is_authorized(&self, headers: &HeaderMap) -> bool {
        self.is_authorized_by(headers.get(AUTHORIZATION).map(HeaderValue::as_bytes))
    }

    /// Whether a request with this field `authorization` carries the token, if one is set.
    pub(crate) fn is_authorized_by(&self, said: Option<&[u8]>) -> bool {
        let said = said.and_then(|it| it.strip_prefix(b"Bearer "));
        !self.needs_token() || said.is_some_and(|said| self.is_token(said))
    }

    /// A port that speaks HTTP.
    pub(crate) fn http_port(&self) -> HttpPort {
        HttpPort::new(self.head, self.last, self.connections.clone())
    }

    /// Whether a limit can be asked by name, for a permit that is not returned.
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
