//! Decides requests by the routes and limits of the file.
//!
//! Each descriptor is converted to an HTTP request that the routes match: its domain becomes the host, its entries become header
//! fields and the values of `descriptor:NAME`, and entries named after a part of a request, such as the path, set that part. So a
//! file that limits requests in front of a service also limits them behind Envoy.

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

use super::RateLimitService;
use super::proto::{RateLimitDescriptor, RateLimitRequest, RateLimitResponse};
use super::status::{DescriptorResult, Limit, ResponseOptions, header, response};
use crate::state::State;

/// The asks of one descriptor.
struct Asked {
    asks: Vec<RequestAsk>,
    returns: bool,
}

/// Decides a request by the routes of the file.
pub(super) async fn decide(
    service: &RateLimitService,
    request: &RateLimitRequest,
) -> Result<RateLimitResponse, Status> {
    let state = &*service.state;
    // The priority of the first descriptor that matches a route.
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
    refund(service, &asked);
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
    let (results, refused) = answers(&asked, &decided);
    let mut response = response(refused.is_some(), &results, ResponseOptions::default());
    if let Some(denied) = refused {
        refuse(&mut response, denied);
    }
    if let Ok(hold) = decided
        && !store_slots(service, &asked, hold)
    {
        return Err(Status::resource_exhausted(
            "there are too many leases: expected that descriptors return slots with negative hits",
        ));
    }
    Ok(response)
}

/// Converts a descriptor to a request.
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

/// Applies the hits of a descriptor to its asks. A cost that is known only afterwards is charged now, and in full.
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

/// Handles negative hits: refunds rates, and ends the oldest lease of each slot.
fn refund(service: &RateLimitService, asked: &[Asked]) {
    let state = &service.state;
    let returned = asked.iter().filter(|asked| asked.returns);
    for ask in returned.flat_map(|asked| &asked.asks) {
        match state.limits.kind(&ask.limit) {
            Some(LimiterKind::Resource) => {
                service.envoy.slots.end_one(&state.leases, &subject(ask))
            }
            _ => state.limits.refund(&[ask.ask()]),
        }
    }
}

/// Stores held slots until they are returned or expire. Returns `false` if the lease table is full.
fn store_slots(service: &RateLimitService, asked: &[Asked], hold: Hold) -> bool {
    let state = &service.state;
    if !hold.gives_back() {
        return true;
    }
    let taken = asked.iter().filter(|asked| !asked.returns);
    let slots = taken
        .flat_map(|asked| &asked.asks)
        .filter(|ask| ask.cost > 0 && state.limits.kind(&ask.limit) == Some(LimiterKind::Resource));
    let subjects: HashSet<String> = slots.map(subject).collect();
    let ttl = service.envoy.settings.lease;
    service.envoy.slots.keep(&state.leases, hold, ttl, subjects)
}

/// The limit and the key of an ask, as one text.
fn subject(ask: &RequestAsk) -> String {
    format!("{}|{}", ask.limit, ask.key.as_deref().unwrap_or_default())
}

fn has_store(state: &State, asks: &[Ask<'_>]) -> bool {
    asks.iter().any(|ask| state.limits.is_remote(ask.limit))
}

/// The result of each descriptor, and the refusal of the request, if it was refused.
fn answers<'d>(
    asked: &[Asked],
    decided: &'d Result<Hold, Refusal>,
) -> (Vec<DescriptorResult<'d>>, Option<&'d Denied>) {
    let (each, refused): (Vec<Answer<'d>>, _) = match decided {
        Ok(hold) => (hold.answers().collect(), None),
        Err(refusal) => (refusal.answers().collect(), Some(refusal.denied())),
    };
    let mut each = each.into_iter();
    let results = asked.iter().map(|asked| {
        let count = if asked.returns { 0 } else { asked.asks.len() };
        let answers: Vec<Answer<'d>> = each.by_ref().take(count).collect();
        descriptor_result(&answers)
    });
    (results.collect(), refused)
}

/// The result of a descriptor, by its binding limit: of the limits that refuse the one with the longest retry time, otherwise
/// the one with the least remaining.
fn descriptor_result<'d>(answers: &[Answer<'d>]) -> DescriptorResult<'d> {
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
    // A limit in shadow mode is reported only if there is no other.
    let Some(answer) = binding.copied().or(would).or(answers.first()) else {
        return DescriptorResult::default();
    };
    let standing = answer.standing;
    DescriptorResult {
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
        shadow_verdicts: answers
            .iter()
            .filter(|it| it.shadow)
            .map(|it| (it.limit, !it.is_granted()))
            .collect(),
        ..DescriptorResult::default()
    }
}

/// Adds a problem body, and `retry-after` if no descriptor set it.
fn refuse(response: &mut RateLimitResponse, denied: &Denied) {
    let seconds = retry_seconds(denied, &[]);
    let headers = &mut response.response_headers_to_add;
    let is_set = headers.iter().any(|it| it.key == "retry-after");
    if let Some(seconds) = seconds.filter(|_| !is_set) {
        headers.push(header("retry-after", seconds.max(1).to_string()));
    }
    headers.push(header(
        "content-type",
        "application/problem+json".to_owned(),
    ));
    let class = Class::of_caller(denied);
    response.raw_body = problem(class, denied, seconds).to_vec();
}

/// The response if a descriptor lacks the entry from which a limit reads its key.
fn without_key(refusal: &Refusal, descriptors: usize) -> RateLimitResponse {
    let denied = refusal.denied();
    let mut results: Vec<DescriptorResult<'_>> = Vec::new();
    results.resize_with(descriptors, || DescriptorResult {
        over: true,
        reason: Some(denied.reason().as_str()),
        ..DescriptorResult::default()
    });
    let mut response = response(true, &results, ResponseOptions::default());
    refuse(&mut response, denied);
    response
}
