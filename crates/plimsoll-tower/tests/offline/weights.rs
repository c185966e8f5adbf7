//! Weights that the layer measures itself.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use plimsoll::{Concurrency, Demand, Gate, ManualClock, Queue, Reason, Rule, TokenBucket};
use plimsoll_kinds::{Basic, Provider, Weight};
use plimsoll_tower::weights::{MeasuredBody, Weights, WeightsLayer, items};
use plimsoll_tower::{LimitError, Refused};
use tokio::task::{JoinHandle, yield_now};
use tower::{Layer, Service, ServiceExt, service_fn};

type Chunks = StreamBody<stream::BoxStream<'static, Result<Frame<Bytes>, Infallible>>>;

/// A body in parts, whose length nobody states.
fn chunked(parts: &'static [&'static str]) -> Chunks {
    let frames = stream::iter(parts).map(|part| Ok(Frame::data(Bytes::from(*part))));
    StreamBody::new(frames.boxed())
}

fn queued<R: Rule>(rule: R, time: &ManualClock) -> Gate<R> {
    let gate = Gate::builder(rule).queue(Queue::fifo(1000));
    gate.clock(time.clock()).build()
}

/// Answers with what it was asked, or with why it could not be read.
async fn echo<B>(request: Request<MeasuredBody<B>>) -> Result<Response<Full<Bytes>>, Infallible>
where
    B: http_body::Body<Data = Bytes, Error = Infallible>,
{
    Ok(match request.into_body().collect().await {
        Ok(body) => Response::new(Full::new(body.to_bytes())),
        Err(error) => {
            let mut response = Response::new(Full::new(error.to_string().into()));
            *response.status_mut() = StatusCode::INSUFFICIENT_STORAGE;
            response
        }
    })
}

fn layer(weight: Weight, limiter: impl Into<plimsoll_kinds::AnyLimiter>) -> WeightsLayer {
    let provider = Provider::builder().limit(weight, limiter).build().unwrap();
    WeightsLayer::try_new(&provider).unwrap()
}

/// Asks, and reads the whole answer.
fn asks<B>(layer: &WeightsLayer, request: Request<B>) -> JoinHandle<(StatusCode, Bytes)>
where
    B: http_body::Body<Data = Bytes, Error = Infallible> + Send + 'static,
{
    let service = layer.layer(service_fn(echo::<B>));
    tokio::spawn(async move {
        let response = service.oneshot(request).await.unwrap();
        let status = response.status();
        (
            status,
            response.into_body().collect().await.unwrap().to_bytes(),
        )
    })
}

async fn settle() {
    for _ in 0..20 {
        yield_now().await;
    }
}

#[tokio::test]
async fn bytes_are_counted_as_they_are_read_and_as_they_are_sent() {
    let time = ManualClock::new();
    let bytes = queued(TokenBucket::per_second(10), &time);
    let layer = layer(Weight::NETWORK_BYTES, bytes.clone());
    // As a message of gRPC comes: in frames, and nobody has said how long it is.
    let request = Request::post("/").header("content-type", "application/grpc");
    let asked = asks(
        &layer,
        request.body(chunked(&["abcd", "efgh", "ijkl"])).unwrap(),
    );
    settle().await;
    assert!(!asked.is_finished());
    assert_eq!(bytes.snapshot().queued(), 4, "the third part waits");
    time.advance(Duration::from_millis(200));
    settle().await;
    // Twelve were read; the answer has twelve too, more than fit at once.
    assert!(!asked.is_finished());
    time.advance(Duration::from_secs(1));
    settle().await;
    assert!(!asked.is_finished(), "ten of twelve");
    time.advance(Duration::from_millis(200));
    let (status, body) = asked.await.unwrap();
    assert_eq!((status, &body[..]), (StatusCode::OK, &b"abcdefghijkl"[..]));
    assert_eq!(bytes.snapshot().available(), 0);
}

#[tokio::test]
async fn memory_is_held_until_the_answer_was_sent() {
    let memory = Gate::new(Concurrency::new(10));
    let layer = layer(Weight::MEMORY_SIZE, memory.clone());
    let mut service = layer.layer(service_fn(echo::<Full<Bytes>>));
    let of = |text: &'static str, length: usize| {
        let request = Request::post("/").header("content-length", length);
        request.body(Full::new(Bytes::from(text))).unwrap()
    };
    let response = service.call(of("sevenby", 7)).await.unwrap();
    assert_eq!(memory.snapshot().in_use(), 7);
    let refused = service.call(of("four", 4)).await.unwrap();
    assert_eq!(refused.status(), 503);
    let Refused(denied) = refused.extensions().get().unwrap();
    assert_eq!(denied.reason(), Reason::Exhausted);
    let too_large = service.call(of("", 11)).await.unwrap();
    assert_eq!(too_large.status(), 413);
    assert_eq!(memory.snapshot().in_use(), 7);
    drop(response);
    assert_eq!(memory.snapshot().in_use(), 0);

    // What was not stated is taken as it is read, or the body fails.
    let (status, body) = asks(&layer, Request::new(chunked(&["eight by", "tes"])))
        .await
        .unwrap();
    assert_eq!(
        (status.as_u16(), body),
        (507, "the limit is used up".into())
    );
    let (status, _) = asks(&layer, Request::new(chunked(&["eight by", "te"])))
        .await
        .unwrap();
    assert_eq!(status, 200);
    // Whoever sends more than it said has the rest counted too.
    let lying = of("eleven byte", 5);
    let response = service.call(lying).await.unwrap();
    assert_eq!(response.status(), 507);
    drop(response);
    assert_eq!(memory.snapshot().in_use(), 0);
}

#[tokio::test]
async fn requests_are_counted_and_saturation_is_checked_first() {
    let slots = Gate::new(Concurrency::new(1));
    let basic = Basic::when("never", || false);
    let provider = Provider::builder()
        .basic(basic)
        .limit(Weight::REQUEST_COUNT, slots.clone())
        .limit(Weight::new("disk"), Gate::new(Concurrency::new(5)))
        .build()
        .unwrap();
    let layer = WeightsLayer::try_new(&provider).unwrap();
    let mut service = layer.layer(service_fn(echo::<Full<Bytes>>));
    let body = Full::new(Bytes::from("held until it is read"));
    let first = service.call(Request::new(body)).await.unwrap();
    assert_eq!(slots.snapshot().in_use(), 1);
    assert_eq!(
        service.call(Request::default()).await.unwrap().status(),
        503
    );
    drop(first);
    assert_eq!(
        service.call(Request::default()).await.unwrap().status(),
        200
    );

    // A weight that no request asks for by itself.
    let disk = provider
        .limiters(Weight::new("disk"))
        .next()
        .unwrap()
        .clone();
    let _all = disk.try_acquire(Demand::of(5)).unwrap();
    let refused = service.call(Request::default()).await.unwrap();
    let Refused(denied) = refused.extensions().get().unwrap();
    assert_eq!(denied.reason(), Reason::Saturated);
    assert_eq!(denied.limiter(), Some("disk"));
}

#[tokio::test]
async fn items_are_taken_when_the_message_is_decoded() {
    let spans = Gate::new(Concurrency::new(5));
    let provider = Provider::builder()
        .limit(Weight::REQUEST_ITEMS, spans.clone())
        .build()
        .unwrap();
    let service = WeightsLayer::try_new(&provider).unwrap().layer(service_fn(
        async |request: Request<MeasuredBody<Full<Bytes>>>| {
            let weights = request.extensions().get::<Weights>().cloned().unwrap();
            let lines = request.into_body().collect().await.unwrap().to_bytes();
            let lines = lines.split(|byte| *byte == b'\n').count();
            let taken = weights.take(Weight::REQUEST_ITEMS, lines as u64).await;
            let status = if taken.is_ok() { 200 } else { 429 };
            let response = Response::builder().status(status);
            Ok::<_, Infallible>(response.body(Full::<Bytes>::default()).unwrap())
        },
    ));
    let ask = |text: &'static str| {
        service
            .clone()
            .oneshot(Request::new(Full::new(Bytes::from(text))))
    };
    let held = ask("a\nb\nc").await.unwrap();
    assert_eq!(
        (held.status(), spans.snapshot().in_use()),
        (StatusCode::OK, 3)
    );
    assert_eq!(ask("a\nb\nc").await.unwrap().status(), 429);
    drop(held);
    assert_eq!(ask("a\nb\nc\nd\ne").await.unwrap().status(), 200);
    assert_eq!(spans.snapshot().in_use(), 0);

    // By a function of the message.
    let count = |message: &Vec<u8>| message.len() as u64;
    let consumer =
        items(&provider, count).layer(service_fn(async |_: Vec<u8>| Ok::<_, Infallible>(())));
    assert!(consumer.clone().oneshot(vec![0; 5]).await.is_ok());
    let refused = consumer.oneshot(vec![0; 6]).await.unwrap_err();
    assert!(matches!(refused, LimitError::Denied(denied) if denied.reason() == Reason::TooLarge));
}

#[test]
fn bytes_on_the_network_are_limited_by_a_rate() {
    let provider = Provider::builder()
        .limit(Weight::NETWORK_BYTES, Gate::new(Concurrency::new(1)))
        .build()
        .unwrap();
    let invalid = WeightsLayer::try_new(&provider).unwrap_err();
    assert_eq!(
        invalid.to_string(),
        "`kind` is resource: expected rate or basic"
    );
    let without = WeightsLayer::try_new(&Provider::builder().build().unwrap());
    assert!(without.is_ok());
}
