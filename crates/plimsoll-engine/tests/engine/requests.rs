//! Requests by the routes of a file: whose, how much, when.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use http::Request;
use plimsoll::{Priority, Reason};
use plimsoll_engine::{Claims, Descriptors, Hold, Limits, Refusal};
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

/// For each part a key can be made of: a request, one with the same key, and one with another.
#[test]
fn every_part_of_a_request_can_be_a_key() {
    let of = |method: &str, path: &str, header: (&'static str, &str)| {
        let request = get(path).method(method).header(header.0, header.1);
        let entries = Descriptors(vec![("tenant".to_owned(), header.1.to_owned())]);
        let claims = Claims::from([("plan", header.1)]);
        let request = request.extension(entries).extension(claims);
        request.body(()).expect("a request")
    };
    let path = |path: &str| of("GET", path, ("x", "1"));
    let method = |method: &str| of(method, "/a", ("x", "1"));
    let header = |name: &'static str, value: &str| of("GET", "/a", (name, value));
    let peer = |address: &str| {
        let peer = PeerAddr(address.parse().expect("an address"));
        let request = Request::get("/a").extension(peer);
        request.body(()).expect("a request")
    };
    for (key, [one, same, other]) in [
        (
            "client",
            [
                peer("192.0.2.7:1"),
                peer("192.0.2.7:2"),
                peer("192.0.2.8:1"),
            ],
        ),
        (
            "peer",
            [
                peer("192.0.2.7:1"),
                peer("192.0.2.7:2"),
                peer("192.0.2.8:1"),
            ],
        ),
        ("method", [method("GET"), method("GET"), method("PUT")]),
        ("path", [path("/a?b"), path("/a?c"), path("/b")]),
        ("route", [path("/in/a"), path("/in/b"), path("/a")]),
        ("segment:2", [path("/a/x/c"), path("/b/x"), path("/a/y/c")]),
        (
            "query:q",
            [path("/a?q=1&r=2"), path("/b?r=3&q=1"), path("/a?q=2")],
        ),
        (
            "host",
            [
                header("host", "a:1"),
                header("host", "a:2"),
                header("host", "b:1"),
            ],
        ),
        (
            "header:x",
            [header("x", "1"), header("x", "1"), header("x", "2")],
        ),
        (
            "metadata:x-a",
            [header("x-a", "1"), header("x-a", "1"), header("x-a", "2")],
        ),
        (
            "cookie:sid",
            [
                header("cookie", "a=2; sid=1"),
                header("cookie", "sid=1"),
                header("cookie", "sid=2"),
            ],
        ),
        (
            "descriptor:tenant",
            [header("x", "1"), header("y", "1"), header("x", "2")],
        ),
        (
            "claim:plan",
            [header("x", "1"), header("y", "1"), header("x", "2")],
        ),
        (
            "[method, 'header:x']",
            [header("x", "1"), header("x", "1"), header("x", "2")],
        ),
        ("['constant:a', path]", [path("/a"), path("/a"), path("/b")]),
    ] {
        let (limits, _time) = limits(&format!(
            "limits: {{ one: {{ rate: 1/h, key: {key} }} }}
routes: [{{ match: /in/**, limits: [one] }}, {{ match: /**, limits: [one] }}]"
        ));
        let granted = |request| decide(&limits, request).expect("a route").is_ok();
        let granted = [&one, &same, &other].map(granted);
        assert_eq!(granted, [true, false, true], "{key}");
    }
    let (limits, _time) = limits(
        "limits: { one: { rate: 1/h, key: 'constant:all' } }\nroutes: [{ match: /**, limits: [one] }]",
    );
    assert!(decide(&limits, &path("/a")).expect("a route").is_ok());
    assert!(decide(&limits, &path("/b")).expect("a route").is_err());
}

#[test]
fn a_priority_is_that_of_the_route_or_of_a_limit_or_read_from_the_request() {
    let (limits, _time) = limits(
        "
limits:
  plain: { rate: 100/s }
  least: { rate: 100/s, priority: non-critical }
routes:
  - { match: /login, limits: [least], priority: critical }
  - { match: /said, limits: [plain], priority: header:x-priority }
  - { match: /batch, limits: [plain, least] }
  - { match: /**, limits: [plain] }
",
    );
    let priority = |path: &str, says: &str| {
        let request = get(path).header("x-priority", says);
        let request = request.body(()).expect("a request");
        let asks = limits.asks_of(&Head::of(&request)).expect("keys");
        asks.expect("a route").1
    };
    assert_eq!(priority("/login", "non-critical"), Priority::Critical);
    assert_eq!(priority("/said", "critical"), Priority::Critical);
    assert_eq!(priority("/said", "non-critical"), Priority::NonCritical);
    assert_eq!(priority("/said", "nonsense"), Priority::Normal);
    assert_eq!(priority("/batch", "critical"), Priority::NonCritical);
    assert_eq!(priority("/else", "critical"), Priority::Normal);
}
