//! `grpc.health.v1.Health`: serving until the server stops.

use axum::Router;
use axum::extract::Request;
use axum::routing::post;
use futures_core::Stream;
use futures_util::stream;
use prost::{Enumeration, Message};
use tonic::Status;

use crate::call;
use plimsoll_admin::Drain;

/// What can be asked about: everything, or one of the services. `ratelimit` is the name of the reference server.
const KNOWN: &[&str] = &[
    "",
    "ratelimit",
    "envoy.service.ratelimit.v3.RateLimitService",
    "envoy.service.rate_limit_quota.v3.RateLimitQuotaService",
];

#[derive(Clone, PartialEq, Message)]
struct Question {
    #[prost(string, tag = "1")]
    service: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Answer {
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

impl Answer {
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
            post(|request: Request| async move { call::unary(request, |it| check(&it, &drain)).await }),
        )
        .route(
            "/grpc.health.v1.Health/Watch",
            post(|request: Request| async move {
                call::server_streaming(request, |it| Ok(watch(&it, &watched))).await
            }),
        )
}

fn check(
    question: &Question,
    drain: &Drain,
) -> impl Future<Output = Result<Answer, Status>> + use<> {
    let known = KNOWN.contains(&question.service.as_str());
    let answer = match known {
        true => Ok(Answer::new(drain)),
        false => Err(Status::not_found(format!(
            "there is no service {:?}: expected one of {KNOWN:?}",
            question.service
        ))),
    };
    std::future::ready(answer)
}

/// What it is, and then what it becomes. It ends with the server.
fn watch(question: &Question, drain: &Drain) -> impl Stream<Item = Result<Answer, Status>> + use<> {
    let known = KNOWN.contains(&question.service.as_str());
    let first = match known {
        true => Answer::new(drain),
        false => Answer {
            status: ServingStatus::ServiceUnknown.into(),
        },
    };
    let told = known && drain.has_begun();
    let drain = drain.clone();
    let changes = stream::unfold(told, move |told| {
        let drain = drain.clone();
        async move {
            if told {
                return None;
            }
            drain.begun().await;
            known.then(|| (Ok(Answer::new(&drain)), true))
        }
    });
    stream::StreamExt::chain(stream::iter([Ok(first)]), changes)
}
