//! Clients in an open loop: they send requests at given times, regardless of earlier responses.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use crate::chance::Chance;
use crate::samples::{Outcome, Sample};
use crate::script::{Class, PATIENCE, Stage};

type Connection = SendRequest<Empty<Bytes>>;

/// Clients of one server, and their connections.
#[derive(Debug)]
pub(crate) struct Clients {
    to: SocketAddr,
    idle: Mutex<Vec<Connection>>,
}

impl Clients {
    pub(crate) fn new(to: SocketAddr) -> Arc<Self> {
        Arc::new(Self {
            to,
            idle: Mutex::default(),
        })
    }

    /// Sends the requests of a class in a run of this length, and reports the result of each.
    pub(crate) async fn ask(
        self: Arc<Self>,
        class: Class,
        start: Instant,
        whole: Duration,
        tell: mpsc::UnboundedSender<Sample>,
    ) {
        let (from, to) = Stage::when(class);
        let end = whole.mul_f64(to);
        let mut chance = Chance::new(class.callers().into());
        let mut at = whole.mul_f64(from);
        loop {
            at += chance.gap(class.rate());
            if at >= end {
                return;
            }
            let caller = (chance.share() * f64::from(class.callers())).floor();
            sleep_until(start + at).await;
            let (this, tell) = (Arc::clone(&self), tell.clone());
            tokio::spawn(async move {
                let begun = Instant::now();
                let answer = timeout(PATIENCE, this.one(class, caller)).await;
                let outcome = answer.unwrap_or(Outcome::GaveUp);
                let _ = tell.send(Sample {
                    class,
                    at,
                    took: begun.elapsed(),
                    outcome,
                });
            });
        }
    }

    async fn one(&self, class: Class, caller: f64) -> Outcome {
        self.send(class, caller).await.unwrap_or(Outcome::Failed)
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An idle connection, or a new one.
    async fn connection(&self) -> Option<Connection> {
        loop {
            let Some(mut known) = self.idle().pop() else {
                break;
            };
            if known.ready().await.is_ok() {
                return Some(known);
            }
        }
        let stream = TcpStream::connect(self.to).await.ok()?;
        stream.set_nodelay(true).ok()?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.ok()?;
        tokio::spawn(connection);
        Some(sender)
    }

    async fn send(&self, class: Class, caller: f64) -> Option<Outcome> {
        let mut connection = self.connection().await?;
        let request = Request::get(class.path())
            .header("host", "shop.example")
            .header("x-api-key", format!("{}-{caller}", class.as_str()))
            .body(Empty::new())
            .ok()?;
        let response = connection.send_request(request).await.ok()?;
        let status = response.status();
        let body = response.into_body().collect().await.ok()?.to_bytes();
        self.idle().push(connection);
        Some(match status {
            StatusCode::OK => Outcome::Good,
            _ => refused(&body).unwrap_or(Outcome::Failed),
        })
    }
}

/// The problem document of a refusal (RFC 9457).
fn refused(body: &[u8]) -> Option<Outcome> {
    let problem: serde_json::Value = serde_json::from_slice(body).ok()?;
    Some(Outcome::Refused {
        limit: problem["violated-policies"][0].as_str()?.to_owned(),
        reason: problem["detail"].as_str()?.to_owned(),
    })
}
