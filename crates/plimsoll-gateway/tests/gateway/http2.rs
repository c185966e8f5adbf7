//! HTTP/2, with TLS and without, on both sides.

use std::pin::Pin;

use http::{Method, StatusCode, Version};
use http_body::Frame;
use http_body_util::{Empty, StreamBody};
use hyper::client::conn::{http1, http2};
use hyper::ext::Protocol;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::*;

pub(crate) type Body = BoxBody<Bytes, Infallible>;

pub(crate) async fn shake(
    io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) -> http2::SendRequest<Body> {
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(io))
        .await
        .expect("HTTP/2");
    tokio::spawn(connection);
    sender
}

async fn tls(
    gateway: &Running,
    protocol: &[u8],
) -> impl AsyncRead + AsyncWrite + Send + Unpin + 'static {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_file(file("cert.pem")).expect("a certificate");
    roots.add(certificate).expect("added");
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config = config
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    let name = ServerName::try_from("localhost").expect("a name");
    let stream = gateway.connect().await;
    let stream = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .expect("TLS");
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(protocol));
    stream
}

fn request(uri: &str) -> Request<Body> {
    Request::get(uri)
        .body(Empty::new().boxed())
        .expect("a request")
}

async fn body(answer: http::Response<Incoming>) -> String {
    let body = within(answer.into_body().collect()).await.expect("a body");
    String::from_utf8(body.to_bytes().to_vec()).expect("text")
}

/// Says how it was asked.
async fn how(request: Request<Incoming>) -> Answer {
    let field = |name: &str| {
        request
            .headers()
            .get(name)
            .map(|it| it.to_str().expect("text").to_owned())
    };
    let host = field("host").or_else(|| request.uri().authority().map(ToString::to_string));
    let said = format!(
        "{:?} {} {} host={} via={} proto={} cookie={}",
        request.version(),
        request.method(),
        request.uri().path(),
        host.unwrap_or_default(),
        field("via").unwrap_or_default(),
        field("x-forwarded-proto").unwrap_or_default(),
        field("cookie").unwrap_or_default(),
    );
    text(said)
}

fn start(servers: &[SocketAddr], gateway: &str, upstream: &str) -> Running {
    Running::start(&format!(
        "gateway:\n{gateway}  upstreams: {{ app: {{ to: {}, {upstream} }} }}\n",
        list(servers)
    ))
}

#[tokio::test]
async fn many_requests_on_one_connection() {
    let gateway = Running::to(&[server(how).await]);
    let mut sender = shake(gateway.connect().await).await;
    let mut answers = Vec::new();
    for number in 0..50 {
        let mut request = request(&format!("http://a.example/{number}"));
        let cookies = ["a=1", "b=2"].map(|it| it.parse().expect("a value"));
        for cookie in cookies {
            request.headers_mut().append("cookie", cookie);
        }
        answers.push(sender.send_request(request));
    }
    for (number, answer) in answers.into_iter().enumerate() {
        let answer = within(answer).await.expect("an answer");
        assert_eq!(answer.version(), Version::HTTP_2);
        let wanted = format!(
            "HTTP/1.1 GET /{number} host=a.example via=2 plimsoll proto=http cookie=a=1; b=2"
        );
        assert_eq!(body(answer).await, wanted);
    }
    gateway.at_rest().await;
}

#[tokio::test]
async fn with_tls_in_both_versions() {
    let server = server(how).await;
    let tls_files = format!(
        "  tls: {{ cert: {}, key: {} }}\n",
        file("cert.pem"),
        file("key.pem")
    );
    let gateway = start(&[server], &tls_files, "keep: 1");
    let mut sender = shake(tls(&gateway, b"h2").await).await;
    let answer = within(sender.send_request(request("https://localhost/")))
        .await
        .expect("an answer");
    assert_eq!(
        body(answer).await,
        "HTTP/1.1 GET / host=localhost via=2 plimsoll proto=https cookie="
    );
    let io = TokioIo::new(tls(&gateway, b"http/1.1").await);
    let (mut sender, connection) = http1::handshake(io).await.expect("HTTP/1");
    tokio::spawn(connection);
    let mut request = request("/");
    request
        .headers_mut()
        .insert("host", "localhost".parse().expect("a host"));
    let answer = within(sender.send_request(request))
        .await
        .expect("an answer");
    assert_eq!(
        body(answer).await,
        "HTTP/1.1 GET / host=localhost via=1.1 plimsoll proto=https cookie="
    );
    // Behind another gateway that speaks TLS with it.
    let outer = Running::start(&format!(
        "gateway:\n  upstreams: {{ app: {{ to: \"https://localhost:{}\", ca: {}, protocol: http2 }} }}\n",
        gateway.address.port(),
        file("cert.pem")
    ));
    let answer = outer.get("/").await;
    assert!(
        answer.ends_with("proto=https cookie=") || answer.ends_with("proto=http cookie="),
        "{answer}"
    );
    assert!(
        answer.contains("HTTP/1.1 GET / host=a.example via=1.1 plimsoll"),
        "{answer}"
    );
    // Nobody is believed whose certificate is not.
    let outer = Running::start(&format!(
        "gateway:\n  upstreams: {{ app: {{ to: \"https://localhost:{}\", retries: {{ most: 0 }} }} }}\n",
        gateway.address.port(),
    ));
    is_problem(&outer.get("/").await, 502, "no_connection");
}

#[tokio::test]
async fn bodies_and_trailers_pass_to_servers_of_http2() {
    // As gRPC does.
    let server = server(|request| async move {
        assert_eq!(request.version(), Version::HTTP_2);
        assert_eq!(request.headers()["te"], "trailers");
        let collected = request.into_body().collect().await.expect("a body");
        let trailers = collected.trailers().cloned().expect("trailers");
        let frames = [
            Ok(Frame::data(collected.to_bytes())),
            Ok(Frame::trailers(trailers)),
        ];
        http::Response::new(StreamBody::new(Frames(frames.into_iter().collect())).boxed())
    })
    .await;
    let gateway = start(&[server], "", "protocol: http2");
    let mut sender = shake(gateway.connect().await).await;
    let trailers = http::HeaderMap::from_iter([(
        "grpc-status".parse().expect("a name"),
        "0".parse().expect("a value"),
    )]);
    let frames = [
        Ok(Frame::data(Bytes::from_static(b"hello"))),
        Ok(Frame::trailers(trailers.clone())),
    ];
    let mut request = request("http://a/x");
    *request.method_mut() = Method::POST;
    request
        .headers_mut()
        .insert("te", "trailers".parse().expect("a value"));
    let request = request.map(|_| StreamBody::new(Frames(frames.into_iter().collect())).boxed());
    let answer = within(sender.send_request(request))
        .await
        .expect("an answer");
    let collected = within(answer.into_body().collect()).await.expect("a body");
    assert_eq!(collected.trailers(), Some(&trailers));
    assert_eq!(collected.to_bytes(), "hello");
    gateway.at_rest().await;
}

/// Answers that last do not keep others from their connection.
#[tokio::test]
async fn streams_share_a_connection_to_a_server() {
    let connections = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    let server = raw_server(move |stream| {
        count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        async move {
            let service = service_fn(|_| async {
                let first = [Ok(Frame::data(Bytes::from_static(b"first")))];
                let lasting = StreamBody::new(Lasting(first.into_iter().collect())).boxed();
                Ok::<_, Infallible>(http::Response::new(lasting))
            });
            let builder = auto::Builder::new(TokioExecutor::new());
            let _ = builder
                .serve_connection(TokioIo::new(stream), service)
                .await;
        }
    })
    .await;
    let gateway = start(&[server], "", "protocol: http2");
    let mut sender = shake(gateway.connect().await).await;
    let mut open = Vec::new();
    for _ in 0..10 {
        let answer = within(sender.send_request(request("http://a/"))).await;
        open.push(answer.expect("an answer"));
    }
    assert_eq!(gateway.counts.in_flight(), 10);
    assert_eq!(connections.load(std::sync::atomic::Ordering::SeqCst), 1);
    drop(open);
    gateway.at_rest().await;
}

/// Some frames, and no end.
struct Lasting(std::collections::VecDeque<Result<Frame<Bytes>, Infallible>>);

impl futures_core::Stream for Lasting {
    type Item = Result<Frame<Bytes>, Infallible>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        match self.0.pop_front() {
            Some(frame) => std::task::Poll::Ready(Some(frame)),
            None => std::task::Poll::Pending,
        }
    }
}

struct Frames(std::collections::VecDeque<Result<Frame<Bytes>, Infallible>>);

impl futures_core::Stream for Frames {
    type Item = Result<Frame<Bytes>, Infallible>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        std::task::Poll::Ready(self.0.pop_front())
    }
}

#[tokio::test]
async fn a_websocket_inside_of_http2() {
    let server = raw_server(|stream| async move {
        let mut stream = BufReader::new(stream);
        let head = read_head(&mut stream).await;
        assert!(head.starts_with("GET /chat HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("upgrade: websocket\r\n") && head.contains("sec-websocket-key: "), "{head}");
        let answer = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: x\r\nsec-websocket-protocol: y\r\n\r\n";
        stream.write_all(answer.as_bytes()).await.expect("written");
        let (mut read, mut write) = tokio::io::split(stream);
        let _ = tokio::io::copy(&mut read, &mut write).await;
        let _ = write.shutdown().await;
    })
    .await;
    let gateway = Running::to(&[server]);
    let mut sender = shake(gateway.connect().await).await;
    // The gateway has to have said that it knows extended CONNECT.
    within(sender.send_request(request("http://a/none")))
        .await
        .ok();
    let mut connect = request("http://a/chat");
    *connect.method_mut() = Method::CONNECT;
    connect
        .extensions_mut()
        .insert(Protocol::from_static("websocket"));
    let mut answer = within(sender.send_request(connect))
        .await
        .expect("an answer");
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(answer.headers()["sec-websocket-protocol"], "y");
    assert!(!answer.headers().contains_key("sec-websocket-accept"));
    let mut stream = TokioIo::new(
        within(hyper::upgrade::on(&mut answer))
            .await
            .expect("upgraded"),
    );
    for part in [&b"\x81\x02hi"[..], &[7; 50_000]] {
        let mut back = vec![0; part.len()];
        let (mut read, mut write) = tokio::io::split(&mut stream);
        let sent = async { write.write_all(part).await.expect("written") };
        let received = async { read.read_exact(&mut back).await.expect("all of it") };
        within(async { tokio::join!(sent, received) }).await;
        assert_eq!(back, part);
    }
    assert_eq!(gateway.counts.tunnels(), 1);
    drop(stream);
    gateway.at_rest().await;
    // Without a protocol there is nothing to tunnel.
    let mut connect = request("http://a:443/");
    *connect.method_mut() = Method::CONNECT;
    *connect.uri_mut() = "a:443".parse().expect("an authority");
    let answer = within(sender.send_request(connect))
        .await
        .expect("an answer");
    assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED);
}
