//! What a caller gets who is refused.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use plimsoll::{Concurrency, Denied, Gate, Keyed, ManualClock, Queue, Reason, TokenBucket};
use plimsoll_tower::answer::Class;
use plimsoll_tower::keys::{Address, HeaderKey, Peer};
use plimsoll_tower::{Head, HttpLimitLayer, Refused, RequestLimit};
use tower_layer::Layer;
use tower_service::Service;

use super::{OK, answer, field, from, get, text};
use crate::hand::now;

fn bucket(time: &ManualClock) -> Gate<TokenBucket> {
    Gate::builder(TokenBucket::per_second(2))
        .clock(time.clock())
        .name("api")
        .build()
}

#[test]
fn a_quota_is_429_with_everything_a_caller_has_to_know() {
    let time = ManualClock::new();
    let mut service = HttpLimitLayer::new(RequestLimit::new(bucket(&time))).layer(OK);
    for _ in 0..2 {
        let response = answer(&mut service, get("/"));
        assert_eq!(response.status(), 200);
        assert_eq!(field(&response, "ratelimit"), "", "told when refused");
        assert_eq!(text(response), "ok");
    }
    let response = answer(&mut service, get("/"));
    assert_eq!(response.status(), 429);
    assert_eq!(field(&response, "retry-after"), "1");
    assert_eq!(field(&response, "ratelimit-policy"), r#""api";q=2;w=1"#);
    assert_eq!(field(&response, "ratelimit"), r#""api";r=0;t=1"#);
    assert_eq!(field(&response, "content-type"), "application/problem+json");
    let refused = response.extensions().get::<Refused>().unwrap();
    assert_eq!(refused.0.retry_after(), Some(Duration::from_millis(500)));
    let body: serde_json::Value = serde_json::from_str(&text(response)).unwrap();
    assert_eq!(body["status"], 429);
    assert_eq!(body["retry-after"], 1);
    assert_eq!(body["violated-policies"], serde_json::json!(["api"]));
    // Who comes back when told is let in.
    time.advance(Duration::from_secs(1));
    assert_eq!(answer(&mut service, get("/")).status(), 200);
}

#[test]
fn want_of_room_is_503_and_nobody_knows_how_long() {
    let slots = Gate::builder(Concurrency::new(1)).name("slots").build();
    let mut service = HttpLimitLayer::new(RequestLimit::new(slots.clone())).layer(OK);
    let _busy = slots.try_acquire(1).unwrap();
    let response = answer(&mut service, get("/"));
    assert_eq!(response.status(), 503);
    assert_eq!(field(&response, "retry-after"), "");
    let policy = r#""slots";q=1;qu="concurrent-requests""#;
    assert_eq!(field(&response, "ratelimit-policy"), policy);
    assert_eq!(field(&response, "ratelimit"), r#""slots";r=0"#);
    assert!(text(response).contains("temporary-reduced-capacity"));
}

#[test]
fn what_can_never_be_granted_is_413() {
    let time = ManualClock::new();
    let limit = RequestLimit::new(bucket(&time)).cost(|_| 3);
    let mut service = HttpLimitLayer::new(limit).layer(OK);
    let response = answer(&mut service, get("/"));
    assert_eq!(response.status(), 413);
    assert_eq!(field(&response, "retry-after"), "");
}

#[test]
fn a_queue_that_is_full_is_503_and_says_when_there_is_room() {
    let time = ManualClock::new();
    let rule = TokenBucket::per_second(1);
    let gate = Gate::builder(rule)
        .queue(Queue::fifo(1))
        .clock(time.clock())
        .build();
    let mut service = HttpLimitLayer::new(RequestLimit::new(gate)).layer(OK);
    let _first = answer(&mut service, get("/"));
    let _waiting = service.call(get("/"));
    let response = answer(&mut service, get("/"));
    assert_eq!(response.status(), 503);
    let refused = response.extensions().get::<Refused>().unwrap();
    assert_eq!(refused.0.reason(), Reason::QueueFull);
    let seconds: u64 = field(&response, "retry-after").parse().unwrap();
    assert_eq!(Some(Duration::from_secs(seconds)), refused.0.retry_after());
}

#[test]
fn a_limiter_that_is_closed_is_503() {
    let gate = Gate::builder(Concurrency::new(1))
        .queue(Queue::fifo(1))
        .build();
    let mut service = HttpLimitLayer::new(RequestLimit::new(gate.clone())).layer(OK);
    let _busy = gate.try_acquire(1).unwrap();
    let waiting = service.call(get("/"));
    gate.close();
    assert_eq!(now(waiting).unwrap().status(), 503);
    assert_eq!(answer(&mut service, get("/")).status(), 503);
}

#[test]
fn a_request_without_a_key_is_refused_and_says_why() {
    let keyed = Keyed::<String, _>::builder(TokenBucket::per_second(1))
        .name("tenants")
        .build();
    let limit = RequestLimit::by_key(keyed, HeaderKey::named("x-tenant").unwrap());
    let mut service = HttpLimitLayer::new(limit).layer(OK);
    let response = answer(&mut service, get("/"));
    let denied = &response.extensions().get::<Refused>().unwrap().0;
    assert_eq!(response.status(), Class::of(denied).status());
    assert_eq!(
        (denied.reason(), denied.limiter()),
        (Reason::NoKey, Some("tenants"))
    );
    assert_eq!(
        field(&response, "ratelimit"),
        "",
        "nothing is known of its limit"
    );
}

#[test]
fn no_room_for_another_key_is_503() {
    let keyed = Keyed::<Address, _>::builder(TokenBucket::per_second(1))
        .max_keys(1)
        .build();
    let mut service = HttpLimitLayer::new(RequestLimit::by_key(keyed, Peer::new())).layer(OK);
    assert_eq!(answer(&mut service, from([192, 0, 2, 1])).status(), 200);
    let response = answer(&mut service, from([192, 0, 2, 2]));
    assert_eq!(response.status(), 503);
    let denied = &response.extensions().get::<Refused>().unwrap().0;
    assert_eq!(denied.reason(), Reason::KeysFull);
}

#[test]
fn grpc_is_refused_in_its_own_words() {
    let time = ManualClock::new();
    let gate = bucket(&time);
    let mut service = HttpLimitLayer::new(RequestLimit::new(gate.clone())).layer(OK);
    gate.charge(2);
    let mut request = get("/a.B/C");
    let headers = request.headers_mut();
    headers.insert("content-type", "application/grpc+proto".parse().unwrap());
    let response = answer(&mut service, request);
    assert_eq!(response.status(), 200);
    assert_eq!(field(&response, "grpc-status"), "8");
    assert_eq!(field(&response, "grpc-retry-pushback-ms"), "500");
    assert_eq!(field(&response, "content-type"), "application/grpc");
    use http_body::Body;
    assert!(
        response.body().is_end_stream(),
        "its headers are its trailers"
    );
}

#[test]
fn a_plain_refusal_is_a_phrase() {
    let time = ManualClock::new();
    let gate = bucket(&time);
    gate.charge(2);
    let layer = HttpLimitLayer::new(RequestLimit::new(gate))
        .problem(false)
        .retry_after(false);
    let response = answer(&mut layer.layer(OK), get("/"));
    assert_eq!(field(&response, "retry-after"), "");
    assert_eq!(
        field(&response, "content-type"),
        "text/plain; charset=utf-8"
    );
    assert_eq!(text(response), "the limit is used up");
}

#[test]
fn an_own_response_is_told_the_rest() {
    let time = ManualClock::new();
    let gate = bucket(&time);
    gate.charge(2);
    let respond = |head: &Head<'_>, denied: &Denied| {
        let text = format!("{} {}", head.uri().path(), denied.reason());
        Response::builder()
            .status(420)
            .body(Bytes::from(text))
            .unwrap()
    };
    let layer = HttpLimitLayer::new(RequestLimit::new(gate.clone())).respond(respond);
    let response = answer(&mut layer.layer(OK), get("/calm"));
    assert_eq!(response.status(), 420);
    assert_eq!(field(&response, "retry-after"), "1");
    assert_eq!(field(&response, "ratelimit"), r#""api";r=0;t=1"#);
    assert!(response.extensions().get::<Refused>().is_some());
    assert_eq!(text(response), "/calm exhausted");

    let later = |_: &Head<'_>, _: &Denied| {
        Response::builder()
            .header("retry-after", "99")
            .body(Bytes::new())
            .unwrap()
    };
    let layer = HttpLimitLayer::new(RequestLimit::new(gate)).respond(later);
    let response = answer(&mut layer.layer(OK), get("/"));
    assert_eq!(field(&response, "retry-after"), "99", "its own word counts");
}

#[test]
fn hooks_see_every_request_once() {
    let gate = Gate::builder(Concurrency::new(1))
        .queue(Queue::fifo(1))
        .build();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (refused, admitted) = (Arc::clone(&seen), Arc::clone(&seen));
    let layer = HttpLimitLayer::new(RequestLimit::new(gate.clone()))
        .on_refused(move |head, denied| {
            let line = format!("{} {}", head.uri().path(), denied.reason());
            refused.lock().unwrap().push(line);
        })
        .on_admitted(move |head| admitted.lock().unwrap().push(head.uri().path().to_owned()));
    let mut service = layer.layer(OK);
    let first = answer(&mut service, get("/first"));
    let second = service.call(get("/second"));
    assert_eq!(answer(&mut service, get("/third")).status(), 503);
    drop(first);
    assert_eq!(now(second).unwrap().status(), 200);
    assert_eq!(
        *seen.lock().unwrap(),
        ["/first", "/third queue_full", "/second"]
    );
}

#[test]
fn a_refusal_is_complete_without_a_body_that_is_read() {
    use http_body::Body;
    let gate = Gate::new(Concurrency::new(1));
    let _busy = gate.try_acquire(1).unwrap();
    let mut service = HttpLimitLayer::new(RequestLimit::new(gate.clone())).layer(OK);
    let request = Request::head("/").body(()).unwrap();
    let response = answer(&mut service, request);
    let length = response.body().size_hint().exact().unwrap();
    assert_eq!(length, text(response).len() as u64);
}
