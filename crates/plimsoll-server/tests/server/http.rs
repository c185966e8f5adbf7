//! The HTTP and admin ports.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Running;

/// An answer, as it came.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines();
        lines.find_map(|line| line.strip_prefix(&format!("{name}: ")))
    }
}

pub(crate) async fn send(
    to: SocketAddr,
    method: &str,
    path: &str,
    body: Option<&Value>,
    more: &str,
) -> Answer {
    let mut stream = TcpStream::connect(to).await.expect("it works");
    let body = body.map(Value::to_string).unwrap_or_default();
    let kind = if body.is_empty() {
        ""
    } else {
        "content-type: application/json\r\n"
    };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {to}\r\nconnection: close\r\n{kind}{more}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream
        .write_all(request.as_bytes())
        .await
        .expect("it works");
    let mut text = String::new();
    stream.read_to_string(&mut text).await.expect("it works");
    let (head, body) = text.split_once("\r\n\r\n").expect("it works");
    let status = head
        .split(' ')
        .nth(1)
        .expect("it works")
        .parse()
        .expect("it works");
    Answer {
        status,
        head: head.to_owned(),
        body: body.to_owned(),
    }
}

pub(crate) async fn post(server: &Running, path: &str, body: Value) -> Answer {
    send(server.http, "POST", path, Some(&body), "").await
}

#[tokio::test]
async fn a_check_takes_or_refuses_with_the_fields_of_the_draft() {
    let server = Running::start(None, None).await;
    let ask = json!({ "limit": "logins", "key": "anna", "cost": 3 });
    let first = post(&server, "/v1/check", ask.clone()).await;
    assert_eq!(
        (first.status, &first.json()["allowed"]),
        (200, &json!(true))
    );
    assert_eq!(
        first.field("ratelimit-policy"),
        Some(r#""logins";q=5;w=600"#)
    );
    assert_eq!(first.json()["answers"][0]["remaining"], 2);
    let second = post(&server, "/v1/check", ask).await;
    assert_eq!(
        (second.status, second.field("content-type")),
        (429, Some("application/problem+json"))
    );
    assert!(
        second
            .field("retry-after")
            .expect("it works")
            .parse::<u64>()
            .expect("it works")
            <= 600
    );
    assert_eq!(
        (&second.json()["limit"], &second.json()["reason"]),
        (&json!("logins"), &json!("exhausted"))
    );
    let peek = post(
        &server,
        "/v1/peek",
        json!({ "limit": "logins", "key": "anna", "cost": 2 }),
    )
    .await;
    assert_eq!((peek.status, &peek.json()["allowed"]), (200, &json!(true)));
    server.stop().await;
}

#[tokio::test]
async fn several_limits_are_one_decision_and_several_decisions_one_request() {
    let server = Running::start(None, None).await;
    let both = json!({ "asks": [{ "limit": "default", "key": "a", "cost": 5 }, { "limit": "logins", "key": "a", "cost": 6 }] });
    let refused = post(&server, "/v1/check", both).await;
    assert_eq!(
        refused.status, 413,
        "more than there will ever be: {refused:?}"
    );
    let checks = json!({ "checks": [{ "limit": "default", "key": "a", "cost": 20 }, { "limit": "default", "key": "a" }] });
    let answer = post(&server, "/v1/check", checks).await;
    let allowed: Vec<_> = answer.json()["results"]
        .as_array()
        .expect("it works")
        .iter()
        .map(|it| it["allowed"].clone())
        .collect();
    assert_eq!(
        allowed,
        [json!(true), json!(false)],
        "nothing was charged by the refused decision"
    );
    server.stop().await;
}

/// Schemathesis found that the document allowed it, while the server answers 400.
#[tokio::test]
async fn a_request_is_charged_only_when_it_is_checked() {
    let server = Running::start(None, None).await;
    for path in ["/v1/charge", "/v1/refund"] {
        let request = post(&server, path, json!({ "request": { "path": "/" } })).await;
        assert_eq!(request.status, 400, "{request:?}");
        let named = json!({ "limit": "default", "key": "a", "request": null });
        assert_eq!(post(&server, path, named).await.status, 204);
    }
    server.stop().await;
}

#[tokio::test]
async fn what_is_wrong_with_a_request_is_said() {
    let server = Running::start(None, None).await;
    for (body, status, said) in [
        (json!({ "limit": "login" }), 404, "there is no limit"),
        (
            json!({ "limit": "slots", "key": "a" }),
            409,
            "POST /v1/leases",
        ),
        (
            json!({ "limit": "logins" }),
            400,
            "is counted by key: expected `key`",
        ),
        (json!({}), 400, "expected one of"),
        (
            json!({ "limit": "logins", "asks": [] }),
            400,
            "expected one of",
        ),
        (json!({ "asks": [] }), 400, "expected 1 to 64"),
        (
            json!({ "limit": "logins", "wait_ms": 60_001 }),
            400,
            "expected at most 60000",
        ),
        (
            json!({ "request": { "path": "login" } }),
            400,
            "begins with /",
        ),
    ] {
        let answer = post(&server, "/v1/check", body.clone()).await;
        assert_eq!(answer.status, status, "{body} {answer:?}");
        assert!(
            answer.json()["detail"]
                .as_str()
                .expect("it works")
                .contains(said),
            "{answer:?}"
        );
    }
    let wrong = send(
        server.http,
        "POST",
        "/v1/check",
        Some(&json!({ "limt": "a" })),
        "",
    )
    .await;
    assert_eq!(wrong.status, 422, "{wrong:?}");
    assert_eq!(
        send(server.http, "GET", "/v1/check", None, "").await.status,
        405
    );
    assert_eq!(
        send(server.http, "GET", "/nothing", None, "").await.status,
        404
    );
    server.stop().await;
}

#[tokio::test]
async fn operators_see_health_metrics_and_limits() {
    let server = Running::start(None, None).await;
    let ask = json!({ "limit": "logins", "key": "anna", "cost": 3 });
    for _ in 0..3 {
        post(&server, "/v1/check", ask.clone()).await;
    }
    assert_eq!(
        send(server.admin, "GET", "/healthz", None, "").await.body,
        "ok\n"
    );
    assert_eq!(
        send(server.admin, "GET", "/readyz", None, "").await.status,
        200
    );
    let metrics = send(server.admin, "GET", "/metrics", None, "").await.body;
    assert!(
        metrics.contains("plimsoll_granted_total{limit=\"logins\"} 1\n"),
        "{metrics}"
    );
    assert!(
        metrics.contains("plimsoll_refused_total{limit=\"logins\",reason=\"exhausted\"} 2\n"),
        "{metrics}"
    );
    let limits = send(server.admin, "GET", "/limits", None, "").await.json();
    assert_eq!(limits["limits"][1]["name"], "logins");
    // A page of somebody else that points its own name at this machine learns nothing.
    let mut stream = TcpStream::connect(server.admin).await.expect("it works");
    stream
        .write_all(b"GET /limits HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n")
        .await
        .expect("it works");
    let mut said = String::new();
    stream.read_to_string(&mut said).await.expect("it works");
    assert!(said.starts_with("HTTP/1.1 403"), "{said}");
    server.stop().await;
}

#[tokio::test]
async fn a_token_is_asked_for() {
    let server = Running::start(None, Some("s3cret")).await;
    let ask = json!({ "limit": "logins", "key": "a" });
    assert_eq!(post(&server, "/v1/check", ask.clone()).await.status, 401);
    for (token, status) in [
        ("wrong!", 401),
        ("s3cre", 401),
        ("s3cret0", 401),
        ("s3cret", 200),
    ] {
        let field = format!("authorization: Bearer {token}\r\n");
        let answer = send(server.http, "POST", "/v1/check", Some(&ask), &field).await;
        assert_eq!(answer.status, status, "{token}");
    }
    server.stop().await;
}

#[tokio::test]
async fn an_admin_port_that_others_reach_needs_a_token() {
    let mut settings = plimsoll_server::Settings::default();
    (settings.http, settings.resp) = (None, None);
    settings.admin = Some(SocketAddr::from(([0, 0, 0, 0], 0)));
    let error = plimsoll_server::Server::start(settings)
        .await
        .expect_err("it is refused");
    assert!(
        error.to_string().contains("would be open to others"),
        "{error}"
    );
}

#[tokio::test]
async fn the_document_describes_every_path() {
    let server = Running::start(None, None).await;
    let document = send(server.http, "GET", "/openapi.json", None, "")
        .await
        .json();
    assert_eq!(document["openapi"], "3.1.0");
    let id = "0".repeat(32);
    for (path, methods) in document["paths"].as_object().expect("it works") {
        for (method, operation) in methods
            .as_object()
            .expect("it works")
            .iter()
            .filter(|(name, _)| *name != "parameters")
        {
            let path = path.replace("{id}", &id);
            let body = operation.get("requestBody").map(|_| json!({}));
            let answer = send(
                server.http,
                &method.to_uppercase(),
                &path,
                body.as_ref(),
                "",
            )
            .await;
            let known = operation["responses"].get(answer.status.to_string());
            assert!(known.is_some(), "{method} {path}: {answer:?}");
            assert_ne!(answer.status, 405, "{method} {path}");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn what_the_file_says_about_a_limit_is_in_every_answer() {
    let file = std::env::temp_dir().join(format!("plimsoll-metadata-{}.yaml", std::process::id()));
    let text = "limits: { book: { rate: 1/h, metadata: { phrase: Too many bookings, code: 7, pairs: { plan: free } } } }";
    std::fs::write(&file, text).expect("a file");
    let server = Running::start(file.to_str(), None).await;
    let granted = post(&server, "/v1/check", json!({ "limit": "book" })).await;
    let about = json!({ "phrase": "Too many bookings", "code": 7, "plan": "free" });
    assert_eq!(granted.json()["answers"][0]["metadata"], about);
    let refused = post(&server, "/v1/check", json!({ "limit": "book" })).await;
    let problem = refused.json();
    assert_eq!(problem["detail"], "refused by book: Too many bookings");
    assert_eq!(
        (&problem["code"], &problem["plan"]),
        (&json!(7), &json!("free"))
    );
    assert_eq!(problem["answers"][0]["metadata"], about);
    server.stop().await;
    std::fs::remove_file(file).expect("it is there");
}
