//! `ShouldRateLimit`: what may be asked, and who answers it.

use std::fmt;

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::post;
use bytes::Bytes;
use tonic::Status;

use super::proto::{Code, RateLimitRequest, RateLimitResponse};
use super::stats::add;
use super::{Front, metadata};
use crate::call;

/// How long a domain is at most.
const LONGEST_DOMAIN: usize = 256;
/// How many descriptors a request has at most.
const MOST_DESCRIPTORS: usize = 64;
/// How many entries a descriptor has at most.
const MOST_ENTRIES: usize = 32;
/// How long the key of an entry is at most.
const LONGEST_KEY: usize = 1024;
/// How long the value of an entry is at most.
const LONGEST_VALUE: usize = 8 * 1024;

/// The path of the service's one method.
pub(crate) const SHOULD_RATE_LIMIT: &str =
    "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

pub(crate) fn router(front: &Front) -> Router {
    let front = front.clone();
    let ask = |request: Request| async move { answer(&front, request).await };
    Router::new().route(SHOULD_RATE_LIMIT, post(ask))
}

/// Answers a call.
pub(crate) async fn answer<B>(front: &Front, request: http::Request<B>) -> Response
where
    B: hyper::body::Body<Data = Bytes, Error: fmt::Display> + Unpin,
{
    let answer = |question| async move { should_rate_limit(front, &question).await };
    call::unary(request, answer).await
}

/// The answer to a request. Domains of the reference server's configuration are answered by that, all others by our own
/// file.
pub(super) async fn should_rate_limit(
    front: &Front,
    request: &RateLimitRequest,
) -> Result<RateLimitResponse, Status> {
    let envoy = &front.envoy;
    add(&envoy.stats.requests, 1);
    let span = front.state.traces.decision();
    let answered = match check(request) {
        Err(status) => Err(status),
        Ok(()) if envoy.has(&request.domain) => envoy.decide(request).await,
        Ok(()) => {
            if !envoy.settings.config.is_empty() {
                envoy.stats.unknown_domain(&request.domain);
            }
            super::native::decide(front, request).await
        }
    };
    match &answered {
        Ok(answer) => {
            let refused = answer.overall_code != Code::Ok as i32;
            span.answered(refused, |field| {
                metadata::told(answer.dynamic_metadata.as_ref()?, field)
            });
        }
        Err(_) => add(&envoy.stats.service_error, 1),
    }
    answered
}

/// Refuses what is too large, and what says nothing.
fn check(request: &RateLimitRequest) -> Result<(), Status> {
    // The reference server answers these two as unknown errors, in these words.
    if request.domain.is_empty() {
        return Err(Status::unknown("rate limit domain must not be empty"));
    }
    if request.descriptors.is_empty() {
        return Err(Status::unknown(
            "rate limit descriptor list must not be empty",
        ));
    }
    at_most(
        || "domain".to_owned(),
        "bytes",
        request.domain.len(),
        LONGEST_DOMAIN,
    )?;
    let count = request.descriptors.len();
    at_most(
        || "descriptors".to_owned(),
        "of them",
        count,
        MOST_DESCRIPTORS,
    )?;
    for (index, descriptor) in request.descriptors.iter().enumerate() {
        let entries = &descriptor.entries;
        let place = || format!("descriptors[{index}].entries");
        at_most(place, "of them", entries.len(), MOST_ENTRIES)?;
        for (at, entry) in entries.iter().enumerate() {
            let place = || format!("descriptors[{index}].entries[{at}].key");
            at_most(place, "bytes", entry.key.len(), LONGEST_KEY)?;
            let place = || format!("descriptors[{index}].entries[{at}].value");
            at_most(place, "bytes", entry.value.len(), LONGEST_VALUE)?;
        }
    }
    Ok(())
}

fn at_most(
    what: impl FnOnce() -> String,
    unit: &str,
    found: usize,
    most: usize,
) -> Result<(), Status> {
    if found <= most {
        return Ok(());
    }
    Err(Status::invalid_argument(format!(
        "{}: expected at most {most} {unit}, found {found}",
        what()
    )))
}
