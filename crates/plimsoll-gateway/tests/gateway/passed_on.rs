//! What passes: heads, bodies, trailers and interim responses.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;

use super::*;

/// A body that is sent part by part.
fn parts() -> (mpsc::Sender<Frame<Bytes>>, BoxBody<Bytes, Infallible>) {
    let (send, mut receive) = mpsc::channel(1);
    let stream = futures(move |cx| receive.poll_recv(cx).map(|frame| frame.map(Ok)));
    (send, StreamBody::new(stream).boxed())
}

fn futures<T>(
    poll: impl FnMut(&mut std::task::Context<'_>) -> std::task::Poll<Option<T>>,
) -> impl futures_core::Stream<Item = T> {
    struct Polled<F>(F);
    impl<T, F> futures_core::Stream for Polled<F>
    where
        F: FnMut(&mut std::task::Context<'_>) -> std::task::Poll<Option<T>> + Unpin,
    {
        type Item = T;
        fn poll_next(
            mut self: std::pin::Pin<&mut Self>,
            cx: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<T>> {
            (self.0)(cx)
        }
    }
    Polled(Box::new(poll))
}

/// Answers with the head of the request as text.
async fn head_of(request: Request<Incoming>) -> Answer {
    let mut lines = format!("{} {}\n", request.method(), request.uri());
    for (name, value) in request.headers() {
        lines += &format!("{name}: {}\n", value.to_str().expect("text"));
    }
    text(lines)
}

#[tokio::test]
async fn heads_pass_without_what_belongs_to_a_connection() {
    let gateway = Running::to(&[server(head_of).await]);
    let answer = gateway
        .raw(
            "GET /a?b=c HTTP/1.1\r\nhost: a.example\r\nconnection: close, x-hop\r\nx-hop: 1\r\nx-end: 2\r\n\
             keep-alive: 5\r\nte: trailers\r\nx-forwarded-for: 10.9.9.9\r\nforwarded: for=10.9.9.9\r\nvia: 1.0 first\r\n\r\n",
        )
        .await;
    let (_, said) = answer.split_once("\r\n\r\n").expect("a body");
    for wanted in [
        "GET /a?b=c\n",
        "host: a.example\n",
        "x-end: 2\n",
        "te: trailers\n",
        "via: 1.0 first\n",
        "via: 1.1 plimsoll\n",
        "x-forwarded-for: 127.0.0.1\n",
        "x-forwarded-proto: http\n",
        "x-forwarded-host: a.example\n",
        "forwarded: for=127.0.0.1;proto=http;host=\"a.example\"\n",
    ] {
        assert!(said.contains(wanted), "{wanted}{said}");
    }
    for gone in ["x-hop", "connection", "keep-alive", "10.9.9.9"] {
        assert!(!said.contains(gone), "{gone}\n{said}");
    }
    assert!(answer.contains("via: 1.1 plimsoll\r\n"), "{answer}");
}

#[tokio::test]
async fn targets_of_other_forms() {
    let gateway = Running::to(&[server(head_of).await]);
    let close = "connection: close\r\n\r\n";
    let absolute = gateway
        .raw(format!(
            "GET http://b.example/x HTTP/1.1\r\nhost: a\r\n{close}"
        ))
        .await;
    assert!(
        absolute.contains("GET /x\n") && absolute.contains("host: b.example\n"),
        "{absolute}"
    );
    let star = gateway
        .raw(format!("OPTIONS * HTTP/1.1\r\nhost: a\r\n{close}"))
        .await;
    assert!(star.contains("OPTIONS *\n"), "{star}");
    let old = gateway.raw("GET / HTTP/1.0\r\n\r\n").await;
    assert!(
        old.starts_with("HTTP/1.0 200") && old.contains("via: 1.0 plimsoll\n"),
        "{old}"
    );
}

#[tokio::test]
async fn who_a_trusted_proxy_forwards_for_is_believed() {
    let server = server(head_of).await;
    let gateway = Running::start(&format!(
        "proxies: [127.0.0.1]\ngateway:\n  upstreams: {{ app: {{ to: {} }} }}\n",
        list(&[server])
    ));
    let request = get("/").replace(
        "host:",
        "x-forwarded-for: 192.0.2.9\r\nx-forwarded-proto: https\r\nhost:",
    );
    let answer = gateway.raw(request).await;
    assert!(
        answer.contains("x-forwarded-for: 192.0.2.9, 127.0.0.1\n"),
        "{answer}"
    );
    assert!(answer.contains("x-forwarded-proto: https\n"), "{answer}");
}

#[tokio::test]
async fn answers_without_a_body() {
    let server = server(|request| async move {
        let length = if request.uri() == "/head" { "5" } else { "0" };
        let mut answer = Response::new(http_body_util::Empty::new().boxed());
        if request.uri() == "/204" {
            *answer.status_mut() = http::StatusCode::NO_CONTENT;
        } else {
            answer
                .headers_mut()
                .insert("content-length", HeaderValue::from_static(length));
        }
        answer
    })
    .await;
    let gateway = Running::to(&[server]);
    let head = gateway.raw(get("/head").replace("GET", "HEAD")).await;
    assert!(
        head.contains("content-length: 5\r\n") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
    let none = gateway.get("/204").await;
    assert!(
        none.starts_with("HTTP/1.1 204") && none.ends_with("\r\n\r\n"),
        "{none}"
    );
    assert!(!none.contains("content-length"), "{none}");
}

#[tokio::test]
async fn connections_to_servers_are_used_again() {
    let connections = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    let server = raw_server(move |stream| {
        count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        async move {
            let mut stream = BufReader::new(stream);
            while read_head(&mut stream).await.ends_with("\r\n\r\n") {
                let answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
                stream.write_all(answer.as_bytes()).await.expect("written");
            }
        }
    })
    .await;
    let gateway = Running::to(&[server]);
    for _ in 0..20 {
        assert!(gateway.get("/").await.ends_with("ok"));
    }
    assert_eq!(connections.load(std::sync::atomic::Ordering::SeqCst), 1);
}

#[tokio::test]
async fn bodies_are_passed_on_as_they_come_in_both_directions() {
    // The server sends back each part of the request as soon as it has it.
    let server = server(|request| async move {
        let (send, body) = parts();
        tokio::spawn(async move {
            let mut incoming = request.into_body();
            while let Some(Ok(frame)) = incoming.frame().await {
                if send.send(frame).await.is_err() {
                    break;
                }
            }
        });
        let mut answer = Response::new(body);
        answer
            .headers_mut()
            .insert("trailer", HeaderValue::from_static("x-sum"));
        answer
    })
    .await;
    let gateway = Running::to(&[server]);
    let mut stream = BufReader::new(gateway.connect().await);
    let head = "POST / HTTP/1.1\r\nhost: a\r\nte: trailers\r\ntrailer: x-sum\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await.expect("written");
    let mut answered = false;
    for _ in 0..5 {
        stream.write_all(b"3\r\nabc\r\n").await.expect("written");
        if !answered {
            let head = read_head(&mut stream).await;
            assert!(head.contains("transfer-encoding: chunked"), "{head}");
            answered = true;
        }
        let mut part = [0; 8];
        within(stream.read_exact(&mut part)).await.expect("a part");
        assert_eq!(&part, b"3\r\nabc\r\n");
    }
    stream
        .write_all(b"0\r\nx-sum: 15\r\n\r\n")
        .await
        .expect("written");
    let mut rest = [0; 16];
    within(stream.read_exact(&mut rest))
        .await
        .expect("trailers");
    assert_eq!(&rest, b"0\r\nx-sum: 15\r\n\r\n");
}

#[tokio::test]
async fn trailers_of_an_answer() {
    let server = server(|_| async {
        let (send, body) = parts();
        tokio::spawn(async move {
            let _ = send.send(Frame::data(Bytes::from_static(b"body"))).await;
            let trailers =
                HeaderMap::from_iter([("x-sum".parse().expect("a name"), HeaderValue::from(4))]);
            let _ = send.send(Frame::trailers(trailers)).await;
        });
        let mut answer = Response::new(body);
        answer
            .headers_mut()
            .insert("trailer", HeaderValue::from_static("x-sum"));
        answer
    })
    .await;
    let gateway = Running::to(&[server]);
    let answer = gateway
        .raw(get("/").replace("host", "te: trailers\r\nhost"))
        .await;
    assert!(
        answer.ends_with("4\r\nbody\r\n0\r\nx-sum: 4\r\n\r\n"),
        "{answer}"
    );
}

#[tokio::test]
async fn interim_responses_come_before_the_answer() {
    let server = says(
        "HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\nconnection: x\r\n\r\n\
         HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
    )
    .await;
    let gateway = Running::to(&[server]);
    let answer = gateway.get("/").await;
    let wanted = "HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\n";
    assert!(answer.starts_with(wanted), "{answer}");
    assert!(answer.ends_with("ok"), "{answer}");
    // A client of HTTP/1.0 would not understand them.
    let answer = gateway.raw("GET / HTTP/1.0\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.0 200 OK\r\n"), "{answer}");
}

#[tokio::test]
async fn interim_responses_are_sent_at_once() {
    let (go, mut wait) = mpsc::channel::<()>(1);
    let waits = Arc::new(tokio::sync::Mutex::new(()));
    let server = {
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = Arc::new(tokio::sync::Mutex::new(Some(stopped)));
        tokio::spawn(async move {
            wait.recv().await;
            let _ = stop.send(());
        });
        raw_server(move |stream| {
            let (stopped, _waits) = (Arc::clone(&stopped), Arc::clone(&waits));
            async move {
                let mut stream = BufReader::new(stream);
                read_head(&mut stream).await;
                stream
                    .write_all(b"HTTP/1.1 103 Early Hints\r\n\r\n")
                    .await
                    .expect("written");
                if let Some(stopped) = stopped.lock().await.take() {
                    let _ = stopped.await;
                }
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                stream.write_all(answer).await.expect("written");
            }
        })
        .await
    };
    let gateway = Running::to(&[server]);
    let mut stream = BufReader::new(gateway.connect().await);
    stream
        .write_all(get("/").as_bytes())
        .await
        .expect("written");
    assert_eq!(
        read_head(&mut stream).await,
        "HTTP/1.1 103 Early Hints\r\n\r\n"
    );
    go.send(()).await.expect("the server waits");
    assert!(read_head(&mut stream).await.starts_with("HTTP/1.1 200 OK"));
}

const UPLOAD: &str = "POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 3\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn the_server_says_whether_to_continue() {
    // It wants the body.
    let wants = raw_server(|stream| async move {
        let mut stream = BufReader::new(stream);
        let head = read_head(&mut stream).await;
        assert!(head.contains("expect: 100-continue"), "{head}");
        stream
            .write_all(b"HTTP/1.1 100 Continue\r\n\r\n")
            .await
            .expect("written");
        let mut body = [0; 3];
        stream.read_exact(&mut body).await.expect("a body");
        let _ = stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            .await;
    })
    .await;
    let gateway = Running::to(&[wants]);
    let mut stream = BufReader::new(gateway.connect().await);
    stream.write_all(UPLOAD.as_bytes()).await.expect("written");
    assert_eq!(
        read_head(&mut stream).await,
        "HTTP/1.1 100 Continue\r\n\r\n"
    );
    stream.write_all(b"abc").await.expect("written");
    assert!(read_head(&mut stream).await.starts_with("HTTP/1.1 200"));
    // It does not: the client is never asked for it.
    let gateway = Running::to(&[says("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n").await]);
    let answer = gateway.raw(UPLOAD).await;
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
}
