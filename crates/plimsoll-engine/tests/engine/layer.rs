//! The tower layer of a file: the same answers and header fields as the typed layers.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use plimsoll_engine::{FileLimits, Limits};
use plimsoll_tower::keys::PeerAddr;
use plimsoll_tower::{HttpLimit, HttpLimitLayer, SendFields, Usage};
use tower::util::service_fn;
use tower::{Layer, ServiceExt};

use crate::limits;

const FILE: &str = "
limits:
  per_client: { rate: 2/s, key: client }
  slots: { concurrency: 1 }
  logins: { rate: 2/h, key: client, cost: { status: [401] } }
  tokens: { rate: 100/h, key: header:x-account, cost: { estimate: 'header:x-max', actual: usage } }
  tomorrow: { rate: 1/h, key: client, mode: shadow }
  own: { rate: 1/h, answer: { status: 503, body: 'come back tomorrow', headers: { x-why: quota } } }
routes:
  - { match: /login, limits: [logins] }
  - { match: /model, limits: [tokens] }
  - { match: /own, limits: [own] }
  - { match: /slow, limits: [slots] }
  - { match: /**, limits: [per_client, tomorrow] }
";

async fn handler(request: Request<Full<Bytes>>) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = Response::new(Full::from("done"));
    if let Some(status) = request.headers().get("x-answer") {
        *response.status_mut() = StatusCode::from_bytes(status.as_bytes()).expect("it works");
    }
    if let Some(usage) = request.extensions().get::<Usage>() {
        usage.add(30);
    }
    Ok(response)
}

type Layered = HttpLimitLayer<FileLimits>;

/// The answer to one request.
async fn ask(layer: &Layered, request: http::request::Builder) -> Response<Bytes> {
    let peer = PeerAddr("192.0.2.7:1".parse().expect("it works"));
    let request = request
        .extension(peer)
        .body(Full::<Bytes>::default())
        .expect("it works");
    let service: HttpLimit<_, FileLimits> = layer.layer(service_fn(handler));
    let response = service.oneshot(request).await.expect("it works");
    let (head, body) = response.into_parts();
    Response::from_parts(head, body.collect().await.expect("it works").to_bytes())
}

fn layered() -> (Layered, Limits) {
    let (limits, _time) = limits(FILE);
    (limits.layer(), limits)
}

#[tokio::test]
async fn a_refusal_is_429_with_the_fields_of_the_binding_limit() {
    let (layer, _limits) = layered();
    let layer = layer.send_fields(SendFields::Always);
    let first = ask(&layer, Request::get("/")).await;
    assert_eq!(first.status(), 200);
    assert_eq!(
        first.headers()["ratelimit-policy"],
        r#""per_client";q=2;w=1"#
    );
    assert_eq!(first.headers()["ratelimit"], r#""per_client";r=1;t=1"#);
    ask(&layer, Request::get("/")).await;
    let refused = ask(&layer, Request::get("/")).await;
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(
        refused.headers()["content-type"],
        "application/problem+json"
    );
    assert_eq!(
        refused.headers()["ratelimit-policy"],
        r#""per_client";q=2;w=1"#
    );
}

#[tokio::test]
async fn a_limit_of_the_server_is_503_and_its_slot_lasts_until_the_body_ends() {
    let (layer, limits) = layered();
    let service = layer.layer(service_fn(handler));
    let slow = || {
        Request::get("/slow")
            .body(Full::<Bytes>::default())
            .expect("it works")
    };
    let held = service.clone().oneshot(slow()).await.expect("it works");
    assert_eq!(held.status(), 200);
    assert_eq!(
        service
            .clone()
            .oneshot(slow())
            .await
            .expect("it works")
            .status(),
        503
    );
    drop(held);
    assert_eq!(
        service.oneshot(slow()).await.expect("it works").status(),
        200
    );
    let slots = limits
        .snapshot()
        .into_iter()
        .find(|it| it.name == "slots")
        .expect("it works");
    assert_eq!(slots.snapshot.in_use(), 0);
}

#[tokio::test]
async fn only_answers_with_such_a_status_are_charged() {
    let (layer, _limits) = layered();
    for _ in 0..5 {
        assert_eq!(ask(&layer, Request::get("/login")).await.status(), 200);
    }
    for _ in 0..2 {
        assert_eq!(
            ask(&layer, Request::get("/login").header("x-answer", "401"))
                .await
                .status(),
            401
        );
    }
    assert_eq!(ask(&layer, Request::get("/login")).await.status(), 429);
}

#[tokio::test]
async fn an_estimate_becomes_what_the_handler_used() {
    let (layer, limits) = layered();
    let model = || {
        Request::get("/model")
            .header("x-account", "7")
            .header("x-max", "80")
    };
    assert_eq!(ask(&layer, model()).await.status(), 200);
    let left = |limits: &Limits| {
        let asks = [plimsoll_engine::Ask::new("tokens").key("7")];
        let hold = limits.peek(&asks).expect("it works");
        hold.answers()
            .next()
            .expect("it works")
            .standing
            .expect("it works")
            .remaining
    };
    assert_eq!(left(&limits), Some(70));
    assert_eq!(
        ask(&layer, model()).await.status(),
        429,
        "80 do not fit any more"
    );
    assert_eq!(
        ask(&layer, Request::get("/model")).await.status(),
        400,
        "whose request is it?"
    );
}

#[tokio::test]
async fn a_file_says_what_is_answered() {
    let (layer, _limits) = layered();
    assert_eq!(ask(&layer, Request::get("/own")).await.status(), 200);
    let refused = ask(&layer, Request::get("/own")).await;
    assert_eq!(refused.status(), 503);
    assert_eq!(refused.headers()["x-why"], "quota");
    assert_eq!(refused.body(), "come back tomorrow");
}

#[tokio::test]
async fn refusals_of_grpc_are_statuses_of_grpc_whatever_the_file_says_for_http() {
    let (layer, _limits) = layered();
    let call = |path: &str| Request::post(path).header("content-type", "application/grpc+proto");
    for (path, granted) in [("/package.Service/Method", 2), ("/own", 1)] {
        for _ in 0..granted {
            assert_eq!(ask(&layer, call(path)).await.body(), "done", "{path}");
        }
        let refused = ask(&layer, call(path)).await;
        assert_eq!(refused.status(), 200, "{path}");
        assert_eq!(refused.headers()["grpc-status"], "8", "{path}");
        assert_eq!(refused.headers()["content-type"], "application/grpc");
        assert!(refused.body().is_empty(), "{path}");
    }
}

#[tokio::test]
async fn another_file_counts_from_the_next_request_on() {
    let (layer, limits) = layered();
    let read = |text: &str| {
        plimsoll_config::Config::from_str("limits.yaml", text, plimsoll_config::Format::Yaml)
            .expect("it works")
    };
    ask(&layer, Request::get("/")).await;
    limits
        .replace(&read(&FILE.replace("rate: 2/s", "rate: 3/s")))
        .expect("it works");
    let statuses = AtomicU64::new(0);
    for _ in 0..3 {
        let status = ask(&layer, Request::get("/")).await.status();
        statuses.fetch_add(u64::from(status == 200), Ordering::Relaxed);
    }
    assert_eq!(statuses.into_inner(), 2, "one of three was used before");
    limits.replace(&read("limits: {}")).expect("it works");
    assert_eq!(
        ask(&layer, Request::get("/")).await.status(),
        200,
        "no route is for it any more"
    );
}

#[tokio::test]
async fn the_server_that_keeps_no_addresses_is_to_blame() {
    let (layer, _limits) = layered();
    let service = layer.layer(service_fn(handler));
    let request = Request::get("/")
        .body(Full::<Bytes>::default())
        .expect("it works");
    assert_eq!(
        service.oneshot(request).await.expect("it works").status(),
        500
    );
}

#[tokio::test]
async fn costs_and_keys_are_read_from_bodies() {
    let (limits, _time) = limits(
        "
limits:
  tokens: { rate: 100/h, key: 'json:/user', cost: { estimate: 'json:/max_tokens' } }
  logins: { rate: 1/h, key: 'form:user' }
routes:
  - { match: /model, limits: [tokens] }
  - { match: /login, limits: [logins] }
",
    );
    let service = limits
        .body_layer()
        .layer(limits.layer().layer(service_fn(echo)));
    let post = async |path: &str, kind: &str, body: &'static str| {
        let request = Request::post(path)
            .header("content-type", kind)
            .body(Full::<Bytes>::from(body))
            .expect("it works");
        let response = service.clone().oneshot(request).await.expect("it works");
        let status = response.status().as_u16();
        (
            status,
            response
                .into_body()
                .collect()
                .await
                .expect("it works")
                .to_bytes(),
        )
    };
    let ask = r#"{"user":"anna","max_tokens":60}"#;
    assert_eq!(
        post("/model", "application/json", ask).await,
        (200, Bytes::from(ask)),
        "the handler gets the body"
    );
    assert_eq!(
        post("/model", "application/json", ask).await.0,
        429,
        "60 more do not fit"
    );
    assert_eq!(
        post(
            "/model",
            "application/json",
            r#"{"user":"bert","max_tokens":60}"#
        )
        .await
        .0,
        200
    );
    assert_eq!(
        post("/model", "application/json", "{").await.0,
        400,
        "nobody knows whose it is"
    );
    let form = "application/x-www-form-urlencoded";
    assert_eq!(post("/login", form, "user=anna&password=x").await.0, 200);
    assert_eq!(post("/login", form, "user=anna&password=y").await.0, 429);
    assert_eq!(post("/login", form, "user=bert").await.0, 200);
    // Without the layer the program is to blame, and no limit is silently off.
    let request = Request::post("/login")
        .body(Full::<Bytes>::default())
        .expect("it works");
    let bare = limits.layer().layer(service_fn(handler));
    assert_eq!(bare.oneshot(request).await.expect("it works").status(), 500);
}

/// Answers with the body of the request.
async fn echo<B>(request: Request<B>) -> Result<Response<Full<Bytes>>, Infallible>
where
    B: http_body::Body<Error: std::fmt::Debug>,
{
    let body = request
        .into_body()
        .collect()
        .await
        .expect("it works")
        .to_bytes();
    Ok(Response::new(Full::new(body)))
}

const TOLD: &str = "
limits:
  bookings:
    rate: 1/h
    key: client
    metadata: { phrase: Too many bookings, code: BOOK-429, pairs: { plan: free, seats: 4, trial: true } }
  slots: { concurrency: 9, metadata: { pairs: { pool: small } } }
  plain: { rate: 100/s }
routes:
  - { match: /own, limits: [bookings], answer: { status: 429, problem: { title: Full } } }
  - { match: /text, limits: [bookings], answer: { status: 503 } }
  - { match: /**, limits: [bookings, slots, plain] }
";

/// What a file says about its limits reaches whoever is refused, in every form of answer, and the handler of whoever is not.
#[tokio::test]
async fn metadata_of_a_file_reaches_callers_and_handlers() {
    let (limits, _time) = limits(TOLD);
    let layer = limits.layer();
    let peer = PeerAddr("192.0.2.7:1".parse().expect("it works"));
    let seen = std::sync::Arc::new(std::sync::Mutex::new(None));
    let put = std::sync::Arc::clone(&seen);
    let service = layer
        .clone()
        .layer(service_fn(move |request: Request<Full<Bytes>>| {
            let granted = plimsoll_tower::GrantMetadata::of(request.extensions());
            *put.lock().expect("it works") = Some(granted);
            async { Ok::<_, Infallible>(Response::new(Full::<Bytes>::default())) }
        }));
    let request = Request::get("/")
        .extension(peer)
        .body(Full::<Bytes>::default());
    let response = service.oneshot(request.expect("it works")).await;
    assert_eq!(response.expect("it works").status(), StatusCode::OK);
    let granted = seen
        .lock()
        .expect("it works")
        .take()
        .expect("it was called");
    let names: Vec<&str> = granted.iter().map(|(limit, _)| limit).collect();
    assert_eq!(
        names,
        ["bookings", "slots"],
        "in order, without those that say nothing"
    );
    assert_eq!(granted.get("plan"), Some("free".into()));
    assert_eq!(granted.get("pool"), Some("small".into()));
    assert_eq!(granted.get("code"), Some("BOOK-429".into()));

    let refused = ask(&layer, Request::get("/")).await;
    let problem: serde_json::Value = serde_json::from_slice(refused.body()).expect("a problem");
    assert_eq!(problem["detail"], "Too many bookings");
    assert_eq!(problem["code"], "BOOK-429");
    assert_eq!(
        (&problem["plan"], &problem["seats"], &problem["trial"]),
        (&"free".into(), &4.into(), &true.into())
    );
    let refused = ask(&layer, Request::get("/own")).await;
    let problem: serde_json::Value = serde_json::from_slice(refused.body()).expect("a problem");
    assert_eq!(
        (&problem["title"], &problem["detail"]),
        (&"Full".into(), &"Too many bookings".into())
    );
    assert_eq!(
        (&problem["code"], &problem["seats"]),
        (&"BOOK-429".into(), &4.into())
    );
    let refused = ask(&layer, Request::get("/text")).await;
    assert_eq!(refused.body(), "Too many bookings");
}
