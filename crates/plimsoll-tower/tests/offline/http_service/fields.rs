//! What callers are told of their limits, and when.

use plimsoll::{Concurrency, Gate, Keyed, ManualClock, TokenBucket};
use plimsoll_tower::answer::Fields;
use plimsoll_tower::keys::{Address, Peer};
use plimsoll_tower::{HttpLimitLayer, RequestLimit, SendFields};
use tower_layer::Layer;

use super::{OK, answer, field, from, get};

fn bucket(time: &ManualClock, rate: u64, name: &str) -> Gate<TokenBucket> {
    let rule = TokenBucket::per_second(rate);
    Gate::builder(rule).clock(time.clock()).name(name).build()
}

#[test]
fn always_told() {
    let time = ManualClock::new();
    let layer = HttpLimitLayer::new(RequestLimit::new(bucket(&time, 2, "api")))
        .send_fields(SendFields::Always);
    let mut service = layer.layer(OK);
    let response = answer(&mut service, get("/"));
    assert_eq!(field(&response, "ratelimit-policy"), r#""api";q=2;w=1"#);
    assert!(field(&response, "ratelimit").starts_with(r#""api";r=1"#));
    assert_eq!(field(&response, "retry-after"), "");
    assert!(field(&answer(&mut service, get("/")), "ratelimit").starts_with(r#""api";r=0"#));
}

#[test]
fn never_told() {
    let time = ManualClock::new();
    let layer = HttpLimitLayer::new(RequestLimit::new(bucket(&time, 1, "api")))
        .send_fields(SendFields::Never);
    let mut service = layer.layer(OK);
    assert_eq!(answer(&mut service, get("/")).status(), 200);
    let response = answer(&mut service, get("/"));
    assert_eq!(response.status(), 429);
    for name in ["ratelimit", "ratelimit-policy", "x-ratelimit-limit"] {
        assert_eq!(field(&response, name), "");
    }
    assert_eq!(
        field(&response, "retry-after"),
        "1",
        "that is another setting"
    );
}

#[test]
fn the_older_fields() {
    let time = ManualClock::new();
    let layer = HttpLimitLayer::new(RequestLimit::new(bucket(&time, 2, "api")))
        .fields(Fields::X)
        .send_fields(SendFields::Always);
    let mut service = layer.layer(OK);
    let response = answer(&mut service, get("/"));
    assert_eq!(field(&response, "x-ratelimit-limit"), "2");
    assert_eq!(field(&response, "x-ratelimit-remaining"), "1");
    assert_eq!(field(&response, "x-ratelimit-reset"), "1");
    assert_eq!(field(&response, "ratelimit"), "");
}

#[test]
fn several_limits_are_a_list_in_their_order() {
    let time = ManualClock::new();
    let slots = Gate::builder(Concurrency::new(4)).name("slots").build();
    let layer = HttpLimitLayer::new(RequestLimit::new(bucket(&time, 9, "a")))
        .and(RequestLimit::new(slots))
        .and(RequestLimit::new(bucket(&time, 5, "b")))
        .and(RequestLimit::new(bucket(&time, 6, "c")))
        .and(RequestLimit::new(bucket(&time, 7, "d")))
        .fields(Fields::ALL)
        .send_fields(SendFields::Always);
    let response = answer(&mut layer.layer(OK), get("/"));
    let names: Vec<_> = field(&response, "ratelimit-policy").split(", ").collect();
    let expected = [
        r#""a";q=9;w=1"#,
        r#""slots";q=4;qu="concurrent-requests""#,
        r#""b";q=5;w=1"#,
        r#""c";q=6;w=1"#,
        r#""d";q=7;w=1"#,
    ];
    assert_eq!(names, expected);
    assert_eq!(
        field(&response, "x-ratelimit-limit"),
        "4",
        "the one of which least is left"
    );
}

#[test]
fn each_caller_is_told_of_its_own() {
    let time = ManualClock::new();
    let keyed = Keyed::<Address, _>::builder(TokenBucket::per_second(3))
        .clock(time.clock())
        .name("addresses")
        .build();
    let layer = HttpLimitLayer::new(RequestLimit::by_key(keyed, Peer::new()))
        .send_fields(SendFields::Always);
    let mut service = layer.layer(OK);
    let remaining = |service: &mut _, last| {
        let response = answer(service, from([192, 0, 2, last]));
        field(&response, "ratelimit")
            .split(';')
            .nth(1)
            .unwrap()
            .to_owned()
    };
    assert_eq!(remaining(&mut service, 1), "r=2");
    assert_eq!(remaining(&mut service, 1), "r=1");
    assert_eq!(remaining(&mut service, 2), "r=2");
}
