//! Limits in an axum server, over sockets of the loopback interface, with real clients: reqwest for HTTP/1.1 and hyper
//! for HTTP/2.

mod bodies;
mod clients;
mod hang_ups;
mod nested;
#[cfg(unix)]
mod peers;
mod shutdown;
mod stalls;
mod statuses;
mod upgrades;
mod usage;
mod wire;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::get;
use futures_util::stream;
use plimsoll::{Concurrency, Gate, Queue};
use plimsoll_tower::{HttpLimitLayer, RequestLimit};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Serves this until the test ends.
async fn serve(router: Router) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    address
}

/// So many at once, and so many more may wait.
fn slots(limit: u64, queue: u64) -> Gate<Concurrency> {
    Gate::builder(Concurrency::new(limit))
        .queue(Queue::fifo(queue))
        .build()
}

/// Nobody is in it, and nobody waits.
fn is_idle(gate: &Gate<Concurrency>) -> bool {
    let seen = gate.snapshot();
    (seen.in_use(), seen.queued(), seen.waiters()) == (0, 0, 0)
}

/// A server whose bodies are written by the test, one line after the other.
struct Written {
    address: SocketAddr,
    gate: Gate<Concurrency>,
    bodies: Arc<Mutex<Vec<UnboundedReceiver<&'static str>>>>,
}

impl Written {
    async fn new(limit: u64, queue: u64) -> Self {
        let gate = slots(limit, queue);
        let bodies: Arc<Mutex<Vec<UnboundedReceiver<&'static str>>>> = Arc::default();
        let next = Arc::clone(&bodies);
        let handler = async move || {
            let mut lines = next.lock().unwrap().remove(0);
            Body::from_stream(stream::poll_fn(move |cx| {
                let line = lines.poll_recv(cx);
                line.map(|line| line.map(|line| Ok::<_, std::io::Error>(Bytes::from(line))))
            }))
        };
        let layer = HttpLimitLayer::new(RequestLimit::new(gate.clone()));
        let router = Router::new().route("/", get(handler)).layer(layer);
        Self {
            address: serve(router).await,
            gate,
            bodies,
        }
    }

    /// The body of the next request: what is sent here is sent to the client, and it ends when this is dropped.
    fn body(&self) -> UnboundedSender<&'static str> {
        let (sender, receiver) = unbounded_channel();
        self.bodies.lock().unwrap().push(receiver);
        sender
    }

    fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}
