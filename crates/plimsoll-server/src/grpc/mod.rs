//! The gRPC port: the router of its services, and authorization.
//!
//! The message types are written by hand, with the fields that are used, so no code is generated from `.proto` files.

mod descriptors;
mod health;
mod reflection;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State as Extract};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::Method;
use plimsoll_admin::{Age, Drain, Handler, TimedBody};
use tokio::net::TcpListener;
use tonic::Status;

use crate::envoy;
use crate::quota;
use crate::state::State;

/// The time that calls in progress have after their connection has reached its maximum age, as in the reference server.
const GRACE: Duration = Duration::from_secs(60 * 60);

/// Serves the port until `drain` begins and calls in progress have ended. Connections are closed at about `age`, so that
/// proxies spread over servers that were added.
pub(crate) async fn serve(
    listener: TcpListener,
    envoy: envoy::RateLimitService,
    drain: Drain,
    age: Duration,
) {
    let state = Arc::clone(&envoy.state);
    let router = state.traces.layer(router(&envoy, &drain));
    let age = Age {
        most: age,
        grace: GRACE,
    };
    let port = state.http_port().age(age).streams();
    let handler = GrpcHandler { envoy, router };
    port.serve(listener, handler, drain).await;
}

/// The handler of the gRPC port: `ShouldRateLimit` on a fast path, all other methods by the router. A router boxes a service and a
/// future for each of its layers, which costs more than a decision.
#[derive(Clone)]
struct GrpcHandler {
    envoy: envoy::RateLimitService,
    router: Router,
}

impl Handler for GrpcHandler {
    async fn handle(&self, request: http::Request<TimedBody>, peer: SocketAddr) -> Response {
        let state = &self.envoy.state;
        let is_direct = request.uri().path() == envoy::SHOULD_RATE_LIMIT
            && *request.method() == Method::POST
            && state.is_authorized(request.headers())
            && !state.traces.is_enabled();
        match is_direct {
            true => envoy::answer(&self.envoy, request).await,
            false => self.router.handle(request, peer).await,
        }
    }
}

/// All services of the port. The health service needs no token.
fn router(envoy: &envoy::RateLimitService, drain: &Drain) -> Router {
    let state = &envoy.state;
    let authorized = axum::middleware::from_fn_with_state(Arc::clone(state), authorize);
    quota::router(&state.quotas, drain)
        .merge(envoy::router(envoy))
        .merge(reflection::router())
        .layer(authorized)
        .merge(health::router(drain.clone()))
        .fallback(unknown)
}

/// Middleware that refuses requests without the token, if one is set.
async fn authorize(Extract(state): Extract<Arc<State>>, request: Request, next: Next) -> Response {
    if !state.is_authorized(request.headers()) {
        let why = "expected the metadata authorization: Bearer TOKEN";
        return failed(Status::unauthenticated(why));
    }
    next.run(request).await
}

async fn unknown(request: Request) -> Response {
    let path = request.uri().path();
    failed(Status::unimplemented(format!("there is no method {path}")))
}

fn failed(status: Status) -> Response {
    status.into_http::<axum::body::Body>().into_response()
}
