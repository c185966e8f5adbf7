//! Clients that mean no good: whatever they send, it goes on serving.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Running;
use crate::http::{post, send};
use crate::snapshots::Directory;
use crate::wire::Kept;

/// It still answers, on every port.
async fn serves(server: &Running) {
    let check = post(
        server,
        "/v1/check",
        json!({ "limit": "default", "key": "well" }),
    )
    .await;
    assert_eq!(check.status, 200, "{check:?}");
    let mut kept = Kept::new(server.resp).await;
    assert!(
        kept.five("CL.THROTTLE well 1 100 1")
            .await
            .expect("an answer")
            .is_ok()
    );
    assert_eq!(
        send(server.admin, "GET", "/readyz", None, "").await.status,
        200
    );
    crate::grpc::Client::new(server).await;
}

fn ports(server: &Running) -> [SocketAddr; 4] {
    [server.http, server.resp, server.grpc, server.admin]
}

/// Sends what it can, and reads until the connection ends or nothing comes for a while.
async fn throw(to: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(to).await.expect("it listens");
    // It may be closed before everything is sent.
    let _ = stream.write_all(bytes).await;
    let mut said = Vec::new();
    let _ = tokio::time::timeout(Duration::from_millis(500), stream.read_to_end(&mut said)).await;
    said
}

/// The same bytes in every run.
fn random(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    std::iter::repeat_with(next).take(length).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_on_every_port() {
    let server = Running::start(None, None).await;
    let mut tasks = tokio::task::JoinSet::new();
    for port in ports(&server) {
        for seed in 1..=8 {
            let bytes = random(seed, 3000);
            tasks.spawn(async move { throw(port, &bytes).await });
        }
        for bytes in [
            &b"GET / HTTP/9.9\r\n\r\n"[..],
            b"POST /v1/check HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
            b"POST /v1/check HTTP/1.1\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\nzz\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"*1000000000\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        ] {
            tasks.spawn(throw(port, bytes));
        }
    }
    tasks.join_all().await;
    serves(&server).await;
    server.stop().await;
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("it fits").to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00";
/// POST / of `a`.
const HEADERS: &[u8] = &[0x83, 0x84, 0x86, 0x01, 0x01, b'a'];

/// Whether it has said that it ends the connection.
fn has_gone_away(said: &[u8]) -> bool {
    let mut rest = said;
    while let [a, b, c, kind, ..] = *rest {
        let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        if kind == 7 {
            return true;
        }
        rest = rest.get(9 + length..).unwrap_or_default();
    }
    false
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn storms_of_resets_and_continuations() {
    let server = Running::start(None, None).await;
    for port in [server.http, server.grpc, server.admin] {
        // Streams that are reset as soon as they are opened.
        let mut resets = PREFACE.to_vec();
        for stream in (1..20_000).step_by(2) {
            resets.extend(frame(1, 4, stream, HEADERS));
            resets.extend(frame(3, 0, stream, &8_u32.to_be_bytes()));
        }
        let said = throw(port, &resets).await;
        assert!(has_gone_away(&said), "resets on {port}: {said:?}");
        // Headers that never end.
        let mut continued = PREFACE.to_vec();
        continued.extend(frame(1, 0, 1, HEADERS));
        for _ in 0..20_000 {
            // A field that is indexed nowhere: x: y.
            continued.extend(frame(9, 0, 1, &[0x00, 0x01, b'x', 0x01, b'y']));
        }
        let said = throw(port, &continued).await;
        assert!(has_gone_away(&said), "continuations on {port}: {said:?}");
        // Fields of one header that are larger than all may be.
        let mut large = PREFACE.to_vec();
        large.extend(frame(1, 0, 1, HEADERS));
        let mut field = vec![0x00, 0x01, b'x', 0x7f, 0x81, 0x7d];
        field.extend(vec![b'y'; 16_128]);
        for _ in 0..40 {
            large.extend(frame(9, 0, 1, &field));
        }
        throw(port, &large).await;
    }
    serves(&server).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_says_little_or_nothing_is_not_waited_for() {
    let server =
        Running::changed(|settings| settings.head_timeout = Duration::from_millis(150)).await;
    for port in [server.http, server.grpc, server.admin] {
        for start in [
            &b""[..],
            b"PRI * HTTP",
            b"GET /readyz HTTP/1.1\r\nhost: lo",
            // A body of which a part never comes. Those of gRPC are streams, which are bounded in number.
            b"POST /v1/check HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{",
        ] {
            if port == server.grpc && start.starts_with(b"POST") {
                continue;
            }
            let mut stream = TcpStream::connect(port).await.expect("it listens");
            stream.write_all(start).await.expect("it reads");
            let mut said = Vec::new();
            let ended =
                tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut said));
            assert!(
                ended.await.is_ok(),
                "{port} waits for the rest of {start:?}"
            );
        }
    }
    serves(&server).await;
    server.stop().await;
}

/// With 10,000 and more by `PLIMSOLL_IDLE`, where so many files may be open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_do_nothing_are_bounded() {
    let most: usize =
        std::env::var("PLIMSOLL_IDLE").map_or(200, |it| it.parse().expect("a number"));
    let server = Running::changed(|settings| settings.max_connections = most).await;
    let mut idle = Vec::new();
    for number in 0..most {
        let port = ports(&server)[number % 4];
        idle.push(TcpStream::connect(port).await.expect("it listens"));
    }
    // One more is closed at once, as soon as the others have been accepted.
    let mut refused = false;
    for _ in 0..500 {
        let mut more = TcpStream::connect(server.resp).await.expect("it listens");
        let _ = more.write_all(b"PING\r\n").await;
        let mut said = [0; 7];
        match tokio::time::timeout(Duration::from_millis(100), more.read(&mut said)).await {
            Ok(Ok(0) | Err(_)) => {
                refused = true;
                break;
            }
            _ => idle.push(more),
        }
    }
    assert!(refused);
    drop(idle);
    for _ in 0..2000 {
        let said = throw(server.resp, b"PING\r\nQUIT\r\n").await;
        if said.starts_with(b"+PONG") {
            break;
        }
    }
    serves(&server).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_too_large_is_refused() {
    let server = Running::start(None, None).await;
    let large = json!({ "limit": "default", "key": "x".repeat(300_000) });
    assert_eq!(post(&server, "/v1/check", large.clone()).await.status, 413);
    let once = "idempotency-key: a\r\n";
    assert_eq!(
        send(server.http, "POST", "/v1/check", Some(&large), once)
            .await
            .status,
        413
    );
    let path = format!("/{}", "x".repeat(200_000));
    let said = throw(
        server.http,
        format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes(),
    )
    .await;
    assert!(
        said.starts_with(b"HTTP/1.1 4"),
        "{}",
        String::from_utf8_lossy(&said)
    );
    let said = throw(
        server.resp,
        format!("*2\r\n$4\r\nECHO\r\n$70000\r\n{}", "x".repeat(70_000)).as_bytes(),
    )
    .await;
    assert!(
        said.starts_with(b"-ERR Protocol error"),
        "{}",
        String::from_utf8_lossy(&said)
    );
    serves(&server).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_when_it_stops_is_answered() {
    let directory = Directory::new();
    let file = directory.0.join("limits.yaml");
    let text = "limits: { slow: { kind: token_bucket, burst: 1, refill: 1, every: 30s, queue: { bound: 10 } } }";
    std::fs::write(&file, text).expect("a file");
    let server = Running::start(file.to_str(), None).await;
    let ask = r#"{"limit":"slow","wait_ms":60000}"#;
    let mut kept = Kept::new(server.http).await;
    assert_eq!(kept.post("/v1/check", ask).await.expect("an answer").0, 200);
    let http = tokio::spawn(async move { kept.post("/v1/check", ask).await });
    let mut kept = Kept::new(server.resp).await;
    let resp = tokio::spawn(async move { kept.five("PLIMSOLL.TAKE slow x").await });
    loop {
        let metrics = send(server.admin, "GET", "/metrics", None, "").await.body;
        if metrics.contains("plimsoll_waiting{limit=\"slow\"} 2\n") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.stop().await;
    let (status, said) = http.await.expect("it runs").expect("an answer");
    assert_eq!(status, 503, "{said}");
    let said = resp
        .await
        .expect("it runs")
        .expect("an answer")
        .expect_err("a refusal");
    assert!(said.contains("this server stops"), "{said}");
}

#[tokio::test]
async fn what_was_done_for_a_key_is_not_done_again() {
    let server = Running::start(None, None).await;
    let lease = json!({ "hold": { "limit": "slots", "key": "a", "cost": 6 } });
    let ask = async |key: &str, body: &serde_json::Value| {
        let field = format!("idempotency-key: {key}\r\n");
        send(server.http, "POST", "/v1/leases", Some(body), &field).await
    };
    let first = ask("one", &lease).await;
    assert_eq!(first.status, 201, "{first:?}");
    let again = ask("one", &lease).await;
    assert_eq!((again.status, &again.body), (201, &first.body));
    assert_eq!(again.field("location"), first.field("location"));
    // For something else the same key is a mistake, and another key is another request.
    let other = json!({ "hold": { "limit": "slots", "key": "b" } });
    assert_eq!(ask("one", &other).await.status, 422);
    assert_eq!(ask("two", &lease).await.status, 429);
    // A refusal is not kept.
    let place = first.field("location").expect("a place").to_owned();
    assert_eq!(
        send(server.http, "DELETE", &place, None, "").await.status,
        204
    );
    assert_eq!(ask("two", &lease).await.status, 201);
    assert_eq!(ask(&"x".repeat(256), &lease).await.status, 400);
    // Schemathesis found that a space within a key was accepted, which the document says is none.
    assert_eq!(ask("a b", &lease).await.status, 400);
    server.stop().await;
}
