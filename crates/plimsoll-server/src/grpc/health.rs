//! `grpc.health.v1.Health`: reports `SERVING` until the server begins to stop.

use axum::Router;
use axum::extract::Request;
use axum::routing::post;
use futures_core::Stream;
use futures_util::stream;
use prost::{Enumeration, Message};
use tonic::Status;

use crate::grpc_call;
use plimsoll_admin::Drain;

/// The known service names. The empty name is the whole server, and `ratelimit` the name that the reference server uses.
const KNOWN: &[&str] = &[
    "",
    "ratelimit",
    "envoy.service.ratelimit.v3.RateLimitService",
    "envoy.service.rate_limit_quota.v3.RateLimitQuotaService",
];

#[derive(Clone, PartialEq, Message)]
struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    service: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct HealthCheckResponse {
    #[prost(enumeration = "ServingStatus", tag = "1")]
    status: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Enumeration)]
#[repr(i32)]
enum ServingStatus {
    Unknown = 0,
    Serving = 1,
    NotServing = 2,
    ServiceUnknown = 3,
}

impl HealthCheckResponse {
    fn new(drain: &Drain) -> Self {
        let status = match drain.has_begun() {
            true => ServingStatus::NotServing,
            false => ServingStatus::Serving,
        };
        Self {
            status: status.into(),
        }
    }
}

pub(super) fn router(drain: Drain) -> Router {
    let watched = drain.clone();
    Router::new()
        .route(
            "/grpc.health.v1.Health/Check",
            post(|request: Request| async move {
                grpc_call::unary(request, |it| check(&it, &drain)).await
            }),
        )
        .route(
            "/grpc.health.v1.Health/Watch",
            post(|request: Request| async move {
                grpc_call::server_streaming(request, |it| Ok(watch(&it, &watched))).await
            }),
        )
}

fn check(
    request: &HealthCheckRequest,
    drain: &Drain,
) -> impl Future<Output = Result<HealthCheckResponse, Status>> + use<> {
    let known = KNOWN.contains(&request.service.as_str());
    let answer = match known {
        true => Ok(HealthCheckResponse::new(drain)),
        false => Err(Status::not_found(format!(
            "there is no service {:?}: expected one of {KNOWN:?}",
            request.service
        ))),
    };
    std::future::ready(answer)
}

/// Streams the current status, then each change, until the server begins to stop.
fn watch(
    request: &HealthCheckRequest,
    drain: &Drain,
) -> impl Stream<Item = Result<HealthCheckResponse, Status>> + use<> {
    let known = KNOWN.contains(&request.service.as_str());
    let first = match known {
        true => HealthCheckResponse::new(drain),
        false => HealthCheckResponse {
            status: ServingStatus::ServiceUnknown.into(),
        },
    };
    let reported = known && drain.has_begun();
    let drain = drain.clone();
    let changes = stream::unfold(reported, move |reported| {
        let drain = drain.clone();
        async move {
            if reported {
                return None;
            }
            drain.begun().await;
            known.then(|| (Ok(HealthCheckResponse::new(&drain)), true))
        }
    });
    stream::StreamExt::chain(stream::iter([Ok(first)]), changes)
}
