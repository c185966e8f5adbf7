//! Costs by the length of what is sent.

use http::Request;
use plimsoll::{Gate, ManualClock, TokenBucket};
use plimsoll_tower::{HttpLimitLayer, RequestLimit};
use tower_layer::Layer;

use super::{OK, answer};

/// What requests with these lines cost, if an unknown length costs 10; `None` if they are too large.
fn cost(lines: &[&[u8]]) -> Option<u64> {
    let time = ManualClock::new();
    let gate = Gate::builder(TokenBucket::per_second(1000))
        .clock(time.clock())
        .build();
    let limit = RequestLimit::new(gate.clone()).cost_by_content_length(10);
    let mut service = HttpLimitLayer::new(limit).layer(OK);
    let mut request = Request::post("/").body(()).unwrap();
    for line in lines {
        let value = http::HeaderValue::from_bytes(line).unwrap();
        request.headers_mut().append("content-length", value);
    }
    match answer(&mut service, request).status().as_u16() {
        200 => Some(1000 - gate.snapshot().available()),
        413 => None,
        status => panic!("{status}"),
    }
}

#[test]
fn a_request_costs_as_many_as_it_says() {
    assert_eq!(cost(&[b"7"]), Some(7));
    assert_eq!(cost(&[b"1000"]), Some(1000));
    assert_eq!(cost(&[b"007"]), Some(7));
    assert_eq!(cost(&[b"0"]), Some(0));
}

#[test]
fn what_is_not_said_costs_what_unknown_lengths_cost() {
    assert_eq!(cost(&[]), Some(10));
}

#[test]
fn what_is_not_a_length_is_unknown() {
    let malformed: [&[u8]; 9] = [
        b"", b"-1", b"+1", b"1.0", b"1e3", b"0x10", b"1 2", b"seven", b"\xff",
    ];
    for line in malformed {
        assert_eq!(cost(&[line]), Some(10), "{line:?}");
    }
}

#[test]
fn what_is_too_large_is_too_large_however_large_it_is() {
    let large: [&[u8]; 4] = [
        b"1001",
        b"4294967296",
        b"18446744073709551615",
        b"340282366920938463463374607431768211456",
    ];
    for line in large {
        assert_eq!(cost(&[line]), None, "{line:?}");
    }
}

/// Nobody pays less by saying two things: the larger counts, and nonsense is not less than unknown.
#[test]
fn of_several_lengths_the_largest_counts() {
    assert_eq!(cost(&[b"5", b"5"]), Some(5));
    assert_eq!(cost(&[b"0", b"500"]), Some(500));
    assert_eq!(cost(&[b"500", b"0"]), Some(500));
    assert_eq!(cost(&[b"1", b"nonsense"]), Some(10));
    assert_eq!(cost(&[b"20", b"nonsense"]), Some(20));
}

/// The costs of limits that share a limiter were added without regard to overflow: a sum beyond 64 bits made the layer panic in builds
/// that check for it, and others said that the request may come again.
#[test]
fn what_is_too_large_is_too_large_where_the_limiter_is_shared_and_used_up() {
    let time = ManualClock::new();
    let gate = Gate::builder(TokenBucket::per_second(1000));
    let gate = gate.clock(time.clock()).build();
    let limit = || RequestLimit::new(gate.clone());
    let layer = HttpLimitLayer::new(limit()).and(limit().cost_by_content_length(10));
    let mut service = layer.layer(OK);
    assert!(gate.try_acquire(1000).is_ok());
    for (length, status) in [
        (999, 429),
        (1000, 413),
        (u64::MAX - 1, 413),
        (u64::MAX, 413),
    ] {
        let request = Request::post("/").header("content-length", length);
        let refused = answer(&mut service, request.body(()).unwrap());
        assert_eq!(refused.status(), status, "{length}");
    }
}
