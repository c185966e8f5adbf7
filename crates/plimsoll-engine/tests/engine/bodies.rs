//! Costs that are known only when bodies have passed: what the answer says, and bytes that nobody announced.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full};
use plimsoll_engine::{Ask, Limits};
use tower::util::service_fn;
use tower::{Layer, ServiceExt};

use crate::limits;

fn left(limits: &Limits, limit: &str) -> Option<u64> {
    let asks = [Ask::new(limit)];
    let hold = limits.peek(&asks);
    let standing = match &hold {
        Ok(hold) => hold.answers().next()?.standing,
        Err(refusal) => refusal.answers().next()?.standing,
    };
    standing?.remaining
}

/// A body in pieces, of a length that nobody knows.
fn pieces(texts: &[&str]) -> Pieces {
    let texts = texts.iter();
    Pieces(texts.map(|text| Bytes::from((*text).to_owned())).collect())
}

struct Pieces(VecDeque<Bytes>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
    }
}

const MODEL: &str = "
limits:
  tokens: { rate: 1000/h, cost: { estimate: 'header:x-max', actual: 'response_json:/usage/total' } }
  items: { rate: 1000/h, cost: 'response_json:/items' }
routes: [{ match: /**, limits: [tokens, items] }]
";

/// Answers as the header fields of the request say: in pieces, with a content type.
async fn answer<B>(request: Request<B>) -> Result<Response<Pieces>, Infallible> {
    let header = |name: &str| {
        let value = request.headers().get(name);
        value
            .map_or("", |value| value.to_str().expect("text"))
            .to_owned()
    };
    let body = header("x-body");
    let (first, second) = body.split_at(body.len() / 2);
    let mut response = Response::new(pieces(&[first, second]));
    let kind = header("x-kind").parse().expect("a value");
    response.headers_mut().insert("content-type", kind);
    Ok(response)
}

/// What remains of tokens and items after an answer that was read to its end, or dropped.
async fn after(kind: &str, body: &str, to_the_end: bool) -> (Option<u64>, Option<u64>) {
    let (limits, _time) = limits(MODEL);
    let service = limits.layer().layer(service_fn(answer));
    let request = Request::get("/")
        .header("x-max", "100")
        .header("x-kind", kind)
        .header("x-body", body)
        .body(Full::<Bytes>::default())
        .expect("it works");
    let response = service.oneshot(request).await.expect("it works");
    assert_eq!(response.status(), 200);
    match to_the_end {
        true => drop(response.into_body().collect().await.expect("it works")),
        false => drop(response),
    }
    (left(&limits, "tokens"), left(&limits, "items"))
}

#[tokio::test]
async fn what_the_answer_says_is_charged_when_it_has_been_sent() {
    let json = "application/json; charset=utf-8";
    let body = r#"{"usage":{"total":30},"items":[1,2,3]}"#;
    assert_eq!(after(json, body, true).await, (Some(970), Some(997)));
    let problem = "application/problem+json";
    assert_eq!(after(problem, body, true).await, (Some(970), Some(997)));
    // More than the estimate is charged in full.
    let more = r#"{"usage":{"total":400},"items":[]}"#;
    assert_eq!(after(json, more, true).await, (Some(600), Some(1000)));
    // Where the answer does not say, is no JSON or is cut short, the estimate stays.
    for (kind, body, to_the_end) in [
        (json, r#"{"items":"many"}"#, true),
        (json, "{", true),
        ("text/plain", body, true),
        (json, body, false),
    ] {
        let told = after(kind, body, to_the_end).await;
        assert_eq!(told, (Some(900), Some(1000)), "{kind} {body}");
    }
}

#[tokio::test]
async fn an_answer_of_any_length_is_kept_within_a_bound() {
    let (limits, _time) = limits(MODEL);
    let long = |_: Request<Full<Bytes>>| async {
        let begin = r#"{"usage":{"total":5},"items":[],"text":""#;
        let filler = "x".repeat(1000);
        let mut parts = vec![begin];
        parts.extend(std::iter::repeat_n(filler.as_str(), 1000));
        parts.push("\"}");
        let mut response = Response::new(pieces(&parts));
        let json = "application/json".parse().expect("a value");
        response.headers_mut().insert("content-type", json);
        Ok::<_, Infallible>(response)
    };
    let service = limits.layer().layer(service_fn(long));
    let request = Request::get("/").header("x-max", "100");
    let request = request.body(Full::<Bytes>::default()).expect("it works");
    let response = service.oneshot(request).await.expect("it works");
    let body = response.into_body().collect().await.expect("it works");
    assert_eq!(body.to_bytes().len(), 1_000_042, "it passes as it is");
    assert_eq!(left(&limits, "tokens"), Some(900), "the estimate stays");
}

const UPLOAD: &str = "
limits: { bytes: { rate: 1000/h, cost: request_bytes } }
routes: [{ match: /**, limits: [bytes] }]
";

/// Reads the whole body.
async fn swallow<B>(request: Request<B>) -> Result<Response<Full<Bytes>>, Infallible>
where
    B: Body<Error: std::fmt::Debug>,
{
    let _ = request.into_body().collect().await.expect("it works");
    Ok(Response::new(Full::from("thanks")))
}

#[tokio::test]
async fn bytes_of_a_body_that_nobody_announced_are_charged_as_they_arrived() {
    let (limits, _time) = limits(UPLOAD);
    let service = limits
        .body_layer()
        .layer(limits.layer().layer(service_fn(swallow)));
    let send = async |body: &[&str], length: Option<&str>| {
        let mut request = Request::post("/");
        request = match length {
            Some(length) => request.header("content-length", length),
            None => request.header("transfer-encoding", "chunked"),
        };
        let request = request.body(pieces(body)).expect("it works");
        let response = service.clone().oneshot(request).await.expect("it works");
        let status = response.status().as_u16();
        let _ = response.into_body().collect().await.expect("it works");
        status
    };
    assert_eq!(send(&["hello", " ", "world"], None).await, 200);
    assert_eq!(left(&limits, "bytes"), Some(989));
    assert_eq!(send(&["0123456789"], Some("10")).await, 200);
    assert_eq!(left(&limits, "bytes"), Some(979));
    assert_eq!(
        send(&["x"], Some("980")).await,
        429,
        "too much is announced"
    );
    // What is in excess is a debt.
    let much = "x".repeat(2000);
    assert_eq!(send(&[&much], None).await, 200);
    assert_eq!(left(&limits, "bytes"), Some(0));
    assert_eq!(send(&["x"], Some("1")).await, 429);
}

#[tokio::test]
async fn without_the_layer_that_counts_a_body_in_chunks_is_not_let_through() {
    let (limits, _time) = limits(UPLOAD);
    let service = limits.layer().layer(service_fn(swallow));
    let chunked = Request::post("/").header("transfer-encoding", "chunked");
    let chunked = chunked.body(pieces(&["x"])).expect("it works");
    let response = service.clone().oneshot(chunked).await.expect("it works");
    assert_eq!(response.status(), 500);
    let announced = Request::post("/").header("content-length", "1");
    let announced = announced.body(pieces(&["x"])).expect("it works");
    let response = service.oneshot(announced).await.expect("it works");
    assert_eq!(response.status(), 200);
    drop(response);
    assert_eq!(left(&limits, "bytes"), Some(999));
}
