//! `ShouldRateLimit`: validates requests and dispatches them to the configuration of the reference server or to the file.

use std::fmt;

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::post;
use bytes::Bytes;
use tonic::Status;

use super::proto::{Code, RateLimitRequest, RateLimitResponse};
use super::stats::add;
use super::{RateLimitService, metadata};
use crate::grpc_call;

/// Maximum length of a domain.
const LONGEST_DOMAIN: usize = 256;
/// Maximum number of descriptors in a request.
const MOST_DESCRIPTORS: usize = 64;
/// Maximum number of entries in a descriptor.
const MOST_ENTRIES: usize = 32;
/// Maximum length of the key of an entry.
const LONGEST_KEY: usize = 1024;
/// Maximum length of the value of an entry.
const LONGEST_VALUE: usize = 8 * 1024;

/// The path of the service's only method.
pub(crate) const SHOULD_RATE_LIMIT: &str =
    "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

pub(crate) fn router(service: &RateLimitService) -> Router {
    let service = service.clone();
    let ask = |request: Request| async move { answer(&service, request).await };
    Router::new().route(SHOULD_RATE_LIMIT, post(ask))
}

/// Handles a gRPC call.
pub(crate) async fn answer<B>(service: &RateLimitService, request: http::Request<B>) -> Response
where
    B: hyper::body::Body<Data = Bytes, Error: fmt::Display> + Unpin,
{
    let answer = |question| async move { should_rate_limit(service, &question).await };
    grpc_call::unary(request, answer).await
}

/// Decides a request: by the reference server's configuration if it has the domain, otherwise by the file.
pub(super) async fn should_rate_limit(
    service: &RateLimitService,
    request: &RateLimitRequest,
) -> Result<RateLimitResponse, Status> {
    let envoy = &service.envoy;
    add(&envoy.stats.requests, 1);
    let span = service.state.traces.decision();
    let answered = match check(request) {
        Err(status) => Err(status),
        Ok(()) if envoy.has(&request.domain) => envoy.decide(request).await,
        Ok(()) => {
            if !envoy.settings.config.is_empty() {
                envoy.stats.unknown_domain(&request.domain);
            }
            super::native::decide(service, request).await
        }
    };
    match &answered {
        Ok(answer) => {
            let refused = answer.overall_code != Code::Ok as i32;
            span.answered(refused, |field| {
                metadata::decision_field(answer.dynamic_metadata.as_ref()?, field)
            });
        }
        Err(_) => add(&envoy.stats.service_error, 1),
    }
    answered
}

/// Rejects requests that are too large or empty.
fn check(request: &RateLimitRequest) -> Result<(), Status> {
    // The code and messages of the reference server.
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
