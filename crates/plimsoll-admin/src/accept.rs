//! Accepts HTTP connections, enforces their timeouts and bounds, and shuts them down gracefully.

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

/// The connection preface of HTTP/2.
const PREFACE: [u8; 24] = *b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The maximum age of connections.
#[derive(Clone, Copy, Debug)]
pub struct Age {
    /// After this time, plus or minus ten per cent, a connection accepts no new requests, so that clients reconnect and spread over servers.
    pub most: Duration,
    /// The time that requests in progress then have.
    pub grace: Duration,
}

/// A port for HTTP/1.1 and HTTP/2.
#[derive(Clone, Debug)]
pub struct HttpPort {
    head: Duration,
    last: Duration,
    connections: Places,
    age: Option<Age>,
    /// Timeout for the body of a request.
    body: Duration,
}

impl HttpPort {
    /// Creates a port. `head` is the timeout for the head of a request and for its body. `last` is how long requests in progress
    /// may take after the
    /// port begins to drain.
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

    /// Disables the timeout for request bodies, for streaming calls.
    #[must_use]
    pub const fn streams(mut self) -> Self {
        self.body = Duration::MAX;
        self
    }

    /// Sets the maximum age of connections; unlimited by default.
    #[must_use]
    pub const fn age(mut self, age: Age) -> Self {
        self.age = Some(age);
        self
    }

    /// Serves requests until `drain` begins and requests in progress have ended.
    pub async fn serve(self, listener: TcpListener, handler: impl Handler, drain: Drain) {
        let Self {
            head,
            last,
            connections,
            age,
            body: within,
        } = self;
        // Nothing is sent: the channel closes when the last connection has ended.
        let (open, mut all_ended) = mpsc::channel::<()>(1);
        while let Some(accepted) = drain.unless_begun(listener.accept()).await {
            let Ok((mut stream, peer)) = accepted else {
                // Usually out of file descriptors: wait for other connections to end.
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
                // hyper begins with the bytes that the fast path has read.
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

/// Detects the HTTP version of a client; `None` if it has disconnected. hyper would wait for the preface without a timeout.
async fn version(stream: &TcpStream) -> Option<Version> {
    let mut seen = [0; PREFACE.len()];
    loop {
        match stream.peek(&mut seen).await {
            Ok(0) | Err(_) => return None,
            Ok(length) if seen[..length] != PREFACE[..length] => return Some(Version::HTTP_11),
            Ok(length) if length == seen.len() => return Some(Version::HTTP_2),
            // A partial preface makes the socket readable again at once.
            Ok(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

impl Age {
    /// The moment at which a new connection reaches its maximum age, with jitter.
    fn drawn(self) -> Instant {
        let mut byte = [128];
        // Without randomness there is no jitter.
        let _ = getrandom::fill(&mut byte);
        let part = 0.9 + f64::from(byte[0]) / 255.0 * 0.2;
        Instant::now() + self.most.mul_f64(part)
    }
}

/// Waits until a connection reaches its maximum age. Returns how long its requests may still take.
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
        // Responses are small: head and body in one buffer are one write.
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
