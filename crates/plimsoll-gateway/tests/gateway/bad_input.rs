//! Requests that are malformed, or that others would read differently.

use super::*;

async fn gateway() -> Running {
    let server = server(|request| async move {
        let body = request.into_body().collect().await;
        text(format!(
            "{} bytes",
            body.map_or(0, |body| body.to_bytes().len())
        ))
    })
    .await;
    Running::start(&format!(
        "gateway:\n  max_body: 64KiB\n  upstreams: {{ app: {{ to: {} }} }}\n",
        list(&[server])
    ))
}

/// What is sent, and what is answered: a status with the word of a fault.
const TABLE: &[(&str, &str, u16, &str)] = &[
    (
        "both lengths",
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
        "both_lengths",
    ),
    (
        "both lengths, the other way round",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n0\r\n\r\n",
        400,
        "both_lengths",
    ),
    (
        "two lengths",
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        400,
        "bad_head",
    ),
    (
        "a list of lengths",
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1, 2\r\n\r\nab",
        400,
        "bad_head",
    ),
    (
        "a negative length",
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n",
        400,
        "bad_head",
    ),
    (
        "a length with a sign",
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: +1\r\n\r\na",
        400,
        "bad_head",
    ),
    (
        "an encoding that does not end in chunks",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip\r\n\r\n",
        400,
        "bad_head",
    ),
    (
        "an encoding hidden by a space",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding : chunked\r\n\r\n",
        400,
        "bad_head",
    ),
    (
        "chunks in HTTP/1.0",
        "POST / HTTP/1.0\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
        "bad_head",
    ),
    (
        "a folded line",
        "GET / HTTP/1.1\r\nhost: a\r\nx: 1\r\n 2\r\n\r\n",
        400,
        "bad_head",
    ),
    (
        "line feeds alone",
        "GET / HTTP/1.1\nhost: a\n\n",
        400,
        "bare_line_feed",
    ),
    (
        "one line feed alone",
        "GET / HTTP/1.1\r\nhost: a\nx: 1\r\n\r\n",
        400,
        "bare_line_feed",
    ),
    (
        "a carriage return in a value",
        "GET / HTTP/1.1\r\nhost: a\r\nx: 1\r2\r\n\r\n",
        400,
        "bad_head",
    ),
    (
        "a zero in a value",
        "GET / HTTP/1.1\r\nhost: a\r\nx: 1\0\r\n\r\n",
        400,
        "bad_head",
    ),
    (
        "no name",
        "GET / HTTP/1.1\r\nhost: a\r\n: 1\r\n\r\n",
        400,
        "bad_head",
    ),
    (
        "a space in a name",
        "GET / HTTP/1.1\r\nhost: a\r\nx y: 1\r\n\r\n",
        400,
        "bad_head",
    ),
    ("no host", "GET / HTTP/1.1\r\n\r\n", 400, "bad_host"),
    (
        "two hosts",
        "GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
        400,
        "bad_host",
    ),
    (
        "a host that is none",
        "GET / HTTP/1.1\r\nhost: a b\r\n\r\n",
        400,
        "bad_host",
    ),
    (
        "a host with a user",
        "GET / HTTP/1.1\r\nhost: u@a\r\n\r\n",
        400,
        "bad_host",
    ),
    ("no version", "GET /\r\n\r\n", 400, "bad_head"),
    (
        "another version",
        "GET / HTTP/3.0\r\nhost: a\r\n\r\n",
        400,
        "bad_head",
    ),
    ("garbage", "\x16\x03\x01\x02\r\n\r\n", 400, "bad_head"),
    (
        "a tunnel",
        "CONNECT a:443 HTTP/1.1\r\nhost: a:443\r\n\r\n",
        405,
        "connect",
    ),
    (
        "a length that is too large",
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 65537\r\n\r\n",
        413,
        "body_too_large",
    ),
    (
        "a chunk without a size",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nx\r\n\r\n",
        400,
        "bad_body",
    ),
    (
        "a chunk longer than its size",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
        400,
        "bad_body",
    ),
    (
        "a chunk whose line ends in a line feed",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n1\na\n0\n\n",
        400,
        "bad_body",
    ),
    (
        "a size that overflows",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
        400,
        "bad_body",
    ),
];

#[tokio::test]
async fn each_has_an_answer_and_is_counted_once() {
    let gateway = gateway().await;
    for (what, request, status, fault) in TABLE {
        let before = gateway.counts.fault(fault);
        let answer = gateway.raw(request).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{what}: {answer:?}"
        );
        is_problem(&answer, *status, fault);
        assert_eq!(answer.matches("HTTP/1.").count(), 1, "{what}: {answer}");
        assert_eq!(gateway.counts.fault(fault), before + 1, "{what}");
    }
    gateway.at_rest().await;
    assert!(gateway.get("/").await.ends_with("0 bytes"));
    let all: u64 = gateway.counts.faults().map(|(_, count)| count).sum();
    assert_eq!(all, TABLE.len() as u64);
    assert!(
        gateway
            .counts
            .to_prometheus()
            .contains("plimsoll_gateway_faults_total{fault=\"both_lengths\"} 2\n")
    );
}

#[tokio::test]
async fn enormous_heads() {
    let gateway = gateway().await;
    let long = "x".repeat(100_000);
    let fields = gateway
        .raw(format!("GET / HTTP/1.1\r\nhost: a\r\nx: {long}\r\n\r\n"))
        .await;
    is_problem(&fields, 431, "head_too_large");
    let many: String = (0..200)
        .map(|number| format!("x-{number}: 1\r\n"))
        .collect();
    let many = gateway
        .raw(format!("GET / HTTP/1.1\r\nhost: a\r\n{many}\r\n"))
        .await;
    is_problem(&many, 431, "head_too_large");
    let target = gateway
        .raw(format!(
            "GET /{} HTTP/1.1\r\nhost: a\r\n\r\n",
            "x".repeat(65_530)
        ))
        .await;
    assert!(target.starts_with("HTTP/1.1 4"), "{target}");
}

#[tokio::test]
async fn a_body_that_turns_out_too_large() {
    let gateway = gateway().await;
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(65_536));
    let head =
        "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n";
    let fits = gateway.raw(format!("{head}{chunk}0\r\n\r\n")).await;
    assert!(fits.ends_with("65536 bytes"), "{fits}");
    let answer = gateway
        .raw(format!("{head}{chunk}1\r\nx\r\n0\r\n\r\n"))
        .await;
    is_problem(&answer, 413, "body_too_large");
}

/// What is smuggled inside of a body stays a body.
#[tokio::test]
async fn nothing_is_smuggled() {
    let gateway = gateway().await;
    let inner = "GET /admin HTTP/1.1\r\nhost: a\r\n\r\n";
    let length = inner.len();
    let answer = gateway
        .raw(format!("POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{inner}"))
        .await;
    assert!(answer.ends_with(&format!("{length} bytes")), "{answer}");
    // A request that follows another on the same connection is looked at as well.
    let answer = gateway
        .raw("GET / HTTP/1.1\r\nhost: a\r\n\r\nPOST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n")
        .await;
    assert!(
        !answer.contains("HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200"),
        "{answer}"
    );
    assert_eq!(gateway.counts.fault("both_lengths"), 1);
}
