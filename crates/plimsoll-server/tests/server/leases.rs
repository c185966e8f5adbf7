//! Leases over HTTP: what is held, committed and undone.

use std::time::Duration;

use serde_json::json;

use crate::Running;
use crate::http::{post, send};

#[tokio::test]
async fn leases_are_held_renewed_released_and_expire() {
    let server = Running::start(None, None).await;
    let want =
        |ttl: u64| json!({ "hold": { "limit": "slots", "key": "a", "cost": 10 }, "ttl_ms": ttl });
    let lease = post(&server, "/v1/leases", want(60_000)).await;
    assert_eq!(lease.status, 201, "{lease:?}");
    let place = lease.field("location").expect("it works").to_owned();
    assert_eq!(post(&server, "/v1/leases", want(60_000)).await.status, 429);
    let renewed = send(
        server.http,
        "PATCH",
        &place,
        Some(&json!({ "ttl_ms": 1000 })),
        "",
    )
    .await;
    assert_eq!(
        (renewed.status, &renewed.json()["expires_in_ms"]),
        (200, &json!(1000))
    );
    assert_eq!(
        send(server.http, "DELETE", &place, None, "").await.status,
        204
    );
    assert_eq!(
        send(server.http, "DELETE", &place, None, "").await.status,
        204,
        "as often as it is said"
    );
    let next = post(&server, "/v1/leases", want(50)).await;
    assert_eq!(next.status, 201);
    assert!(next.json()["fence"].as_u64() > lease.json()["fence"].as_u64());
    // It ends by itself; who waits is admitted then.
    let mut waiting = want(60_000);
    waiting["hold"]["wait_ms"] = json!(10_000);
    let mut admitted = post(&server, "/v1/leases", waiting.clone()).await;
    while admitted.status == 429 {
        tokio::time::sleep(Duration::from_millis(5)).await;
        admitted = post(&server, "/v1/leases", waiting.clone()).await;
    }
    assert_eq!(admitted.status, 201, "{admitted:?}");
    server.stop().await;
}

#[tokio::test]
async fn an_estimate_is_committed_or_undone() {
    let server = Running::start(None, None).await;
    let want = json!({ "hold": { "limit": "logins", "key": "a", "cost": 5 } });
    let left = async || {
        let limits = post(
            &server,
            "/v1/peek",
            json!({ "limit": "logins", "key": "a" }),
        )
        .await;
        limits.json()["answers"][0]["remaining"].clone()
    };
    let lease = post(&server, "/v1/leases", want.clone()).await;
    let place = lease.field("location").expect("it works");
    assert_eq!(
        post(&server, &format!("{place}/undo"), json!({}))
            .await
            .status,
        204
    );
    assert_eq!(left().await, 5);
    let lease = post(&server, "/v1/leases", want).await;
    let place = lease.field("location").expect("it works");
    assert_eq!(
        post(
            &server,
            &format!("{place}/commit"),
            json!({ "costs": { "logins": 2 } })
        )
        .await
        .status,
        204
    );
    assert_eq!(left().await, 3);
    assert_eq!(
        post(&server, &format!("{place}/commit"), json!({}))
            .await
            .status,
        404,
        "once"
    );
    server.stop().await;
}

/// schemathesis found that it was 400, as if the request were malformed.
#[tokio::test]
async fn a_lease_for_a_request_that_no_route_matches_is_unprocessable() {
    let server = Running::start(None, None).await;
    let hold = json!({ "hold": { "request": { "path": "/nowhere" } }, "ttl_ms": 200 });
    let answer = post(&server, "/v1/leases", hold).await;
    assert_eq!(answer.status, 422, "{answer:?}");
    server.stop().await;
}
