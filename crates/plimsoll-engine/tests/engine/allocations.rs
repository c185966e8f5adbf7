//! Nothing is allocated while limits in memory grant.

use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Empty;
use plimsoll_engine::{Ask, Limits};
use plimsoll_tower::keys::PeerAddr;
use tower::{Layer, Service};

use crate::counting::allocations;
use crate::limits;

const FILE: &str = "
limits:
  client: { rate: 1000/s, burst: 1000000, key: client }
  user: { kind: sliding_counter, limit: 1000000, window: 1h, key: header:x-user, tiers: { by: header:x-plan, pro: 2M/h } }
  all: { kind: token_bucket, burst: 1000000, refill: 1000, every: 1s, queue: { bound: 10 } }
  slots: { concurrency: 1000, queue: { bound: 10 } }
  tomorrow: { rate: 1000000/s, key: client, mode: shadow }
routes:
  - { match: /one/**, limits: [client] }
  - { match: /four/**, limits: [client, user, all, slots] }
  - { match: /five/**, limits: [client, user, all, slots, tomorrow] }
";

/// So many come first: among them is the one that is noted as a sample, for which its key is kept.
const FIRST: usize = 20;

/// How often 100 calls allocate, when the first have been made.
fn after_the_first(mut call: impl FnMut()) -> u64 {
    (0..FIRST).for_each(|_| call());
    allocations(|| (0..100).for_each(|_| call()))
}

fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("nothing is waited for"),
    }
}

#[test]
fn a_granted_decision_allocates_nothing() {
    let (limits, _time) = limits(FILE);
    let asks = [
        Ask::new("client").key("192.0.2.1"),
        Ask::new("user").key("anna").tier("pro"),
        Ask::new("all"),
        Ask::new("slots"),
        Ask::new("tomorrow").key("192.0.2.1"),
    ];
    for asks in [&asks[..1], &asks[..4], &asks] {
        let tried = after_the_first(|| drop(limits.try_decide(asks).expect("there is room")));
        let waited = after_the_first(|| drop(now(limits.decide(asks, 1)).expect("there is room")));
        let peeked = after_the_first(|| drop(limits.peek(asks).expect("there is room")));
        assert_eq!((tried, waited, peeked), (0, 0, 0), "{} limits", asks.len());
    }
}

/// Several at once: what one has given back is used by the next, and no more are kept than were needed at once.
#[test]
fn decisions_beside_each_other_allocate_only_for_the_most_there_were() {
    let (limits, _time) = limits(FILE);
    let asks = [Ask::new("client").key("192.0.2.1"), Ask::new("slots")];
    let many = || -> [_; 8] { std::array::from_fn(|_| limits.try_decide(&asks)) };
    assert_eq!(
        after_the_first(|| assert!(many().iter().all(Result::is_ok))),
        0
    );
}

#[test]
fn a_granted_request_allocates_nothing() {
    let (limits, _time) = limits(FILE);
    for path in ["/one/7", "/four/7", "/five/7", "/other"] {
        assert_eq!(allocations_of_requests(&limits, path), 0, "{path}");
    }
}

/// How often requests allocate in the layer and behind it, when the first were made.
fn allocations_of_requests(limits: &Limits, path: &str) -> u64 {
    let mut service = limits.layer().layer(Nothing);
    let request = |_| {
        let request = Request::get(path).header("x-user", "anna");
        let peer = PeerAddr("192.0.2.1:40000".parse().expect("an address"));
        let request = request.header("x-plan", "pro").extension(peer);
        request.body(Empty::new()).expect("a request")
    };
    let first: [Request<Empty<Bytes>>; FIRST] = std::array::from_fn(request);
    let requests: Vec<_> = (0..100).map(request).collect();
    let mut serve = |request| {
        let response = now(service.call(request)).expect("a service that does not fail");
        assert_eq!(response.status(), 200);
    };
    first.into_iter().for_each(&mut serve);
    allocations(|| requests.into_iter().for_each(serve))
}

/// A service that allocates nothing itself.
#[derive(Clone)]
struct Nothing;

impl Service<Request<Empty<Bytes>>> for Nothing {
    type Response = Response<Empty<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _request: Request<Empty<Bytes>>) -> Self::Future {
        ready(Ok(Response::new(Empty::new())))
    }
}
