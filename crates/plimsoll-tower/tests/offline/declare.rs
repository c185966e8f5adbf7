//! Limits that handlers declare, in routers of axum.

use std::sync::LazyLock;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::routing::{any, get, post};
use http::{Request, Response, StatusCode};
use plimsoll::{
    Concurrency, EventKind, Gate, Keyed, ManualClock, Metadata, Priority, Queue, Reason,
    TokenBucket,
};
use plimsoll_policy::{OpCode, Policies, PoliciesBuilder, Policy};
use plimsoll_tower::declare::{Declaration, LimitHandlers, LimitRoutes, PolicyLayer};
use plimsoll_tower::keys::{Address, Peer, PeerAddr, TrustedProxies};
use plimsoll_tower::{
    EndpointPriority, HttpLimitLayer, PriorityHeader, Refused, RequestLimit, limit, per_address,
    priority, try_per_address,
};
use tower::ServiceExt;

#[limit(rps = 5, burst = 2.5)]
async fn search(State(state): State<&'static str>, query: Query<Vec<(String, String)>>) -> String {
    format!("{state} {}", query.0.len())
}

#[limit(rps = 0)]
async fn unlimited() {}

#[limit(rps = 1, burst = 0, name = "shut")]
async fn never() {}

/// Below zero is as zero.
#[limit(rps = -3, burst = -1)]
async fn unlimited_too() {}

#[limit(rps = 1, burst = -1)]
async fn never_either() {}

#[limit(rps = 1)]
async fn it(_: State<u8>) -> Result<&'static str, StatusCode> {
    Ok("it")
}

async fn hello() -> &'static str {
    "hello"
}

/// A request from somewhere.
fn from(peer: &str, method: &str, path: &str) -> Request<Body> {
    let request = Request::builder().method(method).uri(path);
    let request = match peer.parse() {
        Ok(peer) => request.extension(PeerAddr(peer)),
        Err(_) => request,
    };
    request.body(Body::empty()).expect("a request")
}

async fn ask(app: &Router, request: Request<Body>) -> Response<Body> {
    let Ok(response) = app.clone().oneshot(request).await;
    response
}

/// The status, and after how many seconds to come back.
async fn answer(app: &Router, peer: &str, path: &str) -> (u16, Option<u64>) {
    let response = ask(app, from(peer, "GET", path)).await;
    let after = response.headers().get("retry-after");
    let after = after.and_then(|after| after.to_str().ok()?.parse().ok());
    (response.status().as_u16(), after)
}

/// How many requests in a row are let through, of up to 100.
async fn admitted(app: &Router, peer: &str, path: &str) -> usize {
    for count in 0..100 {
        if answer(app, peer, path).await.0 != 200 {
            return count;
        }
    }
    100
}

fn policies(time: &ManualClock) -> PoliciesBuilder {
    Policies::builder().clock(time.clock())
}

const ANN: &str = "192.0.2.1:40000";
const BOB: &str = "192.0.2.2:40000";

#[tokio::test]
async fn one_line_limits_each_address() {
    let app = Router::new()
        .route("/", get(hello))
        .route("/other", get(hello))
        .layer(per_address(1, 3));
    for port in 0..3 {
        let peer = format!("192.0.2.1:{port}");
        assert_eq!(answer(&app, &peer, "/").await, (200, None));
    }
    assert_eq!(answer(&app, "192.0.2.1:3", "/other").await, (429, Some(1)));
    assert_eq!(answer(&app, BOB, "/").await, (200, None));
    // Nobody knows whose limit counts.
    let refused = ask(&app, from("", "GET", "/")).await;
    let Refused(denied) = refused.extensions().get().expect("a refusal");
    assert_eq!(denied.reason(), Reason::NoKey);

    assert_eq!(
        try_per_address(0, 1).unwrap_err().to_string(),
        "`rate` is 0: expected at least 1"
    );
    assert_eq!(try_per_address(1, 0).unwrap_err().field(), "burst");
    assert!(try_per_address(1, 1).is_ok());
}

#[tokio::test]
async fn behind_a_proxy_the_client_counts() {
    let layer = per_address(1, 1).behind(TrustedProxies::loopback());
    let app = Router::new().route("/", get(hello)).layer(layer);
    let via = |peer: &str, client: &str| {
        let mut request = from(peer, "GET", "/");
        let client = client.parse().unwrap();
        request.headers_mut().insert("x-forwarded-for", client);
        ask(&app, request)
    };
    assert_eq!(via("127.0.0.1:1", "192.0.2.1").await.status(), 200);
    assert_eq!(via("127.0.0.1:1", "192.0.2.2").await.status(), 200);
    assert_eq!(via("127.0.0.1:1", "192.0.2.1").await.status(), 429);
    // Who is no proxy is not believed.
    assert_eq!(via("192.0.2.3:1", "192.0.2.4").await.status(), 200);
    assert_eq!(via("192.0.2.3:1", "192.0.2.5").await.status(), 429);
}

#[tokio::test]
async fn the_attribute_and_the_router_mean_the_same() {
    let time = ManualClock::new();
    let app = Router::new()
        .route("/search", get(search))
        .route("/built", get(hello).limited(5.0, 2.5))
        .with_state("ready")
        .policies(policies(&time).build().unwrap());
    for path in ["/search?a=1", "/built"] {
        // 5 and 2.5 come to 8 a second and 4 at once.
        assert_eq!(admitted(&app, ANN, path).await, 4, "{path}");
        assert_eq!(answer(&app, ANN, path).await, (429, Some(1)));
        assert_eq!(admitted(&app, BOB, path).await, 4, "{path}");
    }
    time.advance(Duration::from_millis(250));
    assert_eq!(admitted(&app, ANN, "/search").await, 2);

    let refused = ask(&app, from(ANN, "GET", "/search")).await;
    let Refused(denied) = refused.extensions().get().expect("a refusal");
    assert_eq!(denied.limiter(), Some("search"));
    assert_eq!(denied.retry_after(), Some(Duration::from_millis(125)));
    let content = &refused.headers()["content-type"];
    assert_eq!(content, "application/problem+json");
}

#[tokio::test]
async fn declared_without_policies_is_limited_all_the_same() {
    let app = Router::new()
        .route("/", get(hello).limited(1.0, 2.0))
        .route("/it", get(it))
        .with_state(7_u8);
    assert_eq!(admitted(&app, ANN, "/").await, 2);
    assert_eq!(admitted(&app, BOB, "/").await, 2);
    assert_eq!(admitted(&app, ANN, "/it").await, 1);
}

#[tokio::test]
async fn what_declares_nothing_shares_the_fallback() {
    let time = ManualClock::new();
    let built = policies(&time).fallback(TokenBucket::per_second(1).burst(3));
    let app: Router = Router::new()
        .route("/", get(hello))
        .route("/other", get(hello))
        .route("/declared", get(hello).limited(128.0, 64.0).post(hello))
        .policies(built.build().unwrap());

    assert_eq!(answer(&app, ANN, "/declared").await.0, 200);
    assert_eq!(answer(&app, ANN, "/").await.0, 200);
    assert_eq!(answer(&app, ANN, "/").await.0, 200);
    assert_eq!(answer(&app, ANN, "/nowhere").await.0, 404);
    assert_eq!(answer(&app, ANN, "/other").await, (429, Some(1)));
    assert_eq!(answer(&app, ANN, "/nowhere").await, (429, Some(1)));
    assert_eq!(admitted(&app, ANN, "/declared").await, 63);
    // Another method is another handler.
    assert_eq!(
        ask(&app, from(ANN, "POST", "/declared")).await.status(),
        429
    );
    // Who declares is nobody else's affair.
    assert_eq!(admitted(&app, BOB, "/declared").await, 64);
    assert_eq!(admitted(&app, BOB, "/").await, 3);
}

#[tokio::test]
async fn decisions_are_answered_by_the_table() {
    let time = ManualClock::new();
    let locking = policies(&time)
        .max_soft_violations(2)
        .lockout(Duration::from_secs(30))
        .build()
        .unwrap();
    let app: Router = Router::new()
        .route("/", get(hello).limited(1.0, 1.0))
        .route("/unlimited", get(unlimited))
        .route("/unlimited-too", get(unlimited_too))
        .route("/never", get(never))
        .route("/never-either", get(never_either))
        .route("/nonsense", get(hello).limited(f64::NAN, 1.0))
        .route("/undeclared", get(hello))
        .policies(locking.clone());
    assert_eq!(answer(&app, ANN, "/").await, (200, None));
    assert_eq!(answer(&app, ANN, "/").await, (429, Some(1)), "throttled");
    assert_eq!(answer(&app, ANN, "/").await, (429, Some(30)), "locked out");
    // The program does not record addresses. It was answered 429, as if the client had asked too often.
    for path in ["/", "/undeclared"] {
        assert_eq!(answer(&app, "", path).await, (500, None), "{path}");
        let response = ask(&app, from("", "GET", path)).await;
        let body = axum::body::to_bytes(response.into_body(), 1000).await;
        let body = String::from_utf8(body.expect("a body").into()).expect("a text");
        assert!(
            body.contains("into_make_service_with_connect_info"),
            "{body}"
        );
    }
    let for_ever = (429, Some(2_147_484));
    assert_eq!(answer(&app, BOB, "/never").await, for_ever);
    assert_eq!(answer(&app, BOB, "/never-either").await, for_ever);
    assert_eq!(admitted(&app, BOB, "/unlimited-too").await, 100);
    assert_eq!(answer(&app, BOB, "/nonsense").await, for_ever);
    assert_eq!(admitted(&app, BOB, "/unlimited").await, 100);

    locking.close();
    for path in ["/", "/unlimited", "/never", "/undeclared"] {
        assert_eq!(answer(&app, BOB, path).await, (503, None), "{path}");
    }
}

#[tokio::test]
async fn policies_can_be_declared_together_by_operation() {
    const LOGIN: OpCode = OpCode(1);
    let time = ManualClock::new();
    let built = policies(&time).handler(LOGIN, Policy::per_second(2.0).burst(2.0));
    let app: Router = Router::new()
        .route("/login", any(hello).limited_as(LOGIN))
        .route("/sign-in", get(hello).limited_as(LOGIN))
        .route(
            "/named",
            get(hello).limited_by(Declaration::per_second("named", 1.0, 1.0)),
        )
        .policies(PolicyLayer::new(built.build().unwrap()).answer(|layer| {
            layer.respond(|_head, denied| {
                let name = denied.limiter().unwrap_or_default().to_owned();
                let mut response = Response::new(name.into());
                *response.status_mut() = StatusCode::IM_A_TEAPOT;
                response
            })
        }));
    // One operation in two places.
    assert_eq!(answer(&app, ANN, "/login").await.0, 200);
    assert_eq!(answer(&app, ANN, "/sign-in").await.0, 200);
    assert_eq!(answer(&app, ANN, "/login").await, (418, Some(1)));
    assert_eq!(admitted(&app, ANN, "/named").await, 1);
}

#[tokio::test]
async fn a_router_nested_as_a_service_keeps_the_fallback_too() {
    let time = ManualClock::new();
    let inner: Router = Router::new()
        .route("/declared", get(hello).limited(128.0, 64.0))
        .route("/not", get(hello));
    let built = policies(&time).fallback(TokenBucket::per_second(1).burst(5));
    let app: Router = Router::new()
        .nest("/nested", inner.clone())
        .nest_service("/service", inner)
        .policies(built.build().unwrap());
    assert_eq!(admitted(&app, ANN, "/nested/declared").await, 64);
    assert_eq!(admitted(&app, BOB, "/service/declared").await, 5);
    assert_eq!(answer(&app, BOB, "/service/not").await.0, 429);
}

#[tokio::test]
async fn a_limit_further_out_is_not_charged_for_what_a_handler_refuses_if_told() {
    let rate = Keyed::<Address, _>::builder(TokenBucket::per_second(1).burst(3));
    let rate = rate.clock(ManualClock::new().clock()).build();
    let outer = HttpLimitLayer::new(RequestLimit::by_key(rate, Peer::new()));
    let app: Router = Router::new()
        .route("/", post(hello).limited(1.0, 1.0))
        .route("/free", get(hello))
        .layer(outer.refund_refused());
    assert_eq!(ask(&app, from(ANN, "POST", "/")).await.status(), 200);
    for _ in 0..10 {
        assert_eq!(ask(&app, from(ANN, "POST", "/")).await.status(), 429);
    }
    assert_eq!(admitted(&app, ANN, "/free").await, 2);
}

/// A fallback that refuses everybody shows whether it is asked.
fn shut(time: &ManualClock) -> Policies {
    let bucket = TokenBucket::per_second(1).initial(0);
    policies(time).fallback(bucket).build().unwrap()
}

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

#[priority(critical)]
async fn checkout() {}

#[limit(concurrency = 100, priority = non_critical)]
async fn thumbnails() {}

#[priority(critical)]
#[limit(rate = "100/s")]
async fn pay(_: State<&'static str>) {}

#[tokio::test]
async fn an_endpoint_declares_its_priority() {
    let time = ManualClock::new();
    let gate = Gate::builder(Concurrency::new(1))
        .queue(Queue::fifo(100))
        .clock(time.clock())
        .build();
    let mut events = gate.subscribe(100);
    let layer =
        |by: EndpointPriority| HttpLimitLayer::new(RequestLimit::new(gate.clone())).priority(by);
    let router = || {
        Router::new()
            .route("/checkout", get(checkout))
            .route("/thumbnails", get(thumbnails))
            .route("/pay", get(pay))
            .route("/method", get(hello).prioritized(Priority::NonCritical))
            .route("/over", get(checkout).prioritized(Priority::Normal))
            .route("/plain", get(hello))
            .with_state("ready")
    };
    let by_header = EndpointPriority::new().or(PriorityHeader::default());
    let (plain, with_header) = (
        router().layer(layer(EndpointPriority::new())),
        router().layer(layer(by_header)),
    );
    for (path, expected, or) in [
        ("/checkout", Priority::Critical, Priority::Critical),
        ("/thumbnails", Priority::NonCritical, Priority::NonCritical),
        ("/pay", Priority::Critical, Priority::Critical),
        ("/method", Priority::NonCritical, Priority::NonCritical),
        ("/over", Priority::Normal, Priority::Normal),
        ("/plain", Priority::Normal, Priority::Critical),
    ] {
        for (app, expected) in [(&plain, expected), (&with_header, or)] {
            let mut request = from(ANN, "GET", path);
            let critical = "critical".parse().unwrap();
            request.headers_mut().insert("x-priority", critical);
            assert_eq!(ask(app, request).await.status(), 200, "{path}");
            let seen: Vec<_> = events
                .by_ref()
                .filter_map(|event| match event.kind {
                    EventKind::Processing { priority } => Some(priority),
                    _ => None,
                })
                .collect();
            assert_eq!(seen, [expected], "{path}");
        }
    }
}
