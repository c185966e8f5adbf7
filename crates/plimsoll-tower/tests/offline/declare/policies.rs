//! Policies, by the attribute and by the router.

use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::routing::{any, get, post};
use http::{Response, StatusCode};
use plimsoll::{Keyed, ManualClock, Reason, TokenBucket};
use plimsoll_policy::{OpCode, Policy};
use plimsoll_tower::declare::{Declaration, LimitHandlers, LimitRoutes, PolicyLayer};
use plimsoll_tower::keys::{Address, Peer, TrustedProxies};
use plimsoll_tower::{HttpLimitLayer, Refused, RequestLimit, limit, per_address, try_per_address};

use super::{ANN, BOB, admitted, answer, ask, from, hello, policies, search};

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
