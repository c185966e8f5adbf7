//! Costs from JSON bodies.

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use plimsoll::{Gate, ManualClock, TokenBucket};
use plimsoll_tower::json::{BodyCost, JsonCost, JsonUsage, Replayed};
use plimsoll_tower::{HttpLimitLayer, RequestLimit};
use proptest::prelude::*;
use tower::{Layer, ServiceBuilder, ServiceExt, service_fn};

type Parts = StreamBody<stream::BoxStream<'static, Result<Frame<Bytes>, &'static str>>>;

/// A body in parts of `size` bytes, and an error at the end if wanted.
fn parts(text: &str, size: usize, fails: bool) -> Parts {
    let parts = text.as_bytes().chunks(size.max(1));
    let parts: Vec<_> = parts
        .map(|part| Ok(Frame::data(Bytes::copy_from_slice(part))))
        .collect();
    let end = fails.then_some(Err("cut short"));
    StreamBody::new(stream::iter(parts.into_iter().chain(end)).boxed())
}

fn request(body: Parts) -> Request<Parts> {
    let request = Request::post("/").header("content-type", "application/json; charset=utf-8");
    request.body(body).expect("a request")
}

/// The cost that was read, and the body that arrived, or how it failed.
async fn read(
    layer: &JsonCost,
    request: Request<Parts>,
) -> (Option<u64>, Result<Bytes, &'static str>) {
    let service = layer.layer(service_fn(async |request: Request<Replayed<Parts>>| {
        let cost = request.extensions().get().map(|BodyCost(cost)| *cost);
        let body = request.into_body().collect().await;
        Ok::<_, Infallible>((cost, body.map(http_body_util::Collected::to_bytes)))
    }));
    service.oneshot(request).await.unwrap()
}

#[tokio::test]
async fn an_estimate_is_read_by_pointer() {
    let tokens = JsonCost::of("/max_tokens")
        .and_length_of("/messages")
        .max(100);
    for (text, expected) in [
        (r#"{"max_tokens":200,"messages":[1,2,3]}"#, Some(203)),
        (r#"{"max_tokens":2.5}"#, Some(3)),
        (r#"{"messages":[]}"#, Some(0)),
        (
            r#"{"max_tokens":18446744073709551615,"messages":[1]}"#,
            Some(u64::MAX),
        ),
        (r#"{"max_tokens":-5}"#, None),
        (r#"{"max_tokens":"many"}"#, None),
        (r#"{"max_tokens":200"#, None),
        ("[]", None),
        ("", None),
    ] {
        let (cost, body) = read(&tokens, request(parts(text, 7, false))).await;
        assert_eq!((cost, body.unwrap()), (expected, Bytes::from(text)));
    }
    // What is not JSON is not read, and what is too long is passed on as it is.
    let plain = Request::post("/")
        .body(parts(r#"{"max_tokens":1}"#, 9, false))
        .unwrap();
    assert_eq!(read(&tokens, plain).await.0, None);
    let long = format!(r#"{{"max_tokens":1,"prompt":"{}"}}"#, "x".repeat(500));
    let (cost, body) = read(&tokens, request(parts(&long, 40, false))).await;
    assert_eq!((cost, body.unwrap()), (None, Bytes::from(long)));
    let (cost, body) = read(&tokens, request(parts(r#"{"max_tokens":1}"#, 9, true))).await;
    assert_eq!((cost, body), (None, Err("cut short")));

    let list = JsonCost::length_of("/batch/items");
    let (cost, _) = read(
        &list,
        request(parts(r#"{"batch":{"items":[{},{},{}]}}"#, 9, false)),
    )
    .await;
    assert_eq!(cost, Some(3));
    let invalid = JsonCost::try_of("max_tokens").unwrap_err();
    assert_eq!(
        invalid.to_string(),
        "`pointer` is max_tokens: expected a JSON pointer, such as /max_tokens"
    );
}

proptest! {
    /// Whatever comes in whatever parts arrives as it came.
    #[test]
    fn a_body_arrives_as_it_came(text in ".{0,80}", size in 1_usize..20, bound in 0_usize..90, fails: bool) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let layer = JsonCost::of("").max(bound);
        let (_, body) = runtime.block_on(read(&layer, request(parts(&text, size, fails))));
        prop_assert_eq!(body, if fails { Err("cut short") } else { Ok(Bytes::from(text)) });
    }
}

#[tokio::test]
async fn what_an_answer_says_is_charged() {
    let gate = Gate::builder(TokenBucket::per_second(1000))
        .clock(ManualClock::new().clock())
        .build();
    let limit = RequestLimit::new(gate.clone())
        .cost_by_json(500)
        .charge_usage();
    let service = ServiceBuilder::new()
        .layer(JsonCost::of("/max_tokens"))
        .layer(HttpLimitLayer::new(limit))
        .layer(JsonUsage::of("/usage/total").max(100))
        .service(service_fn(async |request: Request<Replayed<Parts>>| {
            let answer = request.headers()["x-answer"].to_str().unwrap().to_owned();
            let response = Response::builder().header("content-type", "application/json");
            Ok::<_, Infallible>(response.body(Full::new(Bytes::from(answer))).unwrap())
        }));
    let long = format!(r#"{{"usage":{{"total":1}},"text":"{}"}}"#, "x".repeat(200));
    for (asked, answered, charged) in [
        (r#"{"max_tokens":300}"#, r#"{"usage":{"total":120}}"#, 120),
        (r#"{"max_tokens":100}"#, r#"{"usage":{"total":150}}"#, 150),
        // Nothing was asked for: the answer counts all the same.
        ("{}", r#"{"usage":{"total":7}}"#, 7),
        // It does not say: the estimate stays.
        (r#"{"max_tokens":30}"#, "{}", 30),
        (r#"{"max_tokens":30}"#, &long, 30),
    ] {
        let before = gate.snapshot().available();
        let mut request = request(parts(asked, 5, false));
        request
            .headers_mut()
            .insert("x-answer", answered.parse().unwrap());
        let response = service.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), 200);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, answered);
        assert_eq!(
            before - gate.snapshot().available(),
            charged,
            "{asked} {answered}"
        );
    }
}
