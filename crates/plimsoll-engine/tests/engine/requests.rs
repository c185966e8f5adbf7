//! Requests by the routes of a file: whose, how much, when.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use http::Request;
use plimsoll::Reason;
use plimsoll_engine::{Claims, Hold, Limits, Refusal};
use plimsoll_tower::Head;
use plimsoll_tower::keys::PeerAddr;

use crate::limits;

fn decide(limits: &Limits, request: &Request<()>) -> Option<Result<Hold, Refusal>> {
    let decide = limits.decide_request(&Head::of(request), 1)?;
    let cx = &mut Context::from_waker(Waker::noop());
    match pin!(decide).poll(cx) {
        Poll::Ready(decided) => Some(decided),
        Poll::Pending => panic!("nothing is waited for"),
    }
}

/// What is asked of limits for a request: their names and costs.
#[track_caller]
fn asked(limits: &Limits, request: &Request<()>) -> Vec<(String, u64)> {
    let hold = decide(limits, request).expect("a route").expect("admitted");
    let asked = hold.answers().map(|it| (it.limit.to_owned(), it.cost));
    asked.collect()
}

fn get(path: &str) -> http::request::Builder {
    let peer = PeerAddr("192.0.2.7:1".parse().expect("it works"));
    Request::get(path).extension(peer)
}

const ROUTES: &str = "
limits:
  per_client: { rate: 2/s, key: client }
  login: { rate: 5/min, key: [client, 'header:x-user'] }
  debug: { rate: 1/s }
  internal: { rate: 9/s }
  bytes: { rate: 1000/s, cost: content_length }
proxies: [10.0.0.0/8]
routes:
  - { match: /login, methods: [POST], limits: [per_client, login] }
  - { match: /**, headers: { x-debug: '1' }, limits: [debug] }
  - { match: /**, hosts: ['*.internal'], limits: [internal] }
  - { match: [/upload/*, /put], limits: [per_client, bytes] }
  - { match: /v1/**, limits: [per_client] }
";

#[test]
fn the_first_route_that_fits_counts() {
    let (limits, _time) = limits(ROUTES);
    let names = |request: &Request<()>| {
        asked(&limits, request)
            .into_iter()
            .map(|it| it.0)
            .collect::<Vec<_>>()
    };
    let login = Request::post("/login")
        .header("x-user", "anna")
        .extension(PeerAddr("192.0.2.1:1".parse().expect("it works")));
    assert_eq!(
        names(&login.body(()).expect("it works")),
        ["per_client", "login"]
    );
    assert!(
        decide(&limits, &get("/login").body(()).expect("it works")).is_none(),
        "another method"
    );
    assert_eq!(
        names(
            &get("/v1/a")
                .header("x-debug", "1")
                .body(())
                .expect("it works")
        ),
        ["debug"]
    );
    assert_eq!(
        names(
            &get("/v1/a")
                .header("host", "Shop.Internal:8080")
                .body(())
                .expect("it works")
        ),
        ["internal"]
    );
    assert_eq!(
        names(&get("/v1/a").body(()).expect("it works")),
        ["per_client"]
    );
    assert_eq!(
        names(&get("/put").body(()).expect("it works")),
        ["per_client", "bytes"]
    );
    assert!(decide(&limits, &get("/upload").body(()).expect("it works")).is_none());
}

#[test]
fn a_client_is_known_behind_its_proxy() {
    let (limits, _time) = limits(ROUTES);
    let behind = |client: &str| {
        let proxy = PeerAddr("10.0.0.1:1".parse().expect("it works"));
        Request::get("/v1/a")
            .extension(proxy)
            .header("x-forwarded-for", client)
            .body(())
            .expect("it works")
    };
    for client in ["198.51.100.1", "198.51.100.2"] {
        assert!(decide(&limits, &behind(client)).expect("it works").is_ok());
        assert!(decide(&limits, &behind(client)).expect("it works").is_ok());
        assert!(decide(&limits, &behind(client)).expect("it works").is_err());
    }
    // Who is no proxy of ours is not believed.
    let liar = get("/v1/a")
        .header("x-forwarded-for", "198.51.100.9")
        .body(())
        .expect("it works");
    assert!(decide(&limits, &liar).expect("it works").is_ok());
    assert!(decide(&limits, &liar).expect("it works").is_ok());
    let other = get("/v1/a")
        .header("x-forwarded-for", "198.51.100.10")
        .body(())
        .expect("it works");
    assert!(decide(&limits, &other).expect("it works").is_err());
}

#[test]
fn keys_of_several_parts_do_not_run_into_each_other() {
    let (limits, _time) = limits(
        "
limits: { pair: { rate: 1/h, key: ['header:a', 'header:b'] } }
routes: [{ match: /**, limits: [pair] }]
",
    );
    let request = |a: &str, b: &str| {
        Request::get("/")
            .header("a", a)
            .header("b", b)
            .body(())
            .expect("it works")
    };
    for (a, b) in [
        ("x", "y"),
        ("x|y", "z"),
        ("x", "y|z"),
        ("x|", "y"),
        ("x", "|y"),
        ("x\\", "|y"),
        ("x\\|", "y"),
    ] {
        assert!(
            decide(&limits, &request(a, b)).expect("it works").is_ok(),
            "{a} {b}"
        );
        assert!(
            decide(&limits, &request(a, b)).expect("it works").is_err(),
            "{a} {b}"
        );
    }
}

#[test]
fn a_request_without_a_key_is_refused_skipped_or_shared() {
    let (limits, _time) = limits(
        "
limits:
  refuses: { rate: 1/h, key: header:x-user }
  skips: { rate: 1/h, key: header:x-user, without_key: skip }
  shares: { rate: 1/h, key: header:x-user, without_key: share }
routes:
  - { match: /refuse, limits: [refuses] }
  - { match: /skip, limits: [skips] }
  - { match: /share, limits: [shares] }
",
    );
    let refusal = decide(&limits, &get("/refuse").body(()).expect("it works"))
        .expect("it works")
        .expect_err("it is refused");
    assert_eq!(
        (refusal.denied().reason(), refusal.limit()),
        (Reason::NoKey, "refuses")
    );
    assert!(asked(&limits, &get("/skip").body(()).expect("it works")).is_empty());
    assert!(
        decide(&limits, &get("/share").body(()).expect("it works"))
            .expect("it works")
            .is_ok()
    );
    assert!(
        decide(&limits, &get("/share").body(()).expect("it works"))
            .expect("it works")
            .is_err()
    );
}

#[test]
fn costs_and_tiers_are_read_from_the_request() {
    let (limits, _time) = limits(
        "
limits:
  bytes: { rate: 1000/h, cost: content_length }
  units: { rate: 1000/h, cost: header:x-units }
  plan: { rate: 1/h, key: claim:account, tiers: { by: claim:plan, pro: 3/h } }
routes: [{ match: /**, limits: [bytes, units, plan] }]
",
    );
    let request = |account: &str, plan: &str| {
        let claims = Claims::from([("account", account), ("plan", plan)]);
        get("/")
            .header("content-length", "7")
            .header("x-units", "3")
            .extension(claims)
            .body(())
            .expect("it works")
    };
    let costs: Vec<_> = asked(&limits, &request("a", "free"))
        .into_iter()
        .map(|it| it.1)
        .collect();
    assert_eq!(costs, [7, 3, 1]);
    assert!(
        decide(&limits, &request("a", "free"))
            .expect("it works")
            .is_err()
    );
    let granted = (0..9).take_while(|_| {
        decide(&limits, &request("b", "pro"))
            .expect("it works")
            .is_ok()
    });
    assert_eq!(granted.count(), 3);
}
