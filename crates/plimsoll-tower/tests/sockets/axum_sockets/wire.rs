//! Who is who, and what is sent.

use axum::Router;
use axum::routing::{get, post};
use plimsoll::{Concurrency, Gate, Keyed, ManualClock, TokenBucket};
use plimsoll_tower::answer::Fields;
use plimsoll_tower::keys::{Address, MatchedRoute, Peer};
use plimsoll_tower::{HttpLimitLayer, RequestLimit, SendFields};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::clients::{Http2, http1_from};
use super::serve;
use crate::eventually::soon;

fn per_address(rate: u64, time: &ManualClock) -> Keyed<Address, TokenBucket> {
    let rule = TokenBucket::per_second(rate);
    Keyed::builder(rule)
        .clock(time.clock())
        .name("per-address")
        .build()
}

#[tokio::test]
async fn each_address_has_its_limit() {
    let time = ManualClock::new();
    let layer = HttpLimitLayer::new(RequestLimit::by_key(per_address(2, &time), Peer::new()));
    let address = serve(Router::new().route("/", get(async || "hello")).layer(layer)).await;
    let url = format!("http://{address}/");
    let (one, other) = (http1_from([127, 0, 0, 1]), http1_from([127, 0, 0, 2]));
    let status = async |client: &reqwest::Client| {
        soon(client.get(&url).send())
            .await
            .unwrap()
            .status()
            .as_u16()
    };
    assert_eq!(
        [status(&one).await, status(&one).await, status(&one).await],
        [200, 200, 429]
    );
    assert_eq!(
        [
            status(&other).await,
            status(&other).await,
            status(&other).await
        ],
        [200, 200, 429]
    );
    // Another connection, and another version of HTTP, are not another address.
    let mut http2 = Http2::connect(address).await;
    assert_eq!(soon(http2.get(address)).await.unwrap().status(), 429);
    time.advance(std::time::Duration::from_millis(500));
    assert_eq!(soon(http2.get(address)).await.unwrap().status(), 200);
    assert_eq!(status(&one).await, 429);
}

#[tokio::test]
async fn each_route_has_its_limit() {
    let time = ManualClock::new();
    let rule = TokenBucket::per_second(1);
    let keyed = Keyed::<String, _>::builder(rule)
        .clock(time.clock())
        .build();
    let layer = HttpLimitLayer::new(RequestLimit::by_key(keyed.clone(), MatchedRoute));
    let router = Router::new()
        .route("/items/{id}", get(async || "item"))
        .route("/", get(async || "root"))
        .route_layer(layer);
    let address = serve(router).await;
    let client = http1_from([127, 0, 0, 1]);
    let mut statuses = Vec::new();
    for path in ["/items/1", "/items/2", "/", "/"] {
        let response = soon(client.get(format!("http://{address}{path}")).send())
            .await
            .unwrap();
        statuses.push(response.status().as_u16());
    }
    assert_eq!(statuses, [200, 429, 200, 429]);
    assert_eq!(keyed.len(), 2);
}

/// Everything that the server sends to one request, until it closes the connection.
async fn sent(address: std::net::SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    soon(stream.read_to_string(&mut answer)).await.unwrap();
    answer
}

/// Without the lines that every response has.
fn lines(answer: &str) -> (Vec<&str>, &str) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let usual = ["date: ", "connection: ", "content-length: "];
    let lines = head
        .lines()
        .filter(|line| !usual.iter().any(|start| line.starts_with(start)));
    (lines.collect(), body)
}

const GET: &str = "GET / HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn a_refusal_as_it_is_sent() {
    let time = ManualClock::new();
    let layer = HttpLimitLayer::new(RequestLimit::by_key(per_address(1, &time), Peer::new()))
        .fields(Fields::ALL);
    let address = serve(Router::new().route("/", get(async || "hello")).layer(layer)).await;
    let granted = sent(address, GET).await;
    let (head, body) = lines(&granted);
    assert_eq!(
        head,
        ["HTTP/1.1 200 OK", "content-type: text/plain; charset=utf-8"]
    );
    assert_eq!(body, "hello");

    let refused = sent(address, GET).await;
    let (head, body) = lines(&refused);
    let expected = [
        "HTTP/1.1 429 Too Many Requests",
        "content-type: application/problem+json",
        "ratelimit-policy: \"per-address\";q=1;w=1",
        "ratelimit: \"per-address\";r=0;t=1",
        "x-ratelimit-remaining: 0",
        "x-ratelimit-limit: 1",
        "x-ratelimit-reset: 1",
        "retry-after: 1",
    ];
    assert_eq!(head, expected);
    let problem: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(problem["retry-after"], 1);
    assert!(refused.contains(&format!("content-length: {}\r\n", body.len())));
}

#[tokio::test]
async fn the_head_of_a_refusal_has_no_body() {
    let gate = Gate::new(Concurrency::new(1));
    let _busy = gate.try_acquire(1).unwrap();
    let layer = HttpLimitLayer::new(RequestLimit::new(gate.clone()));
    let address = serve(Router::new().route("/", get(async || "hello")).layer(layer)).await;
    let answer = sent(address, &GET.replace("GET", "HEAD")).await;
    let (head, body) = lines(&answer);
    assert_eq!((head[0], body), ("HTTP/1.1 503 Service Unavailable", ""));
}

#[tokio::test]
async fn callers_who_are_always_told_can_count_along() {
    let time = ManualClock::new();
    let limit = RequestLimit::by_key(per_address(3, &time), Peer::new());
    let layer = HttpLimitLayer::new(limit).send_fields(SendFields::Always);
    let address = serve(Router::new().route("/", get(async || "hello")).layer(layer)).await;
    let client = http1_from([127, 0, 0, 1]);
    for remaining in ["r=2", "r=1", "r=0"] {
        let response = soon(client.get(format!("http://{address}/")).send())
            .await
            .unwrap();
        let told = response.headers()["ratelimit"].to_str().unwrap().to_owned();
        assert_eq!(told.split(';').nth(1), Some(remaining));
    }
}

#[tokio::test]
async fn uploads_cost_their_length_and_are_not_read_when_they_are_too_large() {
    let time = ManualClock::new();
    let gate = Gate::builder(TokenBucket::per_second(1000))
        .clock(time.clock())
        .build();
    let limit = RequestLimit::new(gate.clone()).cost_by_content_length(100);
    let handler = async |body: String| body.len().to_string();
    let router = Router::new()
        .route("/", post(handler))
        .layer(HttpLimitLayer::new(limit));
    let address = serve(router).await;
    let client = http1_from([127, 0, 0, 1]);
    let upload = async |length: usize| {
        let request = client
            .post(format!("http://{address}/"))
            .body("x".repeat(length));
        soon(request.send()).await.unwrap()
    };
    assert_eq!(upload(600).await.text().await.unwrap(), "600");
    assert_eq!(gate.snapshot().available(), 400);
    assert_eq!(upload(500).await.status(), 429);
    assert_eq!(upload(400).await.text().await.unwrap(), "400");
    assert_eq!(upload(1001).await.status(), 413);
}
