//! The keys of requests.

use std::borrow::Cow;
use std::net::SocketAddr;

use http::{HeaderValue, Method, Request};
use plimsoll_tower::keys::{
    Address, CookieKey, HeaderKey, MAX_LEN, MethodKey, PathKey, Peer, PeerAddr, QueryKey, by,
};
use plimsoll_tower::{Head, KeyFrom};

fn text<R: KeyFrom<Key = str>>(key: &R, request: &Request<()>) -> Option<String> {
    key.key(&Head::of(request)).map(Cow::into_owned)
}

fn get(uri: &str) -> Request<()> {
    Request::get(uri).body(()).unwrap()
}

fn with_header(name: &'static str, lines: &[&[u8]]) -> Request<()> {
    let mut request = get("/");
    for line in lines {
        let value = HeaderValue::from_bytes(line).unwrap();
        request.headers_mut().append(name, value);
    }
    request
}

fn from_peer(peer: impl Clone + Send + Sync + 'static) -> Request<()> {
    Request::get("/").extension(peer).body(()).unwrap()
}

fn socket(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn peer_key(key: Peer, request: &Request<()>) -> Option<String> {
    let address = key.key(&Head::of(request));
    address.map(|address| address.to_string())
}

#[test]
fn a_peer_is_its_address_without_the_port() {
    for (peer, key) in [
        ("192.0.2.1:1", "192.0.2.1"),
        ("192.0.2.1:2", "192.0.2.1"),
        ("[::ffff:192.0.2.1]:3", "192.0.2.1"),
        ("[2001:db8:1:2:3::4]:5", "2001:db8:1:2::/64"),
        ("[::1]:5", "::/64"),
    ] {
        let expected = Some(key.to_owned());
        assert_eq!(peer_key(Peer::new(), &from_peer(socket(peer))), expected);
        let request = from_peer(PeerAddr(socket(peer)));
        assert_eq!(peer_key(Peer::new(), &request), expected);
    }
    assert_eq!(peer_key(Peer::new(), &get("/")), None);
}

#[test]
fn prefixes_can_be_longer_and_shorter() {
    let key = Peer::new().ipv4_prefix(24).ipv6_prefix(56);
    let v4 = from_peer(socket("192.0.2.1:1"));
    let v6 = from_peer(socket("[2001:db8:0:12ff::1]:1"));
    assert_eq!(peer_key(key, &v4).unwrap(), "192.0.2.0/24");
    assert_eq!(peer_key(key, &v6).unwrap(), "2001:db8:0:1200::/56");
    let all = Peer::new().ipv4_prefix(255).ipv6_prefix(255);
    assert_eq!(peer_key(all, &v4).unwrap(), "192.0.2.1");
    assert_eq!(peer_key(all, &v6).unwrap(), "2001:db8:0:12ff::1");
    assert_eq!(
        all.address("192.0.2.1".parse().unwrap()),
        Address::from(socket("192.0.2.1:1").ip())
    );
}

#[test]
fn our_own_extension_comes_first() {
    let mut request = from_peer(socket("192.0.2.1:1"));
    let ours = PeerAddr(socket("192.0.2.2:1"));
    request.extensions_mut().insert(ours);
    assert_eq!(peer_key(Peer::new(), &request).unwrap(), "192.0.2.2");
}

#[cfg(feature = "axum")]
#[test]
fn axum_knows_the_peer() {
    use axum::extract::connect_info::{ConnectInfo, MockConnectInfo};

    let peer = socket("192.0.2.1:1");
    let (real, mock) = (ConnectInfo(peer), MockConnectInfo(peer));
    for request in [from_peer(real), from_peer(mock)] {
        assert_eq!(peer_key(Peer::new(), &request).unwrap(), "192.0.2.1");
    }
}

#[cfg(feature = "tonic")]
#[test]
fn tonic_knows_the_peer() {
    use tonic::transport::server::TcpConnectInfo;

    let known = |remote_addr| {
        from_peer(TcpConnectInfo {
            local_addr: None,
            remote_addr,
        })
    };
    let request = known(Some(socket("192.0.2.1:1")));
    assert_eq!(peer_key(Peer::new(), &request).unwrap(), "192.0.2.1");
    assert_eq!(peer_key(Peer::new(), &known(None)), None);
}

#[cfg(feature = "axum")]
#[tokio::test]
async fn axum_knows_the_route() {
    use axum::{Router, routing};
    use plimsoll_tower::keys::MatchedRoute;
    use tower::ServiceExt;

    async fn matched(request: axum::extract::Request) -> String {
        let key = MatchedRoute.key(&Head::of(&request));
        key.map_or("none".to_owned(), Cow::into_owned)
    }
    let app = Router::new()
        .route("/items/{id}", routing::get(matched))
        .fallback(matched);
    for (path, route) in [("/items/7", "/items/{id}"), ("/other", "none")] {
        let request = Request::get(path).body(axum::body::Body::empty()).unwrap();
        let response = app.clone().oneshot(request).await.unwrap();
        let body = axum::body::to_bytes(response.into_body(), 99).await;
        assert_eq!(body.unwrap(), route);
    }
}

#[test]
fn a_header_is_a_key_if_it_says_something() {
    let key = HeaderKey::named("X-Key").unwrap();
    let of = |lines: &[&[u8]]| text(&key, &with_header("x-key", lines));
    assert_eq!(of(&[b"abc"]).as_deref(), Some("abc"));
    assert_eq!(of(&[b"  abc\t"]).as_deref(), Some("abc"));
    assert_eq!(of(&["ä".as_bytes()]).as_deref(), Some("ä"));
    assert_eq!(of(&[b"one", b"two"]).as_deref(), Some("one"));
    assert_eq!(of(&[b"a,b"]).as_deref(), Some("a,b"));
    for nothing in [&b""[..], b"   ", b"\xff"] {
        assert_eq!(of(&[nothing]), None);
    }
    assert_eq!(of(&[]), None);
    assert!(HeaderKey::named("no name").is_err());
}

#[test]
fn a_cookie_is_found_among_others() {
    let key = CookieKey::new("id");
    let of = |lines: &[&[u8]]| text(&key, &with_header("cookie", lines));
    assert_eq!(of(&[b"id=7"]).as_deref(), Some("7"));
    assert_eq!(of(&[b"a=1; id=7; b=2"]).as_deref(), Some("7"));
    assert_eq!(of(&[b"a=1;id=7"]).as_deref(), Some("7"));
    assert_eq!(of(&[b"a=1", b"b=2; id=7"]).as_deref(), Some("7"));
    assert_eq!(of(&[b"id=7; id=8"]).as_deref(), Some("7"));
    assert_eq!(of(&[br#"id="7""#]).as_deref(), Some("7"));
    assert_eq!(of(&[b"id=a=b"]).as_deref(), Some("a=b"));
    assert_eq!(of(&[b"\xff=1; id=7"]).as_deref(), Some("7"));
    for none in [
        &b"ID=7"[..],
        b"xid=7",
        b"id",
        b"id=",
        b"",
        b";;",
        b"id=\xff",
    ] {
        assert_eq!(of(&[none]), None, "{none:?}");
    }
}

#[test]
fn a_query_is_decoded_only_where_it_must_be() {
    let key = QueryKey::new("id");
    for (uri, expected) in [
        ("/?id=7", "7"),
        ("/?a=1&id=7&b=2", "7"),
        ("/?id=7&id=8", "7"),
        ("/?%69d=7", "7"),
        ("/?i%64=%37", "7"),
        ("/?id=a%20b+c", "a b c"),
        ("/?id=a=b", "a=b"),
        ("/?id=%C3%A4", "ä"),
        ("/?id=%zz%4", "%zz%4"),
        ("/?id=%ff", "\u{fffd}"),
        ("/?&&id=7", "7"),
    ] {
        assert_eq!(text(&key, &get(uri)).as_deref(), Some(expected), "{uri}");
    }
    for uri in ["/", "/?", "/?id", "/?id=", "/?ID=7", "/?xid=7", "/id=7"] {
        assert_eq!(text(&key, &get(uri)), None, "{uri}");
    }
    let plain = get("/?id=plain");
    let found = key.key(&Head::of(&plain));
    assert!(matches!(found, Some(Cow::Borrowed("plain"))));
}

#[test]
fn a_path_is_a_key_without_its_query() {
    let of = |uri: &str| text(&PathKey::new(), &get(uri));
    assert_eq!(of("/a/b?c=d").as_deref(), Some("/a/b"));
    assert_eq!(of("http://example.com/a").as_deref(), Some("/a"));
    assert_eq!(of("http://example.com").as_deref(), Some("/"));
    assert_eq!(of("*").as_deref(), Some("*"));
    assert_eq!(of("example.com:443"), None);
}

#[test]
fn methods_that_nobody_knows_share_a_key() {
    for (method, key) in [
        ("GET", "GET"),
        ("DELETE", "DELETE"),
        ("get", "other"),
        ("A-1", "other"),
    ] {
        let mut request = get("/");
        *request.method_mut() = Method::from_bytes(method.as_bytes()).unwrap();
        assert_eq!(text(&MethodKey, &request).as_deref(), Some(key));
    }
}

#[test]
fn long_keys_are_bounded_and_stay_apart() {
    let stem = "k".repeat(5000);
    let of = |end: &str| {
        let long = format!("{stem}{end}");
        let request = Request::get(format!("/{long}?id={long}"))
            .header("x-key", &long)
            .header("cookie", format!("id={long}"))
            .body(())
            .unwrap();
        [
            text(&HeaderKey::named("x-key").unwrap(), &request),
            text(&CookieKey::new("id"), &request),
            text(&PathKey::new(), &request),
            text(&QueryKey::new("id"), &request),
        ]
        .map(Option::unwrap)
    };
    for (one, other) in of("1").into_iter().zip(of("2")) {
        assert_ne!(one, other);
        assert_eq!(one.len(), MAX_LEN + 33);
    }
    let short = HeaderKey::named("x-key").unwrap().max_len(3);
    let plain = text(&short, &with_header("x-key", &[b"abc"]));
    assert_eq!(plain.as_deref(), Some("abc"));
    let folded = text(&short, &with_header("x-key", &[b"abcd"])).unwrap();
    // Who knows the short form of a key and sends it does not get that key.
    let copied = text(&short, &with_header("x-key", &[folded.as_bytes()])).unwrap();
    assert_ne!(folded, copied);
}

#[test]
fn closures_and_pairs_are_keys() {
    let length = by(|head: &Head<'_>| head.header("x-key").map(str::len));
    let request = with_header("x-key", &[b"abc"]);
    let head = Head::of(&request);
    assert_eq!(*length.key(&head).unwrap(), 3);
    let pair = (length, (MethodKey, PathKey::new()));
    let key = pair.key(&head).unwrap().into_owned();
    assert_eq!(key, (3, ("GET".to_owned(), "/".to_owned())));
    assert!(pair.key(&Head::of(&get("/"))).is_none(), "both or none");
}

#[test]
fn parts_have_a_head_too() {
    let (parts, ()) = with_header("x-key", &[b"abc"]).into_parts();
    let head = Head::from(&parts);
    assert_eq!(head.header("x-key"), Some("abc"));
    assert_eq!((head.method(), head.uri().path()), (&Method::GET, "/"));
    assert_eq!(head.version(), http::Version::HTTP_11);
}
