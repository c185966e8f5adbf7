//! What callers are told of their limits, and when.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, SET_COOKIE};
use http::{HeaderMap, HeaderName, Request, Response};
use http_body_util::Full;
use plimsoll::{Concurrency, Gate, Keyed, ManualClock, TokenBucket};
use plimsoll_tower::answer::Fields;
use plimsoll_tower::keys::{Address, Peer};
use plimsoll_tower::{HttpLimitLayer, RequestLimit, SendFields};
use tower_layer::Layer;

use super::{Answers, OK, answer, field, from, get};

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

/// Answers with as many fields of its own as the path says, two of which are cookies if there are more than one.
const WITH_FIELDS: Answers<Full<Bytes>> = Answers(|request| {
    let mut response = Response::new(Full::new(Bytes::from_static(b"ok")));
    *response.headers_mut() = own_fields(request);
    response
});

fn own_fields(request: &Request<()>) -> HeaderMap {
    let count: usize = request.uri().path()[1..].parse().unwrap();
    let mut headers = HeaderMap::new();
    for index in 0..count {
        let name = HeaderName::from_bytes(format!("x-own-{index}").as_bytes()).unwrap();
        match index {
            0 => headers.insert(CONTENT_TYPE, "text/plain".parse().unwrap()),
            1 => {
                headers.append(SET_COOKIE, "a=1".parse().unwrap());
                headers.append(SET_COOKIE, "b=2".parse().unwrap());
                None
            }
            _ => headers.insert(name, index.into()),
        };
    }
    headers
}

#[test]
fn a_response_keeps_its_fields_however_many_it_has() {
    for fields in [Fields::STANDARD, Fields::X, Fields::ALL] {
        let time = ManualClock::new();
        let layer = HttpLimitLayer::new(RequestLimit::new(bucket(&time, 2000, "api")))
            .fields(fields)
            .send_fields(SendFields::Always);
        let mut service = layer.layer(WITH_FIELDS);
        for count in 0..12 {
            let request = get(&format!("/{count}"));
            let mut left = own_fields(&request);
            let mut response = answer(&mut service, request);
            let told = std::mem::take(response.headers_mut());
            let is_ours = |name: &HeaderName| name.as_str().contains("ratelimit");
            let ours: HeaderMap = told
                .iter()
                .filter(|(name, _)| is_ours(name))
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
            for name in left.keys().cloned().collect::<Vec<_>>() {
                let values = |headers: &HeaderMap| -> Vec<_> {
                    headers.get_all(&name).iter().cloned().collect()
                };
                assert_eq!(values(&told), values(&left), "{name} of {count}");
                left.remove(&name);
            }
            let remaining = 2000 - count - 1;
            let mut expected = HeaderMap::new();
            if fields != Fields::X {
                let rate_limit = format!(r#""api";r={remaining};t=1"#);
                expected.insert("ratelimit-policy", r#""api";q=2000;w=1"#.parse().unwrap());
                expected.insert("ratelimit", rate_limit.parse().unwrap());
            }
            if fields != Fields::STANDARD {
                expected.insert("x-ratelimit-limit", 2000.into());
                expected.insert("x-ratelimit-remaining", remaining.into());
                expected.insert("x-ratelimit-reset", 1.into());
            }
            assert_eq!(ours, expected, "beside {count} others");
            assert!(left.is_empty());
        }
    }
}

#[test]
fn a_clone_of_a_layer_with_other_fields_writes_those() {
    let time = ManualClock::new();
    let layer = HttpLimitLayer::new(RequestLimit::new(bucket(&time, 9, "api")))
        .send_fields(SendFields::Always);
    let (mut one, mut other) = (
        layer.clone().fields(Fields::X).layer(OK),
        layer.fields(Fields::STANDARD).layer(OK),
    );
    let response = answer(&mut one, get("/"));
    assert_eq!(field(&response, "x-ratelimit-remaining"), "8");
    assert_eq!(field(&response, "ratelimit"), "");
    let response = answer(&mut other, get("/"));
    assert_eq!(field(&response, "x-ratelimit-remaining"), "");
    assert_eq!(field(&response, "ratelimit"), r#""api";r=7;t=1"#);
}
