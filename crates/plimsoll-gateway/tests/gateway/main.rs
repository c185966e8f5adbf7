//! A gateway between real sockets.

mod answers;
mod bad_input;
#[path = "../../../plimsoll-server/tests/server/browser.rs"]
mod browser;
mod drain;
mod frames;
mod http2;
mod large;
mod limits;
mod page;
mod passed_on;
mod servers;
mod shapes;
mod soak;
mod upgrades;

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use plimsoll_config::{Config, Format};
use plimsoll_engine::Limits;
use plimsoll_gateway::{Gateway, GatewayCounts, Settings};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A gateway that runs.
struct Running {
    address: SocketAddr,
    counts: Arc<GatewayCounts>,
    limits: Limits,
    stop: Option<oneshot::Sender<()>>,
    done: JoinHandle<()>,
}

impl Running {
    /// Listens with the limits and pools of a text, in which `{listen}` is any port.
    fn start(text: &str) -> Self {
        let text = text.replace(
            "gateway:\n",
            "gateway:\n  listen: 127.0.0.1:0\n  workers: 1\n",
        );
        let config = Config::from_str("gateway.yaml", &text, Format::Yaml);
        let config = config.unwrap_or_else(|error| panic!("{error}"));
        let mut settings = Settings::default();
        // Longer than what a test waits for.
        settings.drain = Duration::from_secs(60);
        let gateway = Gateway::with_config(&config, &settings);
        Self::run(gateway.unwrap_or_else(|error| panic!("{error}")))
    }

    /// One pool, without limits.
    fn to(servers: &[SocketAddr]) -> Self {
        Self::start(&format!(
            "gateway:\n  upstreams: {{ app: {{ to: {} }} }}\n",
            list(servers)
        ))
    }

    fn run(gateway: Gateway) -> Self {
        let (stop, stopped) = oneshot::channel();
        let (counts, limits) = (Arc::clone(gateway.counts()), gateway.limits().clone());
        let address = gateway.addresses().next().expect("an address");
        let done = tokio::spawn(async move {
            let stopped = async move {
                let _ = stopped.await;
            };
            gateway.run(stopped).await.expect("threads");
        });
        Self {
            address,
            counts,
            limits,
            stop: Some(stop),
            done,
        }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address)
            .await
            .expect("a connection")
    }

    /// Sends bytes as they are, and returns what comes until the connection ends.
    async fn raw(&self, text: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect().await;
        let _ = stream.write_all(text.as_ref()).await;
        let mut answer = Vec::new();
        let _ = within(stream.read_to_end(&mut answer)).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// The answer to a GET.
    async fn get(&self, path: &str) -> String {
        self.raw(get(path)).await
    }

    async fn stop(mut self) {
        drop(self.stop.take());
        within(self.done).await.expect("it ends");
    }

    /// Waits until nothing is in flight any more: what was dropped is noticed a little later.
    async fn at_rest(&self) {
        within(async {
            while self.counts.in_flight() != 0 || self.counts.tunnels() != 0 {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}

/// The text of a GET whose connection ends with its answer.
fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: a.example\r\nconnection: close\r\n\r\n")
}

fn list(servers: &[SocketAddr]) -> String {
    let servers: Vec<String> = servers
        .iter()
        .map(|it| format!("\"http://{it}\""))
        .collect();
    format!("[{}]", servers.join(", "))
}

/// Whatever is waited for comes soon, or never.
async fn within<T>(awaited: impl Future<Output = T>) -> T {
    let awaited = tokio::time::timeout(Duration::from_secs(30), awaited).await;
    awaited.expect("it took too long")
}

/// A file beside this one.
fn file(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/gateway")
        .join(name);
    path.display().to_string()
}

type Answer = Response<BoxBody<Bytes, Infallible>>;

fn text(text: impl Into<Bytes>) -> Answer {
    Response::new(Full::new(text.into()).boxed())
}

/// A server that speaks HTTP.
async fn server<F, R>(handle: F) -> SocketAddr
where
    F: Fn(Request<Incoming>) -> R + Clone + Send + 'static,
    R: Future<Output = Answer> + Send + 'static,
{
    raw_server(move |stream| {
        let handle = handle.clone();
        async move {
            let service = service_fn(move |request| {
                let answer = handle(request);
                async move { Ok::<_, Infallible>(answer.await) }
            });
            let mut builder = auto::Builder::new(TokioExecutor::new());
            builder.http2().enable_connect_protocol();
            let io = TokioIo::new(stream);
            let _ = builder.serve_connection_with_upgrades(io, service).await;
        }
    })
    .await
}

/// A server that does what `handle` does with each connection.
async fn raw_server<F, R>(handle: F) -> SocketAddr
where
    F: Fn(TcpStream) -> R + Send + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(handle(stream));
        }
    });
    address
}

/// A server that answers each request with the same bytes, and closes.
async fn says(answer: impl Into<Bytes>) -> SocketAddr {
    let answer = answer.into();
    raw_server(move |stream| {
        let answer = answer.clone();
        async move {
            let mut stream = BufReader::new(stream);
            read_head(&mut stream).await;
            let _ = stream.write_all(&answer).await;
            let _ = stream.shutdown().await;
            // Not before the other end has read it: a reset would take it away.
            let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
        }
    })
    .await
}

/// Reads up to an empty line.
async fn read_head(stream: &mut (impl tokio::io::AsyncBufRead + Unpin)) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        let read = within(stream.read_line(&mut head)).await;
        if read.unwrap_or(0) == 0 {
            break;
        }
    }
    head
}

/// Whether an answer has this status, and the problem of this word as its body.
#[track_caller]
fn is_problem(answer: &str, status: u16, fault: &str) {
    assert!(
        answer.starts_with(&format!("HTTP/1.1 {status} ")),
        "{answer}"
    );
    assert!(
        answer.contains("content-type: application/problem+json\r\n"),
        "{answer}"
    );
    assert!(
        answer.contains(&format!("\"fault\":\"{fault}\"")),
        "{answer}"
    );
    assert!(answer.contains(&format!("\"status\":{status}")), "{answer}");
}
