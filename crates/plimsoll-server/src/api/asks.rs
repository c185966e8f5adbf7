//! What is asked, as JSON: limits by name, or a request for which the routes of the file say it.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, Request};
use plimsoll::{Demand, Metadata, Priority};
use plimsoll_engine::{Answer, Ask, Claims, Hold, LimiterKind, Refusal};
use plimsoll_tower::Head;
use plimsoll_tower::keys::PeerAddr;
use serde::{Deserialize, Serialize};

use super::problem::Problem;
use crate::state::State;

/// How many limits one decision asks at most.
const MOST_ASKS: usize = 64;
/// How long a decision may wait at most.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// One decision: a limit, several of them (`asks`), or a `request`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Question {
    limit: Option<String>,
    key: Option<String>,
    tier: Option<String>,
    cost: Option<u64>,
    asks: Option<Vec<Named>>,
    request: Option<Described>,
    #[serde(default)]
    priority: Priority,
    /// How long to wait in queues, in milliseconds; not at all unless set.
    #[serde(default)]
    wait_ms: u64,
}

/// What is asked of one limit.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Named {
    limit: String,
    key: Option<String>,
    tier: Option<String>,
    cost: Option<u64>,
}

/// A request, as the client of this server received it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Described {
    #[serde(default)]
    method: Option<String>,
    path: String,
    #[serde(default)]
    host: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    peer: Option<IpAddr>,
    #[serde(default)]
    claims: BTreeMap<String, String>,
}

/// A question that can be asked.
pub(crate) enum Asked {
    Named(Vec<Named>, Demand),
    Request(Request<()>, Demand),
}

impl Question {
    /// Checks everything that can be wrong.
    pub(crate) fn asked(self, state: &State, holds: bool) -> Result<Asked, Problem> {
        let wait = Duration::from_millis(self.wait_ms);
        if wait > LONGEST_WAIT {
            return Err(Problem::bad(format!(
                "wait_ms is {}: expected at most {}",
                self.wait_ms,
                LONGEST_WAIT.as_millis()
            )));
        }
        let like = Demand::ONE.priority(self.priority);
        let like = match self.wait_ms {
            0 => like.at_once(),
            _ => like.within(wait),
        };
        let asks = match (self.limit, self.asks, self.request) {
            (Some(limit), None, None) => vec![Named {
                limit,
                key: self.key,
                tier: self.tier,
                cost: self.cost,
            }],
            (None, Some(asks), None) => asks,
            (None, None, Some(request)) => return Ok(Asked::Request(request.build()?, like)),
            _ => {
                return Err(Problem::bad(
                    "expected one of `limit`, `asks` and `request`",
                ));
            }
        };
        if asks.is_empty() || asks.len() > MOST_ASKS {
            return Err(Problem::bad(format!(
                "asks has {} entries: expected 1 to {MOST_ASKS}",
                asks.len()
            )));
        }
        for ask in &asks {
            match state.limits.kind(&ask.limit) {
                None => return Err(unknown(state, &ask.limit)),
                Some(LimiterKind::Resource) if !holds => {
                    return Err(Problem::conflict(format!(
                        "`{}` limits what is under way, and nothing would be held: take it with POST /v1/leases",
                        ask.limit
                    )));
                }
                Some(_) => {}
            }
        }
        Ok(Asked::Named(asks, like))
    }
}

fn unknown(state: &State, name: &str) -> Problem {
    let known = state.limits.names();
    let shown: Vec<&str> = known.iter().take(20).map(String::as_str).collect();
    Problem::not_found(format!(
        "there is no limit {name:?}: this server has {}",
        shown.join(", ")
    ))
}

impl Described {
    fn build(self) -> Result<Request<()>, Problem> {
        let bad = |what: &str, is: &str| Problem::bad(format!("request.{what} is {is:?}"));
        let method = self.method.as_deref().unwrap_or("GET");
        let mut request = Request::new(());
        *request.method_mut() =
            Method::from_bytes(method.as_bytes()).map_err(|_| bad("method", method))?;
        if !self.path.starts_with('/') {
            return Err(Problem::bad(format!(
                "request.path is {:?}: expected a path that begins with /",
                self.path
            )));
        }
        *request.uri_mut() = self.path.parse().map_err(|_| bad("path", &self.path))?;
        for (name, value) in &self.headers {
            let field = HeaderName::from_bytes(name.as_bytes());
            let field = field.map_err(|_| bad("headers", name))?;
            let value = HeaderValue::from_str(value).map_err(|_| bad("headers", name))?;
            request.headers_mut().append(field, value);
        }
        if let Some(host) = &self.host {
            let value = HeaderValue::from_str(host).map_err(|_| bad("host", host))?;
            request.headers_mut().insert(http::header::HOST, value);
        }
        if let Some(peer) = self.peer {
            request
                .extensions_mut()
                .insert(PeerAddr(SocketAddr::new(peer, 0)));
        }
        if !self.claims.is_empty() {
            request
                .extensions_mut()
                .insert(self.claims.into_iter().collect::<Claims>());
        }
        Ok(request)
    }
}

impl Asked {
    /// Decides. `None` if no route is for the request. Requests that wait when the server stops are answered so.
    pub(crate) async fn decide(
        &self,
        state: &State,
    ) -> Result<Option<Result<Hold, Refusal>>, Problem> {
        let (decide, like) = match self {
            Self::Named(asks, like) => (Some(state.limits.decide(&names(asks), *like)), like),
            Self::Request(request, like) => {
                let head = Head::of(request);
                (state.limits.decide_request(&head, *like), like)
            }
        };
        let Some(decide) = decide else {
            return Ok(None);
        };
        if like.is_at_once() {
            return Ok(Some(decide.await));
        }
        let decided = state.drain.unless_begun(decide).await;
        decided.map(Some).ok_or_else(Problem::stopping)
    }

    pub(crate) fn peek(&self, state: &State) -> Option<Result<Hold, Refusal>> {
        match self {
            Self::Named(asks, _) => Some(state.limits.peek(&names(asks))),
            Self::Request(request, _) => state.limits.peek_request(&Head::of(request)),
        }
    }

    /// The limits, where they were named.
    pub(crate) fn named(&self) -> Option<Vec<Ask<'_>>> {
        match self {
            Self::Named(asks, _) => Some(names(asks)),
            Self::Request(..) => None,
        }
    }
}

fn names(asks: &[Named]) -> Vec<Ask<'_>> {
    fn ask(named: &Named) -> Ask<'_> {
        let Named {
            limit,
            key,
            tier,
            cost,
        } = named;
        let mut ask = Ask::new(limit).cost(cost.unwrap_or(1));
        ask.key = key.as_deref();
        ask.tier = tier.as_deref();
        ask
    }
    asks.iter().map(ask).collect()
}

/// What one limit says.
#[derive(Debug, Serialize)]
pub(crate) struct Said {
    limit: String,
    cost: u64,
    granted: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    shadow: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    window_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reset_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// What the file says about the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Metadata>,
}

impl From<Answer<'_>> for Said {
    fn from(answer: Answer<'_>) -> Self {
        let standing = answer.standing;
        Self {
            limit: answer.limit.to_owned(),
            cost: answer.cost,
            granted: answer.is_granted(),
            shadow: answer.shadow,
            quota: standing.map(|it| it.limit),
            remaining: standing.and_then(|it| it.remaining),
            window_ms: standing.and_then(|it| it.window).map(millis),
            reset_ms: standing.and_then(|it| it.reset).map(millis),
            retry_after_ms: answer.retry_after().map(millis),
            reason: answer.denied.map(|denied| denied.reason().as_str()),
            metadata: answer.metadata.cloned(),
        }
    }
}

/// Milliseconds, rounded up: a retry a moment too early is refused again.
pub(crate) fn millis(span: Duration) -> u64 {
    let rest = !span.subsec_nanos().is_multiple_of(1_000_000);
    u64::try_from(span.as_millis())
        .unwrap_or(u64::MAX)
        .saturating_add(rest.into())
}
