//! Connections that speak another protocol.

use super::limits::returned;
use super::*;

/// A server that agrees to everything, and sends back what it is sent.
async fn echo() -> SocketAddr {
    raw_server(|stream| async move {
        let mut stream = BufReader::new(stream);
        let head = read_head(&mut stream).await.to_ascii_lowercase();
        assert!(head.contains("connection: upgrade\r\n"), "{head}");
        assert!(head.contains("upgrade: websocket\r\n"), "{head}");
        assert!(head.contains("sec-websocket-key: "), "{head}");
        let answer = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: x\r\n\r\n";
        stream.write_all(answer.as_bytes()).await.expect("written");
        let (mut read, mut write) = tokio::io::split(stream);
        let _ = tokio::io::copy(&mut read, &mut write).await;
        let _ = write.shutdown().await;
    })
    .await
}

const UPGRADE: &str = "GET /chat HTTP/1.1\r\nhost: a\r\nconnection: keep-alive, Upgrade\r\nupgrade: websocket\r\nsec-websocket-key: AAAA\r\n\r\n";

async fn upgraded(gateway: &Running) -> BufReader<TcpStream> {
    let mut stream = BufReader::new(gateway.connect().await);
    stream.write_all(UPGRADE.as_bytes()).await.expect("written");
    let head = read_head(&mut stream).await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert!(
        head.contains("upgrade: websocket\r\n") && head.contains("sec-websocket-accept: x\r\n"),
        "{head}"
    );
    stream
}

/// Bytes as they are: line feeds, zeros and whatever looks like a request.
#[tokio::test]
async fn a_websocket_is_passed_on_byte_by_byte() {
    let gateway = Running::to(&[echo().await]);
    let mut stream = upgraded(&gateway).await;
    for part in [
        &b"\x81\x02hi"[..],
        b"\n\n\0\r",
        b"GET / HTTP/1.1\nhost: a\n\n",
        &[0xff; 100_000],
    ] {
        let (mut read, mut write) = tokio::io::split(&mut stream);
        let sent = async { write.write_all(part).await.expect("written") };
        let mut back = vec![0; part.len()];
        let received = async { read.read_exact(&mut back).await.expect("all of it") };
        within(async { tokio::join!(sent, received) }).await;
        assert_eq!(back, part);
    }
    assert_eq!(
        (gateway.counts.tunnels(), gateway.counts.in_flight()),
        (1, 1)
    );
    stream.shutdown().await.expect("shut down");
    let mut rest = Vec::new();
    within(stream.read_to_end(&mut rest))
        .await
        .expect("the end");
    assert_eq!(rest, b"");
    gateway.at_rest().await;
}

#[tokio::test]
async fn a_slot_is_held_until_the_connection_ends() {
    let gateway = Running::start(&format!(
        "gateway:\n  upstreams: {{ app: {{ to: {} }} }}\nlimits: {{ slots: {{ concurrency: 1 }} }}\nroutes: [{{ match: /**, limits: [slots] }}]\n",
        list(&[echo().await])
    ));
    for _ in 0..3 {
        let stream = upgraded(&gateway).await;
        let refused = gateway.raw(UPGRADE.replace("keep-alive", "close")).await;
        assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
        drop(stream);
        gateway.at_rest().await;
        returned(&gateway, "slots").await;
    }
}

#[tokio::test]
async fn a_server_may_decline() {
    let gateway =
        Running::to(&[says("HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\nno").await]);
    let answer = gateway.raw(UPGRADE.replace("keep-alive", "close")).await;
    assert!(
        answer.starts_with("HTTP/1.1 400") && answer.ends_with("no"),
        "{answer}"
    );
}

/// HTTP/2 inside of a connection would pass every limit.
#[tokio::test]
async fn http2_is_not_upgraded_to() {
    let server =
        server(|request| async move { text(format!("{:?}", request.headers().get("upgrade"))) })
            .await;
    let gateway = Running::to(&[server]);
    let request = get("/").replace(
        "connection: close",
        "connection: close, upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk",
    );
    let answer = gateway.raw(request).await;
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.ends_with("None"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_connection_on_which_nothing_is_said_ends() {
    let server = echo().await;
    let gateway = Running::start(&format!(
        "gateway:\n  upstreams: {{ app: {{ to: {}, timeouts: {{ idle: 30ms }} }} }}\n",
        list(&[server])
    ));
    let mut stream = upgraded(&gateway).await;
    let mut rest = Vec::new();
    let _ = within(stream.read_to_end(&mut rest)).await;
    assert_eq!(rest, b"");
    gateway.at_rest().await;
}
