//! Envoy's rate limit quota service: divides limits of the file among the proxies that report usage.

mod bucket;
mod proto;
mod quotas;
mod stream;
mod view;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::routing::post;

pub(crate) use quotas::Quotas;
pub(crate) use view::{metrics, page};

use crate::grpc_call;
use plimsoll_admin::Drain;

const METHOD: &str =
    "/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas";

pub(crate) fn router(quotas: &Arc<Quotas>, drain: &Drain) -> Router {
    let (quotas, drain) = (Arc::clone(quotas), drain.clone());
    Router::new().route(
        METHOD,
        post(|request: Request| async move {
            grpc_call::streaming(request, |reports| {
                Ok(stream::open(Arc::clone(&quotas), reports, drain.clone()))
            })
            .await
        }),
    )
}
