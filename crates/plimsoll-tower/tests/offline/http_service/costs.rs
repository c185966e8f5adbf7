//! What limits cost: nothing on the heap while requests are granted.

use std::mem::size_of;

use bytes::Bytes;
use http::Response;
use http_body_util::Empty;
use plimsoll::{Concurrency, Gate, Keyed, TokenBucket};
use plimsoll_tower::keys::{Address, Peer};
use plimsoll_tower::{ByKey, HttpLimitLayer, LimitBody, RequestLimit, ResponseFuture};
use tower_layer::Layer;
use tower_service::Service;

use super::{Answers, OK, from, get, text};
use crate::counting::allocations;
use crate::hand::now;
use crate::http_desk::{HttpDesk, HttpWork};

const NOTHING: Answers<Empty<Bytes>> = Answers(|_| Response::new(Empty::new()));

#[test]
fn a_granted_request_by_address_allocates_nothing() {
    let keyed: Keyed<Address, _> = Keyed::new(TokenBucket::per_second(1000));
    let slots = Gate::new(Concurrency::new(10));
    let mut service = HttpLimitLayer::new(RequestLimit::by_key(keyed, Peer::new()))
        .and(RequestLimit::new(slots))
        .layer(NOTHING);
    assert_eq!(
        now(service.call(from([192, 0, 2, 1]))).unwrap().status(),
        200
    );
    let requests: Vec<_> = (0..100).map(|_| from([192, 0, 2, 1])).collect();
    let count = allocations(|| {
        for request in requests {
            assert_eq!(now(service.call(request)).unwrap().status(), 200);
        }
    });
    assert_eq!(count, 0);
}

#[test]
fn a_body_that_is_held_allocates_once() {
    let slots = Gate::new(Concurrency::new(10));
    let plain = allocations(|| {
        let response = now({ OK }.call(get("/"))).unwrap();
        assert_eq!(text(response), "ok");
    });
    let mut service = HttpLimitLayer::new(RequestLimit::new(slots)).layer(OK);
    assert_eq!(text(now(service.call(get("/"))).unwrap()), "ok");
    let limited = allocations(|| {
        let response = now(service.call(get("/"))).unwrap();
        assert_eq!(text(response), "ok");
    });
    assert_eq!(limited, plain + 1, "what is held until it has ended");
}

/// Those that wait are kept elsewhere, so that the others stay small.
#[test]
fn futures_and_bodies_are_small() {
    type One = RequestLimit<Gate<Concurrency>>;
    type Two = (RequestLimit<Keyed<Address, TokenBucket>, ByKey<Peer>>, One);
    let body = size_of::<Empty<Bytes>>();
    let (one, two) = (
        size_of::<LimitBody<Empty<Bytes>, One>>(),
        size_of::<LimitBody<Empty<Bytes>, Two>>(),
    );
    assert!(
        one <= body + 136 && two <= body + 200,
        "{one} and {two} bytes"
    );
    let (one, two) = (
        size_of::<ResponseFuture<HttpDesk, (), One>>(),
        size_of::<ResponseFuture<HttpDesk, (), Two>>(),
    );
    let work = size_of::<HttpWork>();
    // A refusal keeps its request until it is polled.
    let request = size_of::<http::Request<()>>();
    assert!(
        one <= work.max(request) + 160 && two <= work.max(request) + 256,
        "{one} and {two} bytes"
    );
}
