//! A server behind every kind of limit at once.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Request};
use axum::middleware::map_request;
use axum::routing::post;
use futures_util::stream;
use http::Response;
use plimsoll::adaptive::{Adaptive, Verdict};
use plimsoll::{Concurrency, Gate, Keyed, Limiter, Queue, Snapshot, TokenBucket};
use plimsoll_tower::keys::{Address, HeaderKey, Peer};
use plimsoll_tower::{HttpLimitLayer, PriorityHeader, RequestLimit, SendFields};
use tokio::net::TcpListener;

use super::clients::Tally;

pub(crate) const TENANTS: usize = 16;

/// What became of requests, as the server saw it.
#[derive(Default, Debug)]
pub(crate) struct Counts {
    arrived: AtomicU64,
    refused: AtomicU64,
    admitted: AtomicU64,
    handled: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    counts: Arc<Counts>,
    peers: Keyed<Address, TokenBucket>,
    tenants: Keyed<String, Concurrency>,
    rate: Gate<TokenBucket>,
    slots: Gate<Concurrency>,
    adaptive: Gate<Adaptive<Verdict>>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let patience = Duration::from_millis(20);
        let verdict = Verdict::builder().initial(6).max(8).build().unwrap();
        let small_burst = TokenBucket::per_second(10_000).burst(4);
        let server = Self {
            address: listener.local_addr().unwrap(),
            counts: Arc::default(),
            peers: Keyed::builder(TokenBucket::per_second(20_000))
                .queue(Queue::fifo(10))
                .name("peers")
                .build(),
            tenants: Keyed::builder(Concurrency::new(2))
                .queue(Queue::fifo(2))
                .name("tenants")
                .build(),
            rate: Gate::builder(small_burst)
                .queue(Queue::fifo(20))
                .name("rate")
                .build(),
            slots: Gate::builder(Concurrency::new(12))
                .queue(Queue::lifo(20).timeout(patience))
                .name("slots")
                .build(),
            adaptive: Gate::builder(Adaptive::new(verdict))
                .queue(Queue::fifo(1))
                .name("adaptive")
                .build(),
        };
        let router = server
            .router()
            .into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async move { axum::serve(listener, router).await });
        server
    }

    fn router(&self) -> Router {
        let [arrived, refused, admitted, handled] = [(); 4].map(|()| Arc::clone(&self.counts));
        // Two layers, so that one undoes what the other refuses.
        let outer = HttpLimitLayer::new(RequestLimit::by_key(self.peers.clone(), Peer::new()))
            .and(RequestLimit::new(self.slots.clone()))
            .priority(PriorityHeader::default())
            .send_fields(SendFields::Always);
        let tenant = HeaderKey::named("x-tenant").unwrap();
        let inner = HttpLimitLayer::new(RequestLimit::by_key(self.tenants.clone(), tenant))
            .and(RequestLimit::new(self.rate.clone()).queue_timeout(Duration::from_millis(50)))
            .and(RequestLimit::new(self.adaptive.clone()))
            .priority(PriorityHeader::default())
            .on_admitted(move |_| count(&admitted.admitted));
        let outer = {
            let refused = Arc::clone(&refused);
            outer.on_refused(move |_, _| count(&refused.refused))
        };
        let inner = inner.on_refused(move |_, _| count(&refused.refused));
        let handler = async move |Path((size, turns)): Path<(usize, usize)>, upload: Bytes| {
            count(&handled.handled);
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
            answer(size, upload.len())
        };
        let arrives = move |request: Request| {
            count(&arrived.arrived);
            std::future::ready(request)
        };
        Router::new()
            .route("/{size}/{turns}", post(handler))
            .layer(inner)
            .layer(outer)
            .layer(map_request(arrives))
    }

    fn looks(&self) -> [(&'static str, Snapshot); 5] {
        [
            ("peers", self.peers.snapshot()),
            ("tenants", self.tenants.snapshot()),
            ("rate", self.rate.snapshot()),
            ("slots", self.slots.snapshot()),
            ("adaptive", Limiter::snapshot(&self.adaptive)),
        ]
    }

    /// Nothing is in flight, and nobody waits. What is in use of a rate is only not there again yet.
    pub(crate) fn is_idle(&self) -> bool {
        let mut looks = self.looks().into_iter();
        looks.all(|(name, seen)| {
            let rate = matches!(name, "peers" | "rate");
            (rate || seen.in_use() == 0) && (seen.queued(), seen.waiters()) == (0, 0)
        })
    }

    /// For people who look.
    pub(crate) fn counts(&self) -> impl std::fmt::Debug + '_ {
        (&self.counts, self.looks())
    }

    /// Compares what the server saw with what clients saw.
    pub(crate) fn check(&self, tally: &Tally) {
        let [arrived, refused, admitted, handled] = [
            &self.counts.arrived,
            &self.counts.refused,
            &self.counts.admitted,
            &self.counts.handled,
        ]
        .map(|counter| counter.load(Ordering::Relaxed));
        let seen = tally.answered + tally.cut_short + tally.refused;
        // Who gave up early may never have arrived.
        assert!(
            seen <= arrived && arrived <= tally.sent(),
            "{arrived} arrived"
        );
        // Who gave up may have been refused, or admitted, all the same.
        let may_be = |known: u64| known..=known + tally.given_up;
        assert!(
            may_be(tally.refused).contains(&refused),
            "{refused} refused"
        );
        assert!(
            may_be(tally.answered + tally.cut_short).contains(&handled),
            "{handled} handled"
        );
        // Whose upload did not arrive was admitted and is not handled.
        assert!(may_be(handled).contains(&admitted), "{admitted} admitted");
        // The others gave up while they waited.
        let gave_up_waiting = arrived - refused - admitted;
        assert!(
            gave_up_waiting <= tally.given_up,
            "{gave_up_waiting} neither refused nor admitted"
        );
        assert!(
            tally.answered > 0 && tally.refused > 0 && tally.given_up > 0 && tally.cut_short > 0
        );
    }
}

/// A body of this size, in parts if it is large.
fn answer(size: usize, upload: usize) -> Response<Body> {
    let content = Bytes::from(vec![b'x'; size]);
    let body = if size > 500 {
        let parts = size.div_ceil(4096);
        let part = move |index: usize| content.slice(index * 4096..size.min((index + 1) * 4096));
        let parts = (0..parts).map(move |index| Ok::<_, std::io::Error>(part(index)));
        Body::from_stream(stream::iter(parts))
    } else {
        Body::from(content)
    };
    Response::builder()
        .header("x-handled", upload)
        .body(body)
        .unwrap()
}
