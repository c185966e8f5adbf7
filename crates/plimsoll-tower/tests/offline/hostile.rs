//! Whatever strangers write: nothing panics, nobody gets out of his limit or into another's, and the work is bounded.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderName, HeaderValue, Request};
use plimsoll_tower::answer::is_grpc;
use plimsoll_tower::keys::{
    CookieKey, Forwarded, HeaderKey, MAX_LEN, MethodKey, PathKey, Peer, PeerAddr, QueryKey,
    TrustedProxies, bounded,
};
use plimsoll_tower::{Head, KeyFrom, PriorityFrom, PriorityHeader};
use proptest::collection::vec;
use proptest::prelude::*;

/// The proxies' network. No client is in it.
fn proxies() -> TrustedProxies {
    TrustedProxies::parse(["10.0.0.0/8", "fd00::/8"]).expect("networks")
}

fn proxy() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<[u8; 3]>().prop_map(|[a, b, c]| IpAddr::from([10, a, b, c])),
        any::<u64>()
            .prop_map(|host| IpAddr::from((0xfd_u128 << 120 | u128::from(host)).to_be_bytes())),
    ]
}

fn client() -> impl Strategy<Value = IpAddr> {
    any::<IpAddr>()
        .prop_map(|address| address.to_canonical())
        .prop_filter("a client", |address| !proxies().contains(*address))
}

/// What a client can send as the value of a header: bytes of any kind, and what looks like the header itself.
fn line() -> impl Strategy<Value = HeaderValue> {
    let pieces = [
        "10.0.0.1",
        "192.0.2.66",
        "fd00::1",
        "[fd00::1]:7",
        "for=",
        "For=",
        "by=",
        ",",
        ", ",
        ";",
        "=",
        "\"",
        "\\",
        "\\\"",
        "\"\"",
        "[",
        "]",
        ":",
        "unknown",
        "_x",
        " ",
        "\t",
        "for=\"",
        "for=10.0.0.1",
        "host=\"",
        "%00",
        "\u{e4}",
    ];
    let words = vec(proptest::sample::select(pieces.to_vec()), 0..40)
        .prop_map(|pieces| pieces.concat().into_bytes());
    let bytes = vec(any::<u8>(), 0..200);
    let long = (words.clone(), 1_usize..400)
        .prop_map(|(text, times)| text.repeat(times).into_iter().take(10_000).collect());
    prop_oneof![words, bytes, long].prop_map(|mut bytes: Vec<u8>| {
        bytes.retain(|byte| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f));
        HeaderValue::from_bytes(&bytes).expect("checked above")
    })
}

/// How a proxy that appends to a list writes an address.
#[derive(Clone, Copy, Debug)]
struct Style {
    /// A line of its own, or the end of the last one.
    own_line: bool,
    port: bool,
    quoted: bool,
    /// Other parameters of `Forwarded`, before and after, with what is hard to read in them.
    others: bool,
}

fn style() -> impl Strategy<Value = Style> {
    any::<[bool; 4]>().prop_map(|[own_line, port, quoted, others]| Style {
        own_line,
        port,
        quoted,
        others,
    })
}

impl Style {
    fn node(self, address: IpAddr) -> String {
        match (address, self.port) {
            (IpAddr::V4(_), false) => address.to_string(),
            (IpAddr::V6(_), false) => format!("[{address}]"),
            (_, true) => SocketAddr::new(address, 4711).to_string(),
        }
    }

    fn x_forwarded_for(self, address: IpAddr) -> String {
        match self.quoted {
            true => address.to_string(),
            false => self.node(address),
        }
    }

    fn forwarded(self, address: IpAddr) -> String {
        let node = self.node(address);
        let value = match self.quoted || address.is_ipv6() {
            true => format!("FOR=\"{node}\""),
            false => format!("for={node}"),
        };
        match self.others {
            true => {
                format!("host=\"a,b;for=192.0.2.66\\\"\\\\\";{value}; by=\"_x,for=192.0.2.66\"")
            }
            false => value,
        }
    }

    fn append(self, lines: &mut Vec<Vec<u8>>, element: &str) {
        match lines.last_mut() {
            Some(last) if !self.own_line => {
                last.extend_from_slice(b", ");
                last.extend_from_slice(element.as_bytes());
            }
            _ => lines.push(element.into()),
        }
    }
}

fn request(peer: IpAddr, name: &'static str, lines: &[Vec<u8>]) -> Request<()> {
    let mut request = Request::new(());
    let peer = PeerAddr(SocketAddr::new(peer, 40_000));
    request.extensions_mut().insert(peer);
    for line in lines {
        let value = HeaderValue::from_bytes(line).expect("a value");
        request.headers_mut().append(name, value);
    }
    request
}

proptest! {
    #[test]
    fn behind_proxies_the_key_is_the_true_client_whatever_it_writes(
        client in client(),
        written in vec(line(), 0..4),
        chain in vec((proxy(), style()), 1..5),
    ) {
        let read = [
            (Forwarded::x_forwarded_for(proxies()), "x-forwarded-for", Style::x_forwarded_for as fn(Style, IpAddr) -> String),
            (Forwarded::rfc_7239(proxies()), "forwarded", Style::forwarded),
        ];
        for (key, name, write) in read {
            let mut lines: Vec<_> = written.iter().map(|line| line.as_bytes().to_vec()).collect();
            let mut caller = client;
            for (proxy, style) in &chain {
                style.append(&mut lines, &write(*style, caller));
                caller = *proxy;
            }
            let request = request(caller, name, &lines);
            let head = Head::of(&request);
            prop_assert_eq!(key.client(&head), Some(client));
            prop_assert_eq!(key.key(&head).unwrap().into_owned(), key.address(client));
        }
    }

    #[test]
    fn without_a_proxy_the_key_is_the_peer_whatever_it_writes(
        client in client(),
        written in vec(line(), 0..4),
    ) {
        let lines: Vec<_> = written.iter().map(|line| line.as_bytes().to_vec()).collect();
        let trusted = proxies;
        for (key, name) in [
            (Forwarded::x_forwarded_for(trusted()), "x-forwarded-for"),
            (Forwarded::rfc_7239(trusted()), "forwarded"),
            (Forwarded::x_real_ip(trusted()), "x-real-ip"),
        ] {
            let request = request(client, name, &lines);
            prop_assert_eq!(key.client(&Head::of(&request)), Some(client));
        }
    }

    #[test]
    fn anything_in_any_header_gives_a_bounded_key_or_none(
        written in vec(line(), 0..4),
        peer in proxy(),
        query in "[a-z%&=+0-9]{0,400}",
        path in "[a-z%/0-9]{0,400}",
    ) {
        let lines: Vec<_> = written.iter().map(|line| line.as_bytes().to_vec()).collect();
        let names = ["x-forwarded-for", "forwarded", "x-real-ip", "cookie", "x-key", "x-priority", "content-type"];
        let mut request = request(peer, "host", &[]);
        for name in names {
            for line in &lines {
                let value = HeaderValue::from_bytes(line).expect("a value");
                request.headers_mut().append(HeaderName::from_static(name), value);
            }
        }
        *request.uri_mut() = format!("/{path}?{query}").parse().expect("a uri");
        let head = Head::of(&request);
        prop_assert!(Peer::new().key(&head).is_some());
        for key in [Forwarded::x_forwarded_for(proxies()), Forwarded::rfc_7239(proxies()), Forwarded::x_real_ip(proxies())] {
            prop_assert!(key.key(&head).is_some());
        }
        for key in [
            HeaderKey::named("x-key").expect("a name").key(&head),
            CookieKey::new("for").key(&head),
            QueryKey::new("a").key(&head),
            PathKey::new().key(&head),
            MethodKey.key(&head),
        ] {
            prop_assert!(key.is_none_or(|key| !key.is_empty() && key.len() <= MAX_LEN + 33));
        }
        // They only must not panic.
        let _ = PriorityHeader::default().priority(&head);
        let _ = is_grpc(&head);
    }

    #[test]
    fn different_texts_stay_different(one in "[ab]{0,40}|\\PC{0,40}", other in "[ab]{0,40}", longest in 0_usize..30) {
        let (short, shorter) = (bounded(one.as_str().into(), longest), bounded(other.as_str().into(), longest));
        prop_assert_eq!(one == other, short == shorter);
        // Nor does anybody get a key by writing down its short form.
        prop_assert_eq!(bounded(short.clone(), longest) == short, one.len() <= longest);
    }
}

#[test]
fn a_thousand_hops_and_ten_kilobytes_are_no_trouble() {
    let key = Forwarded::x_forwarded_for(proxies());
    let of = |lines: &[Vec<u8>]| {
        let request = request(IpAddr::from([10, 0, 0, 1]), "x-forwarded-for", lines);
        key.client(&Head::of(&request)).expect("a peer").to_string()
    };
    let spoofed = vec!["10.0.0.9"; 1000].join(", ");
    assert_eq!(of(&[spoofed.clone().into()]), "10.0.0.1", "too far to look");
    assert_eq!(of(&[format!("{spoofed}, 192.0.2.1").into()]), "192.0.2.1");
    assert_eq!(of(&[spoofed.into(), "192.0.2.1".into()]), "192.0.2.1");
    for junk in [",", "\"", "\\", " ", "x", "\"\\", "\u{e4}"] {
        let junk = junk.repeat(10_000);
        assert_eq!(of(&[format!("{junk}, 192.0.2.1").into()]), "192.0.2.1");
        assert_eq!(of(&[junk.into()]), "10.0.0.1");
    }
}
