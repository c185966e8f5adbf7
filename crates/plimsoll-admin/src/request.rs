//! Requests for a decision, as JSON: limits by name, or an HTTP request that is matched by the routes of the file.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, Request};
use plimsoll::{Demand, Priority};
use plimsoll_engine::{Answer, Ask, Claims, Hold, LimiterKind, Limits, Refusal};
use plimsoll_tower::Head;
use plimsoll_tower::keys::PeerAddr;
use serde::Deserialize;

use crate::drain::Drain;
use crate::problem::Problem;

/// Maximum number of limits in one decision.
const MOST_ASKS: usize = 64;
/// Maximum time that a decision may wait.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// One decision: a limit, several of them (`asks`), or a `request`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecisionRequest {
    limit: Option<String>,
    key: Option<String>,
    tier: Option<String>,
    cost: Option<u64>,
    asks: Option<Vec<Named>>,
    request: Option<Described>,
    #[serde(default)]
    priority: Priority,
    /// The longest wait in queues, in milliseconds. Default: 0.
    #[serde(default)]
    wait_ms: u64,
}

/// An ask for one limit by name.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    limit: String,
    key: Option<String>,
    tier: Option<String>,
    cost: Option<u64>,
}

/// The HTTP request to be checked.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Described {
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

/// A validated request for a decision.
#[derive(Debug)]
pub struct PreparedDecision(Subject, Demand);

#[derive(Debug)]
enum Subject {
    Named(Vec<Named>),
    Request(Request<()>),
}

impl DecisionRequest {
    /// Whether the decision may wait in queues.
    #[must_use]
    pub const fn waits(&self) -> bool {
        self.wait_ms > 0
    }

    /// Validates the request. Concurrency limits are accepted only if the caller `holds` permits.
    ///
    /// # Errors
    ///
    /// If the request is invalid.
    pub fn prepare(self, limits: &Limits, holds: bool) -> Result<PreparedDecision, Problem> {
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
            (None, None, Some(request)) => {
                return Ok(PreparedDecision(Subject::Request(request.build()?), like));
            }
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
            match limits.kind(&ask.limit) {
                None => return Err(unknown(limits, &ask.limit)),
                Some(LimiterKind::Resource) if !holds => {
                    return Err(Problem::conflict(format!(
                        "`{}` limits what is under way, and nothing would be held: take it with POST /v1/leases",
                        ask.limit
                    )));
                }
                Some(_) if ask.key.is_none() && limits.needs_key(&ask.limit) => {
                    return Err(Problem::bad(format!(
                        "`{}` is counted by key: expected `key`, or a `request` that has one",
                        ask.limit
                    )));
                }
                Some(_) => {}
            }
        }
        Ok(PreparedDecision(Subject::Named(asks), like))
    }
}

fn unknown(limits: &Limits, name: &str) -> Problem {
    let known = limits.names();
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

impl PreparedDecision {
    /// Decides. `None` if no route matches the request.
    ///
    /// # Errors
    ///
    /// If the shutdown begins while the decision waits.
    pub async fn decide(
        &self,
        limits: &Limits,
        drain: &Drain,
    ) -> Result<Option<Result<Hold, Refusal>>, Problem> {
        let Self(what, like) = self;
        let decide = match what {
            Subject::Named(asks) => Some(limits.decide(&names(asks), *like)),
            Subject::Request(request) => limits.decide_request(&Head::of(request), *like),
        };
        let Some(decide) = decide else {
            return Ok(None);
        };
        if like.is_at_once() {
            return Ok(Some(decide.await));
        }
        let decided = drain.unless_begun(decide).await;
        decided.map(Some).ok_or_else(Problem::stopping)
    }

    /// Fast path for one ask of one keyed rate: the answer of its limit if that grants at once. `None` takes nothing, and
    /// [`decide`](Self::decide) decides.
    #[must_use]
    pub fn answer_now(&self, limits: &Limits) -> Option<Answer<'_>> {
        match &self.0 {
            Subject::Named(asks) => match &asks[..] {
                [one] => limits.answer_now(ask(one)),
                _ => None,
            },
            Subject::Request(_) => None,
        }
    }

    /// Returns what [`decide`](Self::decide) would decide, without taking permits.
    #[must_use]
    pub fn peek(&self, limits: &Limits) -> Option<Result<Hold, Refusal>> {
        match &self.0 {
            Subject::Named(asks) => Some(limits.peek(&names(asks))),
            Subject::Request(request) => limits.peek_request(&Head::of(request)),
        }
    }

    /// The asks of a request for limits by name. `None` for an HTTP request.
    #[must_use]
    pub fn named(&self) -> Option<Vec<Ask<'_>>> {
        match &self.0 {
            Subject::Named(asks) => Some(names(asks)),
            Subject::Request(_) => None,
        }
    }
}

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

fn names(asks: &[Named]) -> Vec<Ask<'_>> {
    asks.iter().map(ask).collect()
}
