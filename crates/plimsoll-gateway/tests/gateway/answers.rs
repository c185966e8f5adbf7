//! What refusals say, and who is refused: each line of what answers promise, through a gateway.

use http_body_util::Empty;
use serde_json::{Value, json};

use super::http2::shake;
use super::limits::{held, in_use, limited};
use super::*;

/// A GET with fields.
fn with(path: &str, fields: &str) -> String {
    get(path).replace("host:", &format!("{fields}\r\nhost:"))
}

/// The status of an answer, its fields, and its body as JSON.
fn parts(answer: &str) -> (u16, impl Fn(&str) -> Option<String> + use<>, Value) {
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|it| it.parse().ok());
    let head = head.to_owned();
    let field = move |name: &str| {
        let start = format!("{name}: ");
        let line = head.lines().find_map(|line| line.strip_prefix(&start));
        line.map(str::to_owned)
    };
    let body = serde_json::from_str(body).unwrap_or_default();
    (status.expect("a status"), field, body)
}

async fn ok() -> SocketAddr {
    says("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await
}

/// Sends a request, and waits until so many wait.
async fn waits(gateway: &Running, request: String, count: u64) -> TcpStream {
    let mut stream = gateway.connect().await;
    stream.write_all(request.as_bytes()).await.expect("written");
    let waiting = || gateway.limits.snapshot()[0].snapshot.waiters();
    within(async {
        while waiting() != count {
            tokio::task::yield_now().await;
        }
    })
    .await;
    stream
}

async fn answer(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    let read = within(stream.read_to_string(&mut answer)).await;
    read.expect("an answer");
    answer
}

#[tokio::test]
async fn a_rate_answers_429_and_says_when_to_come_again() {
    let limits = "{ slow: { rate: 2/h, burst: 2, key: client } }";
    let gateway = limited(&[ok().await], limits, "[slow]");
    let (status, field, _) = parts(&gateway.get("/").await);
    assert_eq!(status, 200);
    assert_eq!(field("retry-after"), None);
    gateway.get("/").await;
    let refused = gateway.get("/").await;
    assert!(refused.starts_with("HTTP/1.1 429 Too Many Requests\r\n"));
    let (_, field, problem) = parts(&refused);
    let seconds: u64 = field("retry-after")
        .and_then(|it| it.parse().ok())
        .expect("seconds");
    assert!((1..=1800).contains(&seconds), "{seconds}");
    let left = field("ratelimit").expect("what is left");
    assert!(left.starts_with("\"slow\";r=0"), "{left}");
    let policy = field("ratelimit-policy").expect("the policy");
    assert!(policy.starts_with("\"slow\";q=2"), "{policy}");
    assert_eq!(
        field("content-type").as_deref(),
        Some("application/problem+json")
    );
    assert_eq!(problem["status"], 429);
    assert_eq!(problem["detail"], "the limit is used up");
    assert_eq!(problem["violated-policies"], json!(["slow"]));
    assert_eq!(problem["retry-after"], seconds);
    let kind = problem["type"].as_str().unwrap_or_default();
    assert!(kind.ends_with("#quota-exceeded"), "{problem}");
}

#[tokio::test]
async fn a_full_server_answers_503_with_a_problem() {
    let (server, _go, mut came) = held().await;
    let limits = "{ slots: { concurrency: 1 } }";
    let gateway = limited(&[server], limits, "[slots]");
    let _first = waits(&gateway, get("/"), 0).await;
    within(came.recv()).await.expect("it came");
    let refused = gateway.get("/").await;
    assert!(refused.starts_with("HTTP/1.1 503 Service Unavailable\r\n"));
    let (_, field, problem) = parts(&refused);
    assert_eq!(
        field("content-type").as_deref(),
        Some("application/problem+json")
    );
    assert_eq!(problem["status"], 503);
    assert_eq!(problem["violated-policies"], json!(["slots"]));
    assert!(problem["detail"].is_string(), "{problem}");
    assert_eq!(
        field("retry-after"),
        problem["retry-after"].as_u64().map(|it| it.to_string())
    );
}

/// Each in the words of its reason: the queue has a time, and so has the caller, which may say so in two ways.
#[tokio::test]
async fn nobody_waits_longer_than_the_queue_or_the_caller_allows() {
    for (queue, fields) in [
        ("20ms", "x-other: 1"),
        ("1h", "grpc-timeout: 20m"),
        ("1h", "x-envoy-expected-rq-timeout-ms: 20"),
    ] {
        let (server, _go, mut came) = held().await;
        let limits =
            format!("{{ slots: {{ concurrency: 1, queue: {{ bound: 10, timeout: {queue} }} }} }}");
        let gateway = limited(&[server], &limits, "[slots]");
        let _first = waits(&gateway, get("/"), 0).await;
        within(came.recv()).await.expect("it came");
        let (status, _, problem) = parts(&gateway.raw(with("/", fields)).await);
        assert_eq!(status, 503, "{fields}");
        assert_eq!(problem["detail"], "waiting takes too long", "{fields}");
        // The server has seen nothing of it.
        assert_eq!(gateway.counts.requests(), 1);
    }
}

/// An adaptive limit before two servers: as many in flight as it allows, over both; a full queue gives up who matters least.
#[tokio::test]
async fn who_matters_least_is_refused_first_before_a_pool() {
    let (one, go_one, mut came_one) = held().await;
    let (two, go_two, mut came_two) = held().await;
    let limits = "{ slots: { concurrency: adaptive, min: 2, max: 2, initial: 2, queue: { bound: 1, timeout: 1h }, priority: header:x-priority } }";
    let gateway = limited(&[one, two], limits, "[slots]");
    let ask = |path: &str, priority: &str| with(path, &format!("x-priority: {priority}"));
    let _first = waits(&gateway, ask("/a", "normal"), 0).await;
    let _second = waits(&gateway, ask("/b", "normal"), 0).await;
    // One on each.
    within(came_one.recv()).await.expect("it came");
    within(came_two.recv()).await.expect("it came");
    assert_eq!(in_use(&gateway.limits, "slots"), 2);
    let low = waits(&gateway, ask("/low", "non-critical"), 1).await;
    let high = waits(&gateway, ask("/high", "critical"), 1).await;
    // The one takes the place of the other, which is told so.
    let (status, _, problem) = parts(&answer(low).await);
    assert_eq!(
        (status, &problem["detail"]),
        (503, &json!("evicted from the queue"))
    );
    // Who matters less than whoever waits is not taken in at all.
    let (status, _, problem) = parts(&gateway.raw(ask("/low", "non-critical")).await);
    assert_eq!(
        (status, &problem["detail"]),
        (503, &json!("the queue is full"))
    );
    go_one.add_permits(2);
    go_two.add_permits(2);
    assert!(answer(high).await.ends_with("ok"));
}

/// gRPC has its own words for both: trailers alone, with a status and when to try again.
#[tokio::test]
async fn grpc_is_answered_in_its_own_words() {
    let (server, _go, mut came) = held().await;
    let text = format!(
        "gateway:\n  upstreams: {{ app: {{ to: {} }} }}\nlimits: {{ slow: {{ rate: 1/h }}, slots: {{ concurrency: 1 }} }}\n\
         routes: [{{ match: /slow.A/Do, limits: [slow] }}, {{ match: /**, limits: [slots] }}]\n",
        list(&[server])
    );
    let gateway = Running::start(&text);
    let mut sender = shake(gateway.connect().await).await;
    let mut call = |path: &str| {
        let request = Request::post(format!("http://a.example{path}"))
            .header("content-type", "application/grpc")
            .body(Empty::new().boxed());
        sender.send_request(request.expect("a request"))
    };
    for (path, status, pushback) in [("/slow.A/Do", "8", true), ("/slots.A/Do", "14", false)] {
        let _first = tokio::spawn(call(path));
        within(came.recv()).await.expect("it came");
        let refused = within(call(path)).await.expect("an answer");
        assert_eq!(refused.status(), 200);
        let headers = refused.headers();
        assert_eq!(headers["content-type"], "application/grpc");
        assert_eq!(headers["grpc-status"], status, "{headers:?}");
        assert!(headers.contains_key("grpc-message"), "{headers:?}");
        assert_eq!(
            headers.contains_key("grpc-retry-pushback-ms"),
            pushback,
            "{headers:?}"
        );
    }
}

#[tokio::test]
async fn a_file_may_say_what_is_answered() {
    let limits =
        "{ slow: { rate: 1/h, answer: { status: 420, body: later, headers: { x-why: slow } } } }";
    let gateway = limited(&[ok().await], limits, "[slow]");
    gateway.get("/").await;
    let refused = gateway.get("/").await;
    let (status, field, _) = parts(&refused);
    assert_eq!((status, field("x-why").as_deref()), (420, Some("slow")));
    assert!(
        field("retry-after").is_some() && refused.ends_with("\r\n\r\nlater"),
        "{refused}"
    );
}
