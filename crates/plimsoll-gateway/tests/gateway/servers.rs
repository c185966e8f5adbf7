//! Servers that fail: each way has an answer, and servers that fail are left alone.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::TcpSocket;

use super::shapes::{BROKEN_ANSWERS, SHORT_ANSWERS};
use super::*;

/// A port on which nobody listens, nor will while the second is there.
fn nobody() -> (SocketAddr, TcpSocket) {
    let socket = TcpSocket::new_v4().expect("a socket");
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    socket.bind(any).expect("a port");
    (socket.local_addr().expect("an address"), socket)
}

/// A server that counts its requests.
async fn counted(answer: &'static str, count: &Arc<AtomicUsize>) -> SocketAddr {
    let count = Arc::clone(count);
    server(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        async move { text(answer) }
    })
    .await
}

fn pool(servers: &[SocketAddr], more: &str) -> Running {
    Running::start(&format!(
        "gateway:\n  upstreams: {{ app: {{ to: {}, {more} }} }}\n",
        list(servers)
    ))
}

#[tokio::test]
async fn broken_answers() {
    for (what, answer) in BROKEN_ANSWERS {
        let gateway = pool(&[says(*answer).await], "retries: { most: 0 }");
        let answer = gateway.get("/").await;
        assert!(answer.starts_with("HTTP/1.1 502 "), "{what}: {answer}");
        is_problem(&answer, 502, "broken_answer");
        assert_eq!(gateway.counts.fault("broken_answer"), 1, "{what}");
        gateway.at_rest().await;
    }
}

#[tokio::test]
async fn heads_that_are_too_large() {
    let head = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "x".repeat(200_000));
    let gateway = pool(&[says(head).await], "retries: { most: 0 }");
    is_problem(&gateway.get("/").await, 502, "broken_answer");
}

/// The head has been passed on, so all that can be done is to end the connection early: the client sees that something is missing.
#[tokio::test]
async fn answers_that_break_off() {
    for (what, answer) in SHORT_ANSWERS {
        let gateway = Running::to(&[says(*answer).await]);
        let seen = gateway.get("/").await;
        assert!(seen.starts_with("HTTP/1.1 200 OK"), "{what}: {seen}");
        assert!(!seen.ends_with("0\r\n\r\n"), "{what}: {seen}");
        gateway.at_rest().await;
        assert_eq!(gateway.counts.aborted(), 1, "{what}");
    }
}

/// What follows an answer is not taken for the next one.
#[tokio::test]
async fn longer_than_it_says() {
    let server = says("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil").await;
    let gateway = Running::to(&[server]);
    for _ in 0..3 {
        assert!(gateway.get("/").await.ends_with("\r\n\r\nok"));
    }
    // Both lengths: the one that counts is passed on, and the other is not.
    let both = "HTTP/1.1 200 OK\r\ncontent-length: 99\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
    let gateway = Running::to(&[says(both).await]);
    let answer = gateway.get("/").await;
    assert!(
        !answer.contains("99") && answer.ends_with("2\r\nok\r\n0\r\n\r\n"),
        "{answer}"
    );
}

#[tokio::test]
async fn servers_that_hang() {
    let hangs = raw_server(|stream| async move {
        let mut stream = BufReader::new(stream);
        read_head(&mut stream).await;
        std::future::pending::<()>().await;
    })
    .await;
    let gateway = pool(&[hangs], "timeouts: { response: 30ms }");
    is_problem(&gateway.get("/").await, 504, "slow_answer");
    // In the middle of a body.
    let stops = raw_server(|stream| async move {
        let mut stream = BufReader::new(stream);
        read_head(&mut stream).await;
        let _ = stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")
            .await;
        std::future::pending::<()>().await;
    })
    .await;
    let gateway = pool(&[stops], "timeouts: { idle: 30ms }");
    assert!(gateway.get("/").await.ends_with("half"));
    gateway.at_rest().await;
    assert_eq!(gateway.counts.aborted(), 1);
    // A client that stops in the middle of its body.
    let gateway = pool(&[hangs], "timeouts: { idle: 30ms }");
    let answer = gateway
        .raw("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nhalf")
        .await;
    is_problem(&answer, 408, "slow_body");
    gateway.at_rest().await;
}

#[tokio::test]
async fn servers_that_cannot_be_reached() {
    let (nobody, _port) = nobody();
    let gateway = pool(&[nobody], "retries: { most: 0 }");
    is_problem(&gateway.get("/").await, 502, "no_connection");
    let gateway =
        Running::start("gateway:\n  upstreams: { app: { to: \"http://no-such-host.invalid\" } }\n");
    is_problem(&gateway.get("/").await, 502, "no_connection");
}

/// The one with the fewest requests in flight is asked, and those with as many take turns.
#[tokio::test]
async fn requests_go_where_the_fewest_are() {
    let counts: [Arc<AtomicUsize>; 3] = Default::default();
    let mut servers = Vec::new();
    for count in &counts {
        servers.push(counted("ok", count).await);
    }
    let gateway = Running::to(&servers);
    for _ in 0..30 {
        gateway.get("/").await;
    }
    let each: Vec<usize> = counts
        .iter()
        .map(|count| count.load(Ordering::SeqCst))
        .collect();
    assert_eq!(each, [10, 10, 10]);
    // A server that keeps a request gets no more while another has none.
    let (slow, asked) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(tokio::sync::Notify::new()),
    );
    let (count, ask) = (Arc::clone(&slow), Arc::clone(&asked));
    let hangs = server(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        ask.notify_one();
        std::future::pending()
    })
    .await;
    let gateway = Running::to(&[hangs, counted("ok", &counts[0]).await]);
    let held = within(async {
        loop {
            let mut stream = gateway.connect().await;
            stream
                .write_all(get("/").as_bytes())
                .await
                .expect("written");
            tokio::select! {
                () = asked.notified() => return stream,
                _ = stream.readable() => {}
            }
        }
    })
    .await;
    for _ in 0..20 {
        assert!(gateway.get("/").await.ends_with("ok"));
    }
    assert_eq!(slow.load(Ordering::SeqCst), 1);
    drop(held);
    gateway.at_rest().await;
}

#[tokio::test]
async fn a_server_that_fails_is_left_alone() {
    let bad = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&bad);
    let fails = server(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        async {
            let mut answer = text("no");
            *answer.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
            answer
        }
    })
    .await;
    let good = Arc::new(AtomicUsize::new(0));
    let gateway = pool(
        &[fails, counted("ok", &good).await],
        "health: { failures: 3, ejected: 1h, longest: 1h }",
    );
    for _ in 0..40 {
        gateway.get("/").await;
    }
    assert_eq!(bad.load(Ordering::SeqCst), 3);
    assert_eq!(good.load(Ordering::SeqCst), 37);
    assert_eq!(gateway.counts.ejections(), 1);
    // If all fail, they are asked all the same: no answer is worse.
    let gateway = pool(
        &[fails],
        "health: { failures: 1, ejected: 1h, longest: 1h }",
    );
    for _ in 0..3 {
        assert!(gateway.get("/").await.starts_with("HTTP/1.1 500"));
    }
}

#[tokio::test]
async fn requests_that_were_not_sent_go_to_another_server() {
    let good = Arc::new(AtomicUsize::new(0));
    let (nobody, _port) = nobody();
    let gateway = pool(
        &[nobody, counted("ok", &good).await],
        "health: { failures: 2, ejected: 1h, longest: 1h }",
    );
    for _ in 0..20 {
        // Whatever the method: nothing was sent.
        let post = get("/").replace("GET", "POST");
        assert!(gateway.raw(post).await.ends_with("ok"));
    }
    assert_eq!(good.load(Ordering::SeqCst), 20);
    assert_eq!(
        (gateway.counts.retries(), gateway.counts.ejections()),
        (2, 1)
    );
}

#[tokio::test]
async fn only_what_may_be_repeated_is_sent_again() {
    let (hits, good) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&hits);
    let breaks = raw_server(move |stream| {
        let count = Arc::clone(&count);
        async move {
            let mut stream = BufReader::new(stream);
            read_head(&mut stream).await;
            count.fetch_add(1, Ordering::SeqCst);
        }
    })
    .await;
    let gateway = pool(
        &[breaks, counted("ok", &good).await],
        "health: { failures: 1000 }",
    );
    for _ in 0..10 {
        assert!(gateway.get("/").await.ends_with("ok"));
    }
    assert_eq!(gateway.counts.retries(), hits.load(Ordering::SeqCst) as u64);
    let before = gateway.counts.retries();
    let mut failed = 0;
    for _ in 0..10 {
        let post = get("/").replace("GET", "POST");
        failed += usize::from(gateway.raw(post).await.starts_with("HTTP/1.1 502"));
        // A body that was begun is gone.
        let put = "PUT / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 2\r\n\r\nab";
        failed += usize::from(gateway.raw(put).await.starts_with("HTTP/1.1 502"));
    }
    assert!(failed > 0);
    assert_eq!(gateway.counts.retries(), before);
}

#[tokio::test]
async fn retries_have_a_budget() {
    let breaks = says("").await;
    let also = says("").await;
    let gateway = pool(
        &[breaks, also],
        "retries: { percent: 20%, least: 0 }, health: { failures: 1000000 }",
    );
    for _ in 0..200 {
        assert!(gateway.get("/").await.starts_with("HTTP/1.1 502"));
    }
    let retries = gateway.counts.retries();
    assert!((30..=40).contains(&retries), "{retries}");
}
