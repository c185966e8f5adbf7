//! The gRPC port: its services, and what they have in common.
//!
//! Messages are written by hand, with the fields that are used: there is nothing to generate.

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

/// How long calls may take that are under way when a connection is old, as the reference server has it.
const GRACE: Duration = Duration::from_secs(60 * 60);

/// Serves the port until `drain` begins and what is under way has ended. Connections become about as old as `age`, so that
/// proxies spread over servers that were added.
pub(crate) async fn serve(listener: TcpListener, envoy: envoy::Front, drain: Drain, age: Duration) {
    let state = Arc::clone(&envoy.state);
    let router = state.traces.layer(router(&envoy, &drain));
    let age = Age {
        most: age,
        grace: GRACE,
    };
    let port = state.http_port().age(age).streams();
    let answers = Port { envoy, router };
    port.serve(listener, answers, drain).await;
}

/// All of the port: Envoy's question directly, everything else by the router. A router boxes a service and a future for each of
/// its layers, which costs more than a decision does.
#[derive(Clone)]
struct Port {
    envoy: envoy::Front,
    router: Router,
}

impl Handler for Port {
    async fn handle(&self, request: http::Request<TimedBody>, peer: SocketAddr) -> Response {
        let state = &self.envoy.state;
        let is_direct = request.uri().path() == envoy::SHOULD_RATE_LIMIT
            && *request.method() == Method::POST
            && state.is_authorized(request.headers())
            && !state.traces.are_there();
        match is_direct {
            true => envoy::answer(&self.envoy, request).await,
            false => self.router.handle(request, peer).await,
        }
    }
}

/// All services of the port. Requests for the health of the server need no token.
fn router(envoy: &envoy::Front, drain: &Drain) -> Router {
    let state = &envoy.state;
    let authorized = axum::middleware::from_fn_with_state(Arc::clone(state), authorize);
    quota::router(&state.quotas, drain)
        .merge(envoy::router(envoy))
        .merge(reflection::router())
        .layer(authorized)
        .merge(health::router(drain.clone()))
        .fallback(unknown)
}

/// Passes requests that carry the token, if one is set.
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
