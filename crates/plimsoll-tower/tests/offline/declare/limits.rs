//! Any other limit: with keys, costs and queues, from the first request on.

use std::sync::LazyLock;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::routing::get;
use http::{Request, Response, StatusCode};
use plimsoll::{Concurrency, Gate, Keyed, ManualClock, Metadata, TokenBucket};
use plimsoll_policy::Policies;
use plimsoll_tower::declare::{LimitHandlers, LimitRoutes, PolicyLayer};
use plimsoll_tower::keys::{Address, Peer};
use plimsoll_tower::{Refused, RequestLimit, limit};

use super::{ANN, BOB, admitted, answer, ask, from, hello, search, shut};

#[tokio::test]
async fn a_declared_handler_uses_only_its_policy_from_the_first_request_on() {
    let time = ManualClock::new();
    let slots = RequestLimit::new(Gate::new(Concurrency::new(1)));
    let traced = tower::ServiceBuilder::new().map_request(|request: Request<Body>| request);
    let app = Router::new()
        .route("/attribute", get(search))
        .route("/method", get(hello).limited(1.0, 1.0))
        .route("/any", get(hello).limited_with(slots.clone()))
        .route("/behind", get(search).layer(traced))
        .route("/two", get(search).post(hello))
        .route("/plain", get(hello))
        .with_state("ready")
        .policies(shut(&time));
    for path in ["/attribute", "/method", "/any", "/behind", "/two"] {
        assert_eq!(answer(&app, ANN, path).await.0, 200, "{path}");
    }
    for (method, path) in [("POST", "/two"), ("GET", "/plain"), ("GET", "/nowhere")] {
        let response = ask(&app, from(ANN, method, path)).await;
        assert_eq!(response.status(), 429, "{method} {path}");
    }
}

#[limit(rate = "10/s", burst = 2, key = Peer::new(), cost = 2, name = "exact")]
async fn exact() {}

#[limit(window = "3/min")]
async fn windowed(_: State<&'static str>) {}

static SLOTS: LazyLock<Gate<Concurrency>> = LazyLock::new(|| {
    let about = Metadata::new().phrase("All desks are taken").code("DESKS");
    let desks = Gate::builder(Concurrency::new(1)).name("desks");
    desks.metadata(about).build()
});

#[limit(limiter = SLOTS.clone())]
async fn desk() -> &'static str {
    "a desk"
}

#[limit(concurrency = 1)]
#[limit(rate = "3/min", name = "both")]
async fn both() {}

#[tokio::test]
async fn any_limit_can_be_declared() {
    let time = ManualClock::new();
    let app: Router = Router::new()
        .route("/exact", get(exact))
        .route("/windowed", get(windowed))
        .route("/desk", get(desk))
        .route("/both", get(both))
        .with_state("ready")
        .policies(shut(&time));
    assert_eq!(admitted(&app, ANN, "/exact").await, 1);
    assert_eq!(admitted(&app, BOB, "/exact").await, 1);
    assert_eq!(admitted(&app, ANN, "/windowed").await, 3);
    assert_eq!(
        answer(&app, BOB, "/windowed").await.0,
        429,
        "all have one limit"
    );
    assert_eq!(admitted(&app, ANN, "/both").await, 3);
    let refused = ask(&app, from(ANN, "GET", "/both")).await;
    let Refused(denied) = refused.extensions().get().expect("a refusal");
    assert_eq!(denied.limiter(), Some("both"));

    // A slot is held until the answer has been read.
    let first = ask(&app, from(ANN, "GET", "/desk")).await;
    let refused = ask(&app, from(BOB, "GET", "/desk")).await;
    assert_eq!(refused.status(), 503);
    let body = axum::body::to_bytes(refused.into_body(), 1000)
        .await
        .unwrap();
    let problem: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(problem["detail"], "All desks are taken");
    assert_eq!(problem["code"], "DESKS");
    let body = axum::body::to_bytes(first.into_body(), 1000).await.unwrap();
    assert_eq!(body, "a desk");
    assert_eq!(admitted(&app, BOB, "/desk").await, 100);
}

#[limit(concurrency = 1, queue = 1)]
async fn queued() -> &'static str {
    "served"
}

#[limit(concurrency = 1, key = Peer::new())]
async fn one_each() -> &'static str {
    "yours"
}

static TENANTS: LazyLock<Keyed<Address, TokenBucket>> = LazyLock::new(|| {
    let rule = TokenBucket::per_second(1).burst(5);
    let tenants = Keyed::builder(rule).clock(ManualClock::new().clock());
    tenants.name("tenants").build()
});

#[limit(limiter = TENANTS.clone(), key = Peer::new(), cost = |head| if head.uri().query().is_some() { 4 } else { 1 })]
async fn shared() {}

#[tokio::test]
async fn declared_limits_queue_and_have_keys_and_costs() {
    let time = ManualClock::new();
    let app: Router = Router::new()
        .route("/queued", get(queued))
        .route("/one-each", get(one_each))
        .route("/shared", get(shared))
        .policies(shut(&time));
    let first = ask(&app, from(ANN, "GET", "/queued")).await;
    let mut second = Box::pin(ask(&app, from(BOB, "GET", "/queued")));
    assert!(crate::hand::poll(second.as_mut()).is_pending(), "it waits");
    assert_eq!(answer(&app, ANN, "/queued").await.0, 503, "no room");
    drop(first);
    assert_eq!(second.await.status(), 200);

    let held = ask(&app, from(ANN, "GET", "/one-each")).await;
    assert_eq!(held.status(), 200);
    assert_eq!(answer(&app, ANN, "/one-each").await.0, 429, "its own limit");
    assert_eq!(answer(&app, BOB, "/one-each").await.0, 200);

    // The limiter is the one of the program, and a request costs what it asks for.
    assert_eq!(answer(&app, ANN, "/shared?all").await.0, 200);
    assert_eq!(answer(&app, ANN, "/shared?all").await.0, 429);
    assert_eq!(answer(&app, ANN, "/shared").await.0, 200);
    assert_eq!(admitted(&app, BOB, "/shared").await, 5);
    assert_eq!(TENANTS.len(), 2);
}

#[tokio::test]
async fn declared_limits_answer_as_the_policies_around_them() {
    let teapot = |layer: plimsoll_tower::declare::FallbackLayer| {
        layer.respond(|_head, denied| {
            let mut response = Response::new(denied.phrase().into());
            *response.status_mut() = StatusCode::IM_A_TEAPOT;
            response
        })
    };
    let slots = Gate::new(Concurrency::new(1));
    let _taken = slots.try_acquire(1).unwrap();
    let route = || get(hello).limited_with(RequestLimit::new(slots.clone()));
    let built = Policies::builder().build().unwrap();
    let app: Router = Router::new().route("/", route());
    assert_eq!(answer(&app, ANN, "/").await.0, 503);
    let app = app.policies(PolicyLayer::new(built).answer(teapot));
    assert_eq!(answer(&app, ANN, "/").await.0, 418);
}
