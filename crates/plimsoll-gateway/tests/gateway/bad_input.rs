//! Requests that are malformed, or that others would read differently.

use super::shapes::REQUESTS;
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

#[tokio::test]
async fn each_has_an_answer_and_is_counted_once() {
    let gateway = gateway().await;
    for (what, request, status, fault) in REQUESTS {
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
    assert_eq!(all, REQUESTS.len() as u64);
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
