//! A port for operators: health, readiness and metrics.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header::CONTENT_TYPE};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use plimsoll_engine::Limits;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use crate::counts::Counts;
use crate::response_body::ResponseBody;

/// How many connections of operators there are at most.
const CONNECTIONS: usize = 64;

/// The pages for operators.
#[derive(Clone)]
pub(crate) struct Admin {
    pub(crate) limits: Limits,
    pub(crate) counts: Arc<Counts>,
    pub(crate) stop: watch::Receiver<bool>,
}

impl Admin {
    /// Answers for ever.
    pub(crate) async fn run(self, listener: TcpListener) {
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let place = Arc::clone(&places).acquire_owned().await;
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            };
            let this = self.clone();
            tokio::spawn(async move {
                let service = service_fn(|request: Request<Incoming>| {
                    let response = this.answer(request.uri().path());
                    async { Ok::<_, Infallible>(response.map(ResponseBody::own)) }
                });
                let mut builder = http1::Builder::new();
                builder
                    .timer(TokioTimer::new())
                    .header_read_timeout(Duration::from_secs(10));
                let _ = builder
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
                drop(place);
            });
        }
    }

    fn answer(&self, path: &str) -> Response<Bytes> {
        let (status, text) = match path {
            "/healthz" => (StatusCode::OK, "ok\n".to_owned()),
            // Not ready any more as soon as the gateway stops, so that others are asked in its place.
            "/readyz" if *self.stop.borrow() => {
                (StatusCode::SERVICE_UNAVAILABLE, "stopping\n".to_owned())
            }
            "/readyz" => (StatusCode::OK, "ready\n".to_owned()),
            "/metrics" => (StatusCode::OK, self.metrics()),
            _ => (
                StatusCode::NOT_FOUND,
                "expected /healthz, /readyz or /metrics\n".to_owned(),
            ),
        };
        let mut response = Response::new(Bytes::from(text));
        *response.status_mut() = status;
        let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        response
    }

    /// What was counted of requests, and how the limits stand.
    fn metrics(&self) -> String {
        let mut text = self.counts.to_prometheus();
        let limits = self.limits.snapshot();
        let mut each = |name: &str, kind: &str, of: &dyn Fn(usize) -> u64| {
            text += &format!("# TYPE plimsoll_{name} {kind}\n");
            for (index, limit) in limits.iter().enumerate() {
                text += &format!(
                    "plimsoll_{name}{{limit=\"{}\"}} {}\n",
                    limit.name,
                    of(index)
                );
            }
        };
        each("limit", "gauge", &|it| limits[it].snapshot.limit());
        each("in_use", "gauge", &|it| limits[it].snapshot.in_use());
        each("waiting", "gauge", &|it| limits[it].snapshot.waiters());
        each("granted_total", "counter", &|it| {
            limits[it].snapshot.granted_total()
        });
        each("denied_total", "counter", &|it| {
            limits[it].snapshot.denied_total()
        });
        each("would_refuse_total", "counter", &|it| {
            limits[it].would_refuse
        });
        text
    }
}
