//! HTTP connections: accepted, bounded in what they may do, and ended in order.

use std::convert::Infallible;
use std::io::Cursor;
use std::pin::pin;
use std::time::Duration;

use http::{Request, Version};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::drain::{Drain, Places};
use crate::handler::{Handler, TimedBody};
use crate::http1;
use crate::streams::Streams;

/// How a client begins that speaks HTTP/2.
const PREFACE: [u8; 24] = *b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How old connections become.
#[derive(Clone, Copy, Debug)]
pub struct Age {
    /// After this time, ten per cent more or less, a connection takes no new requests, so that clients spread anew.
    pub most: Duration,
    /// How long requests that are under way may take then.
    pub grace: Duration,
}

/// A port that speaks HTTP/1.1 and HTTP/2.
#[derive(Clone, Debug)]
pub struct HttpPort {
    head: Duration,
    last: Duration,
    connections: Places,
    age: Option<Age>,
    /// How long the body of a request may take.
    body: Duration,
}

impl HttpPort {
    /// The head of a request may take as long as `head`, and so may its body; what is under way when the port is closed as long
    /// as `last`.
    #[must_use]
    pub const fn new(head: Duration, last: Duration, connections: Places) -> Self {
        Self {
            head,
            last,
            connections,
            age: None,
            body: head,
        }
    }

    /// Bodies of requests may take as long as they like: they are streams.
    #[must_use]
    pub const fn streams(mut self) -> Self {
        self.body = Duration::MAX;
        self
    }

    /// How old its connections become: as old as they like unless set.
    #[must_use]
    pub const fn age(mut self, age: Age) -> Self {
        self.age = Some(age);
        self
    }

    /// Serves requests until `drain` begins and what is under way has ended.
    pub async fn serve(self, listener: TcpListener, handler: impl Handler, drain: Drain) {
        let Self {
            head,
            last,
            connections,
            age,
            body: within,
        } = self;
        // Nothing is sent: it is closed when the last connection has ended.
        let (open, mut all_ended) = mpsc::channel::<()>(1);
        while let Some(accepted) = drain.unless_begun(listener.accept()).await {
            let Ok((mut stream, peer)) = accepted else {
                // Out of descriptors, mostly: others may end meanwhile.
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            };
            let Some(place) = connections.enter() else {
                continue;
            };
            let _ = stream.set_nodelay(true);
            let (handler, fast_path) = (handler.clone(), handler.clone());
            let service = service_fn(move |request: Request<Incoming>| {
                let handler = handler.clone();
                let request = request.map(|body| TimedBody::new(body, within));
                async move { Ok::<_, Infallible>(handler.handle(request, peer).await) }
            });
            let (open, drain) = (open.clone(), drain.clone());
            tokio::spawn(async move {
                let _until_ended = (place, open);
                let version = drain.unless_begun(tokio::time::timeout(head, version(&stream)));
                let Some(Ok(Some(version))) = version.await else {
                    return;
                };
                let ends_at = age.map(|age| (age.drawn(), age.grace));
                let ends = async {
                    tokio::select! {
                        () = drain.begun() => last,
                        grace = aged(ends_at) => grace,
                    }
                };
                let mut ends = pin!(ends);
                let mut read = Vec::new();
                if version == Version::HTTP_11 {
                    let is_last =
                        || drain.has_begun() || ends_at.is_some_and(|(at, _)| Instant::now() >= at);
                    let served =
                        http1::serve(&mut stream, &fast_path, head, ends.as_mut(), is_last);
                    match served.await {
                        Ok(Some(rest)) => read = rest,
                        Ok(None) | Err(_) => return,
                    }
                }
                let streams = Streams::default();
                let builder = builder(head, streams.clone());
                // The general server begins with what the fast path has read.
                let (from, to) = stream.into_split();
                let io = tokio::io::join(Cursor::new(read).chain(from), to);
                let connection = builder.serve_connection(TokioIo::new(io), service);
                let mut connection = pin!(connection);
                let grace = tokio::select! {
                    _ = streams.serve(connection.as_mut()) => return,
                    grace = ends => grace,
                };
                connection.as_mut().graceful_shutdown();
                let _ = tokio::time::timeout(grace, streams.serve(connection)).await;
            });
        }
        drop(open);
        let _ = tokio::time::timeout(last, all_ended.recv()).await;
    }
}

/// The version of HTTP that a client begins to speak; `None` if it has left. hyper would wait for that without a bound.
async fn version(stream: &TcpStream) -> Option<Version> {
    let mut seen = [0; PREFACE.len()];
    loop {
        match stream.peek(&mut seen).await {
            Ok(0) | Err(_) => return None,
            Ok(length) if seen[..length] != PREFACE[..length] => return Some(Version::HTTP_11),
            Ok(length) if length == seen.len() => return Some(Version::HTTP_2),
            // What is there already is seen at once the next time.
            Ok(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

impl Age {
    /// When a connection that begins now is too old.
    fn drawn(self) -> Instant {
        let mut byte = [128];
        // Without randomness all become equally old.
        let _ = getrandom::fill(&mut byte);
        let part = 0.9 + f64::from(byte[0]) / 255.0 * 0.2;
        Instant::now() + self.most.mul_f64(part)
    }
}

/// Waits until a connection is too old, and returns how long its requests may still take.
async fn aged(ends_at: Option<(Instant, Duration)>) -> Duration {
    let Some((at, grace)) = ends_at else {
        return std::future::pending().await;
    };
    tokio::time::sleep_until(at).await;
    grace
}

fn builder(head: Duration, streams: Streams) -> Builder<Streams> {
    let mut builder = Builder::new(streams);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(head)
        .max_buf_size(64 * 1024)
        // Answers are small: head and body are one buffer, and so one write of one piece.
        .writev(false);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Duration::from_secs(30))
        .max_concurrent_streams(1024)
        .max_header_list_size(16 * 1024)
        .max_pending_accept_reset_streams(Some(64));
    builder
}
