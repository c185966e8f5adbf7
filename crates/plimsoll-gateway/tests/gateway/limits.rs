//! Limits before servers.

use std::sync::Mutex;

use tokio::sync::{Semaphore, mpsc};

use super::*;

pub(crate) fn limited(servers: &[SocketAddr], limits: &str, route: &str) -> Running {
    Running::start(&format!(
        "gateway:\n  upstreams: {{ app: {{ to: {} }} }}\nlimits: {limits}\nroutes: [{{ match: /**, limits: {route} }}]\n",
        list(servers)
    ))
}

/// How much of a limit is in use, of all keys together.
pub(crate) fn in_use(limits: &Limits, name: &str) -> u64 {
    let views = limits.snapshot();
    views
        .iter()
        .find(|view| view.name == name)
        .expect("a limit")
        .snapshot
        .in_use()
}

/// Waits until nothing of a limit is in use.
pub(crate) async fn returned(gateway: &Running, name: &str) {
    within(async {
        while in_use(&gateway.limits, name) != 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// A server that answers when it is let to, and tells of each request that has come.
pub(crate) async fn held() -> (SocketAddr, Arc<Semaphore>, mpsc::UnboundedReceiver<String>) {
    let go = Arc::new(Semaphore::new(0));
    let (say, came) = mpsc::unbounded_channel();
    let may = Arc::clone(&go);
    let address = server(move |request| {
        let (may, say) = (Arc::clone(&may), say.clone());
        async move {
            let _ = say.send(request.uri().path().to_owned());
            may.acquire().await.expect("open").forget();
            text("ok")
        }
    })
    .await;
    (address, go, came)
}

#[tokio::test]
async fn a_rate_by_client() {
    let gateway = limited(
        &[says("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await],
        "{ slow: { rate: 2/h, burst: 2, key: client } }",
        "[slow]",
    );
    for _ in 0..2 {
        assert!(gateway.get("/").await.ends_with("ok"));
    }
    let refused = gateway.get("/").await;
    assert!(
        refused.starts_with("HTTP/1.1 429 Too Many Requests\r\n"),
        "{refused}"
    );
    for field in [
        "retry-after: ",
        "ratelimit: ",
        "ratelimit-policy: ",
        "content-type: application/problem+json\r\n",
    ] {
        assert!(refused.contains(field), "{field} {refused}");
    }
    // It never reached a server.
    assert_eq!(gateway.counts.requests(), 2);
}

/// Who may say for whom it asks is said in the file; others are counted as themselves.
#[tokio::test]
async fn nobody_talks_himself_out_of_a_limit() {
    let gateway = limited(
        &[says("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await],
        "{ slow: { rate: 1/h, key: client } }",
        "[slow]",
    );
    let claims =
        |address: &str| get("/").replace("host:", &format!("x-forwarded-for: {address}\r\nhost:"));
    assert!(
        gateway
            .raw(claims("192.0.2.1"))
            .await
            .starts_with("HTTP/1.1 200")
    );
    assert!(
        gateway
            .raw(claims("192.0.2.2"))
            .await
            .starts_with("HTTP/1.1 429")
    );
}

#[tokio::test]
async fn a_slot_is_held_until_the_body_has_ended() {
    let (go, wait) = oneshot::channel::<()>();
    let wait = Arc::new(Mutex::new(Some(wait)));
    let server = raw_server(move |stream| {
        let wait = wait.lock().expect("not poisoned").take();
        async move {
            let mut stream = BufReader::new(stream);
            read_head(&mut stream).await;
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nab")
                .await;
            if let Some(wait) = wait {
                let _ = wait.await;
            }
            let _ = stream.write_all(b"cd").await;
        }
    })
    .await;
    let gateway = limited(&[server], "{ slots: { concurrency: 1 } }", "[slots]");
    let mut first = BufReader::new(gateway.connect().await);
    first.write_all(get("/").as_bytes()).await.expect("written");
    assert!(read_head(&mut first).await.starts_with("HTTP/1.1 200"));
    let refused = gateway.get("/").await;
    assert!(
        refused.starts_with("HTTP/1.1 503 ") && refused.contains("problem+json"),
        "{refused}"
    );
    go.send(()).expect("it waits");
    let mut body = Vec::new();
    within(first.read_to_end(&mut body)).await.expect("a body");
    assert_eq!(body, b"abcd");
    returned(&gateway, "slots").await;
    assert!(gateway.get("/").await.ends_with("abcd"));
}

#[tokio::test]
async fn a_slot_comes_back_when_a_client_hangs_up() {
    let (server, _go, mut came) = held().await;
    let gateway = limited(
        &[server],
        "{ slots: { concurrency: 1, key: header:x-user } }",
        "[slots]",
    );
    for _ in 0..5 {
        let mut stream = gateway.connect().await;
        let request = get("/").replace("host:", "x-user: anna\r\nhost:");
        stream.write_all(request.as_bytes()).await.expect("written");
        within(came.recv()).await.expect("it came");
        let refused = gateway.raw(&request).await;
        assert!(refused.starts_with("HTTP/1.1 429"), "{refused}");
        drop(stream);
        returned(&gateway, "slots").await;
        gateway.at_rest().await;
    }
}

/// One limit with a queue before the whole pool: who matters more is served first, and who waits too long is refused.
#[tokio::test]
async fn a_queue_with_priorities_before_the_pool() {
    let (server, go, mut came) = held().await;
    let limits = "{ slots: { concurrency: 1, queue: { bound: 10, timeout: 20s }, priority: header:x-priority } }";
    let gateway = limited(&[server], limits, "[slots]");
    let mut streams = Vec::new();
    for (index, (path, priority)) in [
        ("/first", "normal"),
        ("/low", "non-critical"),
        ("/mid", "normal"),
        ("/high", "critical"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut stream = gateway.connect().await;
        let request = get(path).replace("host:", &format!("x-priority: {priority}\r\nhost:"));
        stream.write_all(request.as_bytes()).await.expect("written");
        if index == 0 {
            assert_eq!(within(came.recv()).await.as_deref(), Some("/first"));
        } else {
            let waiting = || gateway.limits.snapshot()[0].snapshot.waiters();
            within(async {
                while waiting() < index as u64 {
                    tokio::task::yield_now().await;
                }
            })
            .await;
        }
        streams.push(stream);
    }
    let mut order = Vec::new();
    for _ in 0..3 {
        go.add_permits(1);
        order.push(within(came.recv()).await.expect("one more"));
    }
    assert_eq!(order, ["/high", "/mid", "/low"]);
    go.add_permits(1);
    // Nobody waits for ever.
    let limits = "{ slots: { concurrency: 1, queue: { bound: 10, timeout: 20ms } } }";
    let gateway = limited(&[server], limits, "[slots]");
    let mut stream = gateway.connect().await;
    stream
        .write_all(get("/").as_bytes())
        .await
        .expect("written");
    within(came.recv()).await.expect("it came");
    assert!(gateway.get("/").await.starts_with("HTTP/1.1 503"));
}

#[tokio::test]
async fn a_limit_in_shadow_refuses_nobody() {
    let gateway = limited(
        &[says("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await],
        "{ slow: { rate: 1/h, mode: shadow } }",
        "[slow]",
    );
    for _ in 0..3 {
        assert!(gateway.get("/").await.ends_with("ok"));
    }
    assert_eq!(gateway.limits.snapshot()[0].would_refuse, 2);
}

/// Who is refused is not asked for a body.
#[tokio::test]
async fn a_request_is_admitted_before_its_body_is_asked_for() {
    let (server, _go, mut came) = held().await;
    let gateway = limited(&[server], "{ slots: { concurrency: 1 } }", "[slots]");
    let mut first = gateway.connect().await;
    first.write_all(get("/").as_bytes()).await.expect("written");
    within(came.recv()).await.expect("it came");
    let upload = "POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 3\r\nconnection: close\r\n\r\n";
    let answer = gateway.raw(upload).await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
}

#[tokio::test]
async fn routes_lead_to_pools() {
    let (one, two) = (
        server(|_| async { text("one") }).await,
        server(|_| async { text("two") }).await,
    );
    let gateway = Running::start(&format!(
        "gateway:\n  upstreams:\n    one: {{ to: \"http://{one}\" }}\n    two: {{ to: \"http://{two}\", host: two.example }}\n\
         limits: {{ slow: {{ rate: 1/h }} }}\nroutes:\n  - {{ match: /two/**, to: two }}\n  - {{ match: /slow, limits: [slow] }}\n"
    ));
    assert!(gateway.get("/").await.ends_with("one"));
    assert!(gateway.get("/two/x").await.ends_with("two"));
    assert!(gateway.get("/slow").await.ends_with("one"));
    assert!(gateway.get("/slow").await.starts_with("HTTP/1.1 429"));
    assert!(gateway.get("/two").await.ends_with("two"));
}

const WHOLE: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{\"choices\":[],\"usage\":{\"total_tokens\":400}}";
const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n\
    data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":null}\n\ndata: {\"choices\":[],\"usage\":{\"total_tokens\":400}}\n\ndata: [DONE]\n\n";

/// What an answer used is charged when it is known, whole or streamed. An estimate counts until then.
#[tokio::test]
async fn tokens_of_an_answer_are_charged() {
    const LIMITS: &str = "{ tokens: { rate: 1000/h, burst: 1000, key: header:authorization, cost: { estimate: json:/max_tokens, actual: usage } } }";
    let ask = |user: &str, tokens: u64| {
        let body = format!("{{\"max_tokens\":{tokens}}}");
        format!(
            "POST /v1/chat HTTP/1.1\r\nhost: a\r\nauthorization: {user}\r\naccept-encoding: gzip\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let status = |answer: &str| answer.split(' ').nth(1).unwrap_or_default().to_owned();
    for answer in [WHOLE, STREAM] {
        let gateway = limited(&[says(answer).await], LIMITS, "[tokens]");
        assert_eq!(status(&gateway.raw(ask("anna", 1000)).await), "200");
        // 600 are left, though 1,000 were taken.
        assert_eq!(status(&gateway.raw(ask("anna", 601)).await), "429");
        assert_eq!(status(&gateway.raw(ask("anna", 600)).await), "200");
        assert_eq!(status(&gateway.raw(ask("anna", 200)).await), "200");
        // It asked for 200 and used 400: the rest is a debt.
        assert_eq!(status(&gateway.raw(ask("anna", 1)).await), "429");
        assert_eq!(status(&gateway.raw(ask("bert", 1000)).await), "200");
    }
    // What says nothing costs what was taken for it; what the server refuses costs nothing.
    let silent = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {}\n\n";
    let refused =
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n\r\n{\"error\":{}}";
    for (answer, next) in [(silent, "429"), (refused, "400")] {
        let gateway = limited(&[says(answer).await], LIMITS, "[tokens]");
        gateway.raw(ask("anna", 1000)).await;
        assert_eq!(status(&gateway.raw(ask("anna", 1)).await), next);
    }
}
