//! Layers inside of layers.

use http::Request;
use plimsoll::{Concurrency, Gate, Keyed, ManualClock, TokenBucket};
use plimsoll_tower::keys::{Address, HeaderKey, Peer};
use plimsoll_tower::{HttpLimitLayer, RequestLimit, SendFields, WithoutKey};
use tower::ServiceExt;
use tower_layer::Layer;

use super::{OK, answer, field, from, get};
use crate::hand::now;

const PEER: [u8; 4] = [192, 0, 2, 1];

fn bucket(time: &ManualClock, name: &str) -> Gate<TokenBucket> {
    let rule = TokenBucket::per_second(5);
    Gate::builder(rule).clock(time.clock()).name(name).build()
}

#[test]
fn if_a_layer_further_in_refuses_this_one_takes_its_charge_back_if_told() {
    let time = ManualClock::new();
    let rate = bucket(&time, "rate");
    let keyed = Keyed::<Address, _>::builder(TokenBucket::per_second(3))
        .clock(time.clock())
        .build();
    let (outer, inner) = (
        Gate::new(Concurrency::new(9)),
        Gate::new(Concurrency::new(1)),
    );
    let innermost = HttpLimitLayer::new(RequestLimit::new(inner.clone())).layer(OK);
    let mut service = HttpLimitLayer::new(RequestLimit::new(rate.clone()).refund_refused())
        .and(RequestLimit::by_key(keyed.clone(), Peer::new()).refund_refused())
        .and(RequestLimit::new(outer.clone()))
        .layer(innermost);
    let busy = inner.try_acquire(1).unwrap();
    let key = Peer::new().address(PEER.into());
    for _ in 0..20 {
        let refused = answer(&mut service, from(PEER));
        assert_eq!(refused.status(), 503);
        assert_eq!(
            outer.snapshot().in_use(),
            0,
            "not even while the refusal is sent"
        );
    }
    assert_eq!(
        (
            rate.snapshot().available(),
            keyed.standing(&key).remaining.unwrap()
        ),
        (5, 3)
    );
    drop(busy);
    let response = answer(&mut service, from(PEER));
    assert_eq!(
        (inner.snapshot().in_use(), outer.snapshot().in_use()),
        (1, 1)
    );
    drop(response);
    assert_eq!(
        (inner.snapshot().in_use(), outer.snapshot().in_use()),
        (0, 0)
    );
    assert_eq!(
        (
            rate.snapshot().available(),
            keyed.standing(&key).remaining.unwrap()
        ),
        (4, 2)
    );
}

#[test]
fn charges_that_are_known_later_are_taken_back_too_if_told() {
    let time = ManualClock::new();
    let (usage, bytes) = (bucket(&time, "usage"), bucket(&time, "bytes"));
    let inner = Gate::new(Concurrency::new(1));
    let _busy = inner.try_acquire(1).unwrap();
    let by_usage = RequestLimit::new(usage.clone()).charge_usage();
    let by_bytes = RequestLimit::new(bytes.clone()).charge_bytes(|_| 5);
    let inside = HttpLimitLayer::new(RequestLimit::new(inner.clone())).layer(OK);
    let left = || (usage.snapshot().available(), bytes.snapshot().available());
    let refunding = HttpLimitLayer::new(by_usage.clone().refund_refused());
    let mut refunding = refunding
        .and(by_bytes.clone().refund_refused())
        .layer(inside.clone());
    assert_eq!(answer(&mut refunding, get("/")).status(), 503);
    assert_eq!(left(), (5, 5));
    let mut keeping = HttpLimitLayer::new(by_usage).and(by_bytes).layer(inside);
    drop(answer(&mut keeping, get("/")));
    assert_eq!(left(), (4, 4), "what was taken for it");
}

/// A limit that goes by responses goes by refusals as well: they are responses.
#[test]
fn a_limit_on_failed_logins_does_not_count_what_is_refused_further_in() {
    let time = ManualClock::new();
    let (logins, inner) = (bucket(&time, "logins"), Gate::new(Concurrency::new(1)));
    let _busy = inner.try_acquire(1).unwrap();
    let limit = RequestLimit::new(logins.clone())
        .charge_response(|response| u64::from(response.status() == 401));
    let inside = HttpLimitLayer::new(RequestLimit::new(inner.clone())).layer(OK);
    let mut service = HttpLimitLayer::new(limit).layer(inside);
    assert_eq!(answer(&mut service, get("/")).status(), 503);
    assert_eq!(logins.snapshot().available(), 5);
}

#[test]
fn layers_tell_of_their_limits_one_after_the_other() {
    let time = ManualClock::new();
    let inner =
        HttpLimitLayer::new(RequestLimit::new(bucket(&time, "in"))).send_fields(SendFields::Always);
    let outer = HttpLimitLayer::new(RequestLimit::new(bucket(&time, "out")))
        .send_fields(SendFields::Always);
    let response = answer(&mut outer.layer(inner.layer(OK)), get("/"));
    let told: Vec<_> = response
        .headers()
        .get_all("ratelimit-policy")
        .iter()
        .collect();
    assert_eq!(told, [r#""in";q=5;w=1"#, r#""out";q=5;w=1"#]);
    assert_eq!(field(&response, "retry-after"), "");
}

#[test]
fn a_limit_in_two_layers_charges_twice_unless_told_otherwise() {
    let time = ManualClock::new();
    let gate = bucket(&time, "rate");
    let twice = HttpLimitLayer::new(RequestLimit::new(gate.clone()));
    assert_eq!(
        answer(&mut twice.layer(twice.layer(OK)), get("/")).status(),
        200
    );
    assert_eq!(gate.snapshot().available(), 3);
    let once = HttpLimitLayer::new(RequestLimit::new(gate.clone()).once());
    let mut service = once.layer(once.clone().layer(once.layer(OK)));
    assert_eq!(answer(&mut service, get("/")).status(), 200);
    assert_eq!(gate.snapshot().available(), 2);
    // Another limit on the same limiter is another limit.
    let other = HttpLimitLayer::new(RequestLimit::new(gate.clone()).once());
    assert_eq!(
        answer(&mut other.layer(once.layer(OK)), get("/")).status(),
        200
    );
    assert_eq!(gate.snapshot().available(), 0);
    assert_eq!(answer(&mut service, get("/")).status(), 429);
}

/// It once counted as charged where it had been skipped, and so never was.
#[test]
fn a_limit_that_was_skipped_further_out_still_charges() {
    let time = ManualClock::new();
    let keyed = Keyed::<String, _>::builder(TokenBucket::per_second(2))
        .clock(time.clock())
        .build();
    let limit = RequestLimit::by_key(keyed.clone(), HeaderKey::named("x-account").unwrap())
        .without_key(WithoutKey::Skip)
        .once();
    let once = HttpLimitLayer::new(limit);
    // Who it is turns out between the two.
    let known = once.layer(OK).map_request(|mut request: Request<()>| {
        request
            .headers_mut()
            .insert("x-account", "red".parse().unwrap());
        request
    });
    let mut service = once.layer(known);
    for expected in [200, 200, 429] {
        assert_eq!(answer(&mut service, get("/")).status(), expected);
    }
}

/// The same, where who it is has to be looked up.
#[test]
fn a_limit_that_was_skipped_after_a_look_up_still_charges() {
    let time = ManualClock::new();
    let keyed = Keyed::<u32, _>::builder(TokenBucket::per_second(1))
        .clock(time.clock())
        .build();
    let limit = RequestLimit::by_key_later(keyed, |head| {
        let known = head.header("x-account").map(str::len);
        async move { known.and_then(|length| u32::try_from(length).ok()) }
    });
    let once = HttpLimitLayer::new(limit.without_key(WithoutKey::Skip).once());
    let known = once.layer(OK).map_request(|mut request: Request<()>| {
        request
            .headers_mut()
            .insert("x-account", "red".parse().unwrap());
        request
    });
    let service = once.layer(known);
    for expected in [200, 429] {
        let response = now(service.clone().oneshot(get("/"))).unwrap();
        assert_eq!(response.status(), expected);
    }
}
