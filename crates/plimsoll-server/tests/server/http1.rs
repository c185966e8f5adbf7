//! The fast path of HTTP/1.1 answers as the general server does.

use std::net::SocketAddr;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::Running;

/// A check with these header fields and this body.
fn check(fields: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n{fields}content-length: {length}\r\n\r\n{body}"
    )
}

/// So many answers to these pieces, each of which is a packet of its own; fewer if the server closes before.
async fn answers(to: SocketAddr, pieces: &[&[u8]], count: usize) -> Vec<String> {
    let mut stream = TcpStream::connect(to).await.expect("it listens");
    stream.set_nodelay(true).expect("a socket");
    for piece in pieces {
        // It may have closed already.
        let _ = stream.write_all(piece).await;
        tokio::task::yield_now().await;
    }
    let mut stream = BufReader::new(stream);
    let mut answers = Vec::new();
    while answers.len() < count {
        let (mut answer, mut length) = (String::new(), 0);
        while !answer.ends_with("\r\n\r\n") {
            let begins = answer.len();
            if stream.read_line(&mut answer).await.unwrap_or(0) == 0 {
                assert_eq!(answer, "", "an answer ends early");
                return answers;
            }
            if let Some(digits) = answer[begins..].strip_prefix("content-length: ") {
                length = digits.trim().parse().expect("a length");
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.expect("a body");
        answer.push_str(std::str::from_utf8(&body).expect("text"));
        answers.push(answer);
    }
    answers
}

async fn one_answer(to: SocketAddr, request: &str) -> String {
    let mut answers = answers(to, &[request.as_bytes()], 1).await;
    answers.pop().expect("an answer")
}

/// An answer without what differs between two of the same: what is counted, dates, and the order of fields.
fn alike(text: &str) -> Vec<String> {
    let text: String = text.chars().filter(|it| !it.is_ascii_digit()).collect();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.retain(|line| !line.starts_with("date:") && !line.starts_with("connection:"));
    lines.sort();
    lines
}

/// Bodies of all kinds of answers.
const BODIES: [&str; 9] = [
    r#"{"limit":"default","key":"a"}"#,
    r#"{"limit":"default","key":"b","cost":1000000}"#,
    r#"{"checks":[{"limit":"default","key":"c"},{"limit":"default","key":"d"}]}"#,
    r#"{"limit":"default","key":"e","wait_ms":1}"#,
    r#"{"limit":"nothing","key":"a"}"#,
    r#"{"limti":"default"}"#,
    r#"{"limit":"#,
    "",
    "[]",
];

#[tokio::test]
async fn the_answer_is_the_same_whichever_way_it_comes() {
    for token in [None, Some("secret")] {
        let server = Running::start(None, token).await;
        for body in BODIES {
            for said in ["", "authorization: Bearer secret\r\n"] {
                let short = one_answer(server.http, &check(said, body)).await;
                let closing = format!("{said}connection: close\r\n");
                let long = one_answer(server.http, &check(&closing, body)).await;
                assert!(short.starts_with("HTTP/1.1 "), "{body}: {short}");
                assert!(short.contains("\r\ndate: "), "{body}: {short}");
                assert_eq!(alike(&short), alike(&long), "{body}");
            }
        }
        server.stop().await;
    }
}

#[tokio::test]
async fn where_a_request_ends_is_never_guessed() {
    let server = Running::start(None, None).await;
    let body = r#"{"limit":"default","key":"a"}"#;
    let plain = check("", body);
    let bad = [
        plain.replace(
            "content-length",
            "transfer-encoding: chunked\r\ncontent-length",
        ),
        plain.replace("content-length: ", "content-length: 3\r\ncontent-length: "),
        plain.replace("content-length: ", "content-length: +"),
        plain.replace("content-length: ", "content-length: -"),
        plain.replace("content-length: ", "content-length: 99999999999999999999"),
        plain.replace("content-length: ", "content-length : "),
        plain.replace("host: a", "host: a\r\n b"),
        plain.replace("HTTP/1.1", "HTTP/1.2"),
    ];
    for bad in bad {
        let alone = one_answer(server.http, &bad).await;
        assert!(!alone.starts_with("HTTP/1.1 200 "), "{bad}: {alone}");
        // The first is answered, the second as if it were alone, and nothing after it.
        let pieces = [plain.as_bytes(), bad.as_bytes(), plain.as_bytes()];
        let all = answers(server.http, &[&pieces.concat()], 3).await;
        assert!(all[0].starts_with("HTTP/1.1 200 "), "{bad}: {all:?}");
        assert_eq!(alike(&all[1]), alike(&alone), "{bad}");
        assert_eq!(all.len(), 2, "{bad}: {all:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_connection_that_is_idle_is_closed_when_the_server_stops() {
    let server = Running::start(None, None).await;
    let mut stream = TcpStream::connect(server.http).await.expect("it listens");
    let asked = check("", BODIES[0]);
    stream
        .write_all(asked.as_bytes())
        .await
        .expect("it is open");
    let mut seen = [0; 15];
    stream.read_exact(&mut seen).await.expect("an answer");
    assert_eq!(&seen, b"HTTP/1.1 200 OK");
    server.stop().await;
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.expect("an end");
    assert!(rest.ends_with('}'), "{rest}");
}

/// However a client's requests are cut into packets, each is answered once, in order.
#[test]
fn packets_do_not_matter() {
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }.enable_all().worker_threads(2).build();
    let runtime = runtime.expect("a runtime");
    // All cases share its keys: none of them may use them up.
    let file = std::env::temp_dir().join(format!("plimsoll-http1-{}.yaml", std::process::id()));
    let text = "limits: { default: { rate: 1000000/s, burst: 100000, key: client } }";
    std::fs::write(&file, text).expect("a file");
    let server = runtime.block_on(Running::start(file.to_str(), None));
    let to = server.http;
    let request = prop_oneof![
        4 => (0..BODIES.len()).prop_map(|at| check("", BODIES[at])),
        1 => Just("GET /openapi.json HTTP/1.1\r\nhost: a\r\n\r\n".to_owned()),
        1 => Just(check("idempotency-key: same\r\n", BODIES[0])),
        1 => Just(check("connection: keep-alive\r\n", BODIES[0])),
    ];
    let requests = prop::collection::vec(request, 1..6);
    let cuts = prop::collection::vec(any::<prop::sample::Index>(), 0..6);
    let mut runner = TestRunner::new(Config {
        cases: 64,
        failure_persistence: None,
        ..Config::default()
    });
    let tried = runner.run(&(requests, cuts), |(requests, cuts)| {
        let status = |answer: &String| answer[..12].to_owned();
        let expected: Vec<String> = requests
            .iter()
            .map(|request| status(&runtime.block_on(one_answer(to, request))))
            .collect();
        let all = requests.concat();
        let mut at: Vec<usize> = cuts.iter().map(|it| it.index(all.len())).collect();
        at.extend([0, all.len()]);
        at.sort_unstable();
        let pieces: Vec<&[u8]> = at
            .windows(2)
            .map(|it| &all.as_bytes()[it[0]..it[1]])
            .collect();
        let answers = runtime.block_on(answers(to, &pieces, requests.len()));
        let statuses: Vec<String> = answers.iter().map(status).collect();
        prop_assert_eq!(statuses, expected, "{:?}", answers);
        Ok(())
    });
    tried.unwrap_or_else(|error| panic!("{error}"));
    runtime.block_on(server.stop());
    let _ = std::fs::remove_file(&file);
}
