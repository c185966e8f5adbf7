//! Requests for the limits of our own file.
//!
//! A descriptor is a request as the routes of the file see one: its entries are header fields and what `descriptor:NAME`
//! reads, its domain is the host, and entries with the names of parts of a request are those parts. So a file that limits
//! requests in front of a service limits them in front of Envoy too.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, Request};
use plimsoll::{Demand, Denied};
use plimsoll_engine::{Answer, Ask, Descriptors, Hold, LimiterKind, Refusal, RequestAsk};
use plimsoll_tower::Head;
use plimsoll_tower::answer::{Class, problem, retry_seconds};
use plimsoll_tower::keys::PeerAddr;
use tonic::Status;

use super::Front;
use super::proto::{RateLimitDescriptor, RateLimitRequest, RateLimitResponse};
use super::status::{Limit, Said, Style, header, response};
use crate::state::State;

/// What each descriptor asks.
struct Asked {
    asks: Vec<RequestAsk>,
    returns: bool,
}

/// The answer to a request, by the routes of our own file.
pub(super) async fn decide(
    front: &Front,
    request: &RateLimitRequest,
) -> Result<RateLimitResponse, Status> {
    let state = &*front.state;
    // That of the first descriptor that a route is for.
    let mut priority = None;
    let mut asked = Vec::with_capacity(request.descriptors.len());
    let mut missing = None;
    for descriptor in &request.descriptors {
        if descriptor.limit.is_some() {
            return Err(Status::invalid_argument(format!(
                "domain {:?}: a limit that comes with a request needs a domain of --envoy-config",
                request.domain
            )));
        }
        let described = describe(&request.domain, descriptor);
        match state.limits.asks_of(&Head::of(&described)) {
            Ok(Some((asks, its))) => {
                priority.get_or_insert(its);
                asked.push(counted(state, asks, request, descriptor));
            }
            Ok(None) => asked.push(Asked {
                asks: Vec::new(),
                returns: false,
            }),
            Err(refusal) => {
                missing = Some(refusal);
                break;
            }
        }
    }
    if let Some(refusal) = missing {
        return Ok(without_key(&refusal, request.descriptors.len()));
    }
    give_back(front, &asked);
    let taken = asked.iter().filter(|asked| !asked.returns);
    let asks: Vec<Ask<'_>> = taken
        .flat_map(|asked| asked.asks.iter().map(RequestAsk::ask))
        .collect();
    let is_look = asks.iter().all(|ask| ask.cost == 0);
    let decided = match is_look && !has_store(state, &asks) {
        true => state.limits.peek(&asks),
        false => {
            state
                .limits
                .decide(
                    &asks,
                    Demand::ONE.priority(priority.unwrap_or_default()).at_once(),
                )
                .await
        }
    };
    let (said, refused) = answers(&asked, &decided);
    let mut response = response(refused.is_some(), &said, Style::default());
    if let Some(denied) = refused {
        refuse(&mut response, denied);
    }
    if let Ok(hold) = decided
        && !keep(front, &asked, hold)
    {
        return Err(Status::resource_exhausted(
            "there are too many leases: expected that slots are given back with negative hits",
        ));
    }
    Ok(response)
}

/// A descriptor as a request.
fn describe(domain: &str, descriptor: &RateLimitDescriptor) -> Request<()> {
    let mut request = Request::new(());
    let mut host = domain;
    for entry in &descriptor.entries {
        let (key, value) = (entry.key.as_str(), entry.value.as_str());
        match key {
            "path" | ":path" if value.starts_with('/') => {
                if let Ok(uri) = value.parse() {
                    *request.uri_mut() = uri;
                }
            }
            "method" | ":method" => {
                if let Ok(method) = Method::from_bytes(value.as_bytes()) {
                    *request.method_mut() = method;
                }
            }
            "host" | ":authority" => host = value,
            "remote_address" | "masked_remote_address" => {
                let address = value.split('/').next().unwrap_or(value);
                if let Ok(address) = address.parse::<IpAddr>() {
                    let peer = PeerAddr(SocketAddr::new(address, 0));
                    request.extensions_mut().insert(peer);
                }
            }
            _ => {}
        }
        if let (Ok(name), Ok(value)) = (
            HeaderName::from_bytes(key.as_bytes()),
            HeaderValue::from_str(value),
        ) {
            request.headers_mut().append(name, value);
        }
    }
    if let Ok(host) = HeaderValue::from_str(host) {
        request.headers_mut().insert(http::header::HOST, host);
    }
    let entries = descriptor.entries.iter();
    let entries = entries.map(|entry| (entry.key.clone(), entry.value.clone()));
    request
        .extensions_mut()
        .insert(Descriptors(entries.collect()));
    request
}

/// What a descriptor asks, with its hits. What is known only after the fact is charged at once, and in full.
fn counted(
    state: &State,
    mut asks: Vec<RequestAsk>,
    request: &RateLimitRequest,
    descriptor: &RateLimitDescriptor,
) -> Asked {
    let of_request = (request.hits_addend > 0).then(|| u64::from(request.hits_addend));
    let hits = descriptor.hits_addend.or(of_request);
    let returns = descriptor.is_negative_hits && hits != Some(0);
    let Some(hits) = hits.or(returns.then_some(1)) else {
        return Asked { asks, returns };
    };
    for ask in &mut asks {
        if ask.is_late && !returns {
            ask.cost = hits;
            state.limits.charge(&[ask.ask()]);
            ask.cost = 0;
        } else if ask.is_late {
            ask.cost = hits;
        } else {
            ask.cost = ask.cost.saturating_mul(hits);
        }
    }
    Asked { asks, returns }
}

/// Gives rates back what they took, and ends the lease of a slot that was taken longest ago.
fn give_back(front: &Front, asked: &[Asked]) {
    let state = &front.state;
    let returned = asked.iter().filter(|asked| asked.returns);
    for ask in returned.flat_map(|asked| &asked.asks) {
        match state.limits.kind(&ask.limit) {
            Some(LimiterKind::Resource) => front.envoy.slots.end_one(&state.leases, &subject(ask)),
            _ => state.limits.refund(&[ask.ask()]),
        }
    }
}

/// Keeps slots until they are given back, or their time is up. False if there is no place for more.
fn keep(front: &Front, asked: &[Asked], hold: Hold) -> bool {
    let state = &front.state;
    if !hold.gives_back() {
        return true;
    }
    let taken = asked.iter().filter(|asked| !asked.returns);
    let slots = taken
        .flat_map(|asked| &asked.asks)
        .filter(|ask| ask.cost > 0 && state.limits.kind(&ask.limit) == Some(LimiterKind::Resource));
    let subjects: HashSet<String> = slots.map(subject).collect();
    let ttl = front.envoy.settings.lease;
    front.envoy.slots.keep(&state.leases, hold, ttl, subjects)
}

/// A limit and a key, as one text.
fn subject(ask: &RequestAsk) -> String {
    format!("{}|{}", ask.limit, ask.key.as_deref().unwrap_or_default())
}

fn has_store(state: &State, asks: &[Ask<'_>]) -> bool {
    asks.iter().any(|ask| state.limits.is_remote(ask.limit))
}

/// What is said of each descriptor, and why the request is refused, if it is.
fn answers<'d>(
    asked: &[Asked],
    decided: &'d Result<Hold, Refusal>,
) -> (Vec<Said<'d>>, Option<&'d Denied>) {
    let (each, refused): (Vec<Answer<'d>>, _) = match decided {
        Ok(hold) => (hold.answers().collect(), None),
        Err(refusal) => (refusal.answers().collect(), Some(refusal.denied())),
    };
    let mut each = each.into_iter();
    let said = asked.iter().map(|asked| {
        let count = if asked.returns { 0 } else { asked.asks.len() };
        let answers: Vec<Answer<'d>> = each.by_ref().take(count).collect();
        said(&answers)
    });
    (said.collect(), refused)
}

/// Of the limits of a descriptor the one that counts: that which takes longest of those that refuse, otherwise that of
/// which least is left.
fn said<'d>(answers: &[Answer<'d>]) -> Said<'d> {
    let denied = |answer: &&&Answer<'_>| !answer.is_granted() && !answer.shadow;
    let enforced = answers.iter().filter(|answer| !answer.shadow);
    let refusing = enforced.clone().collect::<Vec<_>>();
    let binding = refusing
        .iter()
        .filter(denied)
        .max_by_key(|it| it.retry_after());
    let remaining = |answer: &&&Answer<'_>| {
        answer
            .standing
            .map_or(u64::MAX, |it| it.remaining.unwrap_or(it.limit))
    };
    let binding = binding.or_else(|| refusing.iter().min_by_key(remaining));
    let would = answers.iter().find(|it| it.shadow && !it.is_granted());
    // A limit in shadow mode is reported where there is no other.
    let Some(answer) = binding.copied().or(would).or(answers.first()) else {
        return Said::default();
    };
    let standing = answer.standing;
    Said {
        limit: standing.map(|standing| Limit {
            name: answer.limit,
            own_name: answer.limit,
            quota: standing.limit,
            window: standing.window,
        }),
        remaining: standing.map_or(u64::MAX, |it| it.remaining.unwrap_or_default()),
        over: !answer.is_granted(),
        shadow: answer.shadow,
        reset: Some(
            standing
                .and_then(|it| it.reset)
                .or(answer.retry_after())
                .unwrap_or(Duration::ZERO),
        ),
        retry_after: answer.retry_after(),
        reason: answer.denied.map(|denied| denied.reason().as_str()),
        would: answers
            .iter()
            .filter(|it| it.shadow)
            .map(|it| (it.limit, !it.is_granted()))
            .collect(),
        ..Said::default()
    }
}

/// A body, and the time to wait, where the limits themselves said none.
fn refuse(response: &mut RateLimitResponse, denied: &Denied) {
    let seconds = retry_seconds(denied, &[]);
    let headers = &mut response.response_headers_to_add;
    let told = headers.iter().any(|it| it.key == "retry-after");
    if let Some(seconds) = seconds.filter(|_| !told) {
        headers.push(header("retry-after", seconds.max(1).to_string()));
    }
    headers.push(header(
        "content-type",
        "application/problem+json".to_owned(),
    ));
    let class = Class::of_caller(denied);
    response.raw_body = problem(class, denied, seconds).to_vec();
}

/// A descriptor lacks what a limit has its key from.
fn without_key(refusal: &Refusal, descriptors: usize) -> RateLimitResponse {
    let denied = refusal.denied();
    let mut said: Vec<Said<'_>> = Vec::new();
    said.resize_with(descriptors, || Said {
        over: true,
        reason: Some(denied.reason().as_str()),
        ..Said::default()
    });
    let mut response = response(true, &said, Style::default());
    refuse(&mut response, denied);
    response
}
