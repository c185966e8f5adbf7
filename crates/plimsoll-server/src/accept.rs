//! HTTP connections: accepted, bounded in what they may do, and ended in order.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use plimsoll_tower::keys::PeerAddr;
use tokio::net::TcpListener;
use tower_service::Service;

use crate::drain::Drain;
use crate::state::State;

/// How long the head of a request may take.
const HEAD: Duration = Duration::from_secs(10);
/// How long requests that are under way may take when the server stops.
const LAST: Duration = Duration::from_secs(10);

/// Serves a router until `drain` begins and what is under way has ended.
pub(crate) async fn serve(listener: TcpListener, router: Router, state: Arc<State>, drain: Drain) {
    let graceful = GracefulShutdown::new();
    let builder = builder();
    while let Some(accepted) = drain.unless_begun(listener.accept()).await {
        let Ok((stream, peer)) = accepted else {
            // Out of descriptors, mostly: others may end meanwhile.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let Some(place) = state.connections.enter() else {
            continue;
        };
        let _ = stream.set_nodelay(true);
        let router = router.clone();
        let service = service_fn(move |mut request: http::Request<Incoming>| {
            request.extensions_mut().insert(PeerAddr(peer));
            router.clone().call(request.map(Body::new))
        });
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        let connection = graceful.watch(connection.into_owned());
        tokio::spawn(async move {
            let _place = place;
            let _ = connection.await;
        });
    }
    let _ = tokio::time::timeout(LAST, graceful.shutdown()).await;
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(64 * 1024);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Duration::from_secs(30))
        .max_concurrent_streams(1024)
        .max_header_list_size(16 * 1024)
        .max_pending_accept_reset_streams(Some(64));
    builder
}
