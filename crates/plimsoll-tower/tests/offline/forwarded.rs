//! The client's address behind proxies.

use http::{HeaderValue, Request};
use plimsoll_tower::keys::{Forwarded, PeerAddr, TrustedProxies};
use plimsoll_tower::{Head, KeyFrom, per_address};
use tower_layer::Layer;
use tower_service::Service;

/// Proxies are in `10.0.0.0/8` and `fd00::/8`.
fn proxies() -> TrustedProxies {
    TrustedProxies::parse(["10.0.0.0/8", "fd00::/8"]).unwrap()
}

fn client(key: &Forwarded, name: &'static str, peer: &str, lines: &[&[u8]]) -> String {
    let mut request = Request::new(());
    let peer = PeerAddr((peer.parse::<std::net::IpAddr>().unwrap(), 443).into());
    request.extensions_mut().insert(peer);
    for line in lines {
        let value = HeaderValue::from_bytes(line).unwrap();
        request.headers_mut().append(name, value);
    }
    key.client(&Head::of(&request)).unwrap().to_string()
}

fn x_forwarded_for(peer: &str, lines: &[&[u8]]) -> String {
    let key = Forwarded::x_forwarded_for(proxies());
    client(&key, "x-forwarded-for", peer, lines)
}

fn rfc_7239(peer: &str, lines: &[&[u8]]) -> String {
    client(&Forwarded::rfc_7239(proxies()), "forwarded", peer, lines)
}

#[test]
fn the_header_counts_only_if_the_peer_is_trusted() {
    let line: &[&[u8]] = &[b"192.0.2.1"];
    assert_eq!(x_forwarded_for("198.51.100.1", line), "198.51.100.1");
    assert_eq!(x_forwarded_for("11.0.0.1", line), "11.0.0.1");
    assert_eq!(x_forwarded_for("10.0.0.1", line), "192.0.2.1");
    assert_eq!(x_forwarded_for("::ffff:10.0.0.1", line), "192.0.2.1");
    assert_eq!(x_forwarded_for("fd00::1", line), "192.0.2.1");
    let nobody = Forwarded::x_forwarded_for(TrustedProxies::none());
    assert_eq!(
        client(&nobody, "x-forwarded-for", "10.0.0.1", line),
        "10.0.0.1"
    );
}

#[test]
fn the_client_is_the_rightmost_hop_that_is_not_trusted() {
    let cases: [(&[&[u8]], &str); 19] = [
        (&[], "10.0.0.1"),
        (&[b"192.0.2.1"], "192.0.2.1"),
        (&[b"198.51.100.1, 192.0.2.1"], "192.0.2.1"),
        (&[b"198.51.100.1, 192.0.2.1, 10.0.0.2"], "192.0.2.1"),
        (&[b"192.0.2.1,10.0.0.3 ,\t10.0.0.2"], "192.0.2.1"),
        // Several lines are one list.
        (&[b"198.51.100.1", b"192.0.2.1"], "192.0.2.1"),
        (
            &[b"198.51.100.1, 192.0.2.1", b"10.0.0.3", b"10.0.0.2"],
            "192.0.2.1",
        ),
        // All are trusted: the first one asked.
        (&[b"10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        // What is no address ends the reading at the hop before it.
        (&[b"192.0.2.1, unknown"], "10.0.0.1"),
        (&[b"192.0.2.1, unknown, 10.0.0.2"], "10.0.0.2"),
        (&[b"192.0.2.1, _hidden, 10.0.0.2"], "10.0.0.2"),
        (&[b"192.0.2.1, , 10.0.0.2"], "10.0.0.2"),
        (&[b"192.0.2.1,"], "10.0.0.1"),
        (&[b"192.0.2.1", b""], "10.0.0.1"),
        (&[b"192.0.2.1, \xff\xfe, 10.0.0.2"], "10.0.0.2"),
        // What is to the left of the client is not read.
        (&[b"\xff \", unknown,,, 192.0.2.1, 10.0.0.2"], "192.0.2.1"),
        (&[b"\"10.0.0.9, 192.0.2.1"], "192.0.2.1"),
        (&[b"\"198.51.100.1", b"192.0.2.1\""], "10.0.0.1"),
        (&[b"fd00::2"], "fd00::2"),
    ];
    for (lines, expected) in cases {
        assert_eq!(x_forwarded_for("10.0.0.1", lines), expected, "{lines:?}");
    }
}

#[test]
fn addresses_are_written_in_many_ways() {
    for (hop, expected) in [
        ("192.0.2.1:8080", "192.0.2.1"),
        ("192.0.2.1:_port", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("[2001:db8::1]:443", "2001:db8::1"),
        ("\"[2001:db8::1]:443\"", "2001:db8::1"),
        ("\"192.0.2.1\"", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("[::ffff:192.0.2.1]:1", "192.0.2.1"),
        ("[::ffff:10.0.0.9]:1", "10.0.0.9"),
    ] {
        let line = hop.as_bytes();
        assert_eq!(x_forwarded_for("10.0.0.1", &[line]), expected, "{hop}");
        let quoted = format!("for=\"{}\"", hop.trim_matches('"'));
        assert_eq!(rfc_7239("10.0.0.1", &[quoted.as_bytes()]), expected);
    }
    for no_address in [
        "192.0.2.1:",
        "192.0.2.1:port",
        "192.0.2.1:123456",
        "192.0.2.1:_",
        "192.0.2.1:_p/",
        "192.0.2.1:-1",
        "192.0.2.256",
        "192.0.2",
        "192.0.2.01",
        "3221225985",
        "2001:db8::1::2",
        "[2001:db8::1",
        "2001:db8::1]",
        "[2001:db8::1]443",
        "[2001:db8::1]:",
        "[192.0.2.1]",
        "[]",
        "[fe80::1%eth0]",
        "example.com",
        "192.0.2.1 198.51.100.1",
        "\"192.0.2.1",
        "192.0.2.1\"",
        "\"",
    ] {
        let line = no_address.as_bytes();
        assert_eq!(
            x_forwarded_for("10.0.0.1", &[line]),
            "10.0.0.1",
            "{no_address}"
        );
        let quoted = format!("for=\"{no_address}\"");
        assert_eq!(rfc_7239("10.0.0.1", &[quoted.as_bytes()]), "10.0.0.1");
    }
}

#[test]
fn forwarded_is_read_as_rfc_7239_says() {
    let cases: [(&[&str], &str); 26] = [
        (&["for=192.0.2.1"], "192.0.2.1"),
        (&["For=\"[2001:db8::1]:4711\""], "2001:db8::1"),
        (&["for=192.0.2.1;proto=http;by=203.0.113.43"], "192.0.2.1"),
        (&["by=203.0.113.43; FOR=192.0.2.1 ;proto=http"], "192.0.2.1"),
        (&["for=198.51.100.1, for=192.0.2.1"], "192.0.2.1"),
        (&["for=192.0.2.1, for=10.0.0.2"], "192.0.2.1"),
        (&["for=192.0.2.1", "for=10.0.0.2"], "192.0.2.1"),
        (&[";for=192.0.2.1;;"], "192.0.2.1"),
        // Commas, semicolons and quotation marks in quoted strings.
        (
            &["for=192.0.2.1;host=\"a,b;for=198.51.100.1\""],
            "192.0.2.1",
        ),
        (
            &["for=192.0.2.1;x=\"\\\"\", for=10.0.0.2;x=\"\\\\\""],
            "192.0.2.1",
        ),
        (&["for=192.0.2.1;x=\"\\\", for=198.51.100.1\""], "192.0.2.1"),
        (
            &["for=192.0.2.1;x=\"a,b\\\"c\", for=10.0.0.2;x=\"a,b\\\"c\""],
            "192.0.2.1",
        ),
        // What a client leaves open does not reach into what the proxy appended.
        (&["for=\"198.51.100.1, for=192.0.2.1"], "192.0.2.1"),
        (&["for=198.51.100.1;host=\", for=192.0.2.1"], "192.0.2.1"),
        (&["x=\"\\, for=192.0.2.1;x=\"a\""], "192.0.2.1"),
        (&["for=\"198.51.100.1", "for=192.0.2.1"], "192.0.2.1"),
        // What says nothing ends the reading.
        (&["for=192.0.2.1, for=unknown"], "10.0.0.1"),
        (
            &["for=192.0.2.1, for=\"_gazonk\", for=10.0.0.2"],
            "10.0.0.2",
        ),
        (&["for=192.0.2.1, proto=http"], "10.0.0.1"),
        (&["for=192.0.2.1;for=192.0.2.2"], "10.0.0.1"),
        (&["192.0.2.1"], "10.0.0.1"),
        (&["for=192.0.2.1;junk"], "10.0.0.1"),
        (&["for="], "10.0.0.1"),
        (&["for=\"192.0.2.1\\\""], "10.0.0.1"),
        (&["for=\"192.0.2.1\"x"], "10.0.0.1"),
        (&["for=192.0.2.1;x=\"open"], "10.0.0.1"),
    ];
    for (lines, expected) in cases {
        let lines: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
        assert_eq!(rfc_7239("10.0.0.1", &lines), expected, "{lines:?}");
    }
}

#[test]
fn one_header_is_never_taken_for_the_other() {
    let x = Forwarded::x_forwarded_for(proxies());
    assert_eq!(
        client(&x, "forwarded", "10.0.0.1", &[b"for=192.0.2.1"]),
        "10.0.0.1"
    );
    assert_eq!(
        client(&x, "x-real-ip", "10.0.0.1", &[b"192.0.2.1"]),
        "10.0.0.1"
    );
    let rfc = Forwarded::rfc_7239(proxies());
    assert_eq!(
        client(&rfc, "x-forwarded-for", "10.0.0.1", &[b"192.0.2.1"]),
        "10.0.0.1"
    );
}

/// The statuses of requests through a layer that lets one through for each client.
fn through(
    behind: Forwarded,
    field: &'static str,
    other: &'static str,
    requests: &[(&str, &str)],
) -> Vec<u16> {
    let inner = tower::service_fn(async |_: Request<()>| {
        let body = http_body_util::Full::<bytes::Bytes>::default();
        Ok::<_, std::convert::Infallible>(http::Response::new(body))
    });
    let mut service = per_address(1, 1).behind(behind).layer(inner);
    let statuses = requests.iter().map(|(value, ignored)| {
        let request = Request::get("/")
            .extension(PeerAddr(([10, 0, 0, 1], 40_000).into()))
            .header(field, *value)
            .header(other, *ignored);
        let response = crate::hand::now(service.call(request.body(()).unwrap()));
        response.unwrap().status().as_u16()
    });
    statuses.collect()
}

#[test]
fn a_layer_behind_proxies_reads_the_one_field_it_was_given() {
    // Both fields are there. Which one the proxies write is known to whoever set them up, and to nobody else: the other
    // one is the client's own, and neither frees it nor makes it another.
    let rfc = [
        ("for=192.0.2.1, for=10.0.0.2", "198.51.100.1"),
        ("for=\"192.0.2.1:443\";proto=https", "198.51.100.2"),
        ("for=\"[2001:db8::1]:4711\"", "198.51.100.3"),
        ("For=\"[2001:db8::2]\", for=10.0.0.2", "198.51.100.4"),
        // These say nothing of the client: it shares the limit of the proxy that was called from there.
        ("for=192.0.2.7, for=unknown", "198.51.100.5"),
        ("for=_hidden", "198.51.100.6"),
        ("for=unknown, for=10.0.0.2", "198.51.100.7"),
    ];
    let statuses = through(
        Forwarded::rfc_7239(proxies()),
        "forwarded",
        "x-forwarded-for",
        &rfc,
    );
    // An IPv6 address counts by its first 64 bits.
    assert_eq!(statuses, [200, 429, 200, 429, 200, 429, 200]);

    let x = [
        ("192.0.2.1", "for=198.51.100.1"),
        ("192.0.2.1, 10.0.0.2", "for=198.51.100.2"),
        ("192.0.2.2", "for=192.0.2.1"),
    ];
    let statuses = through(proxies().into(), "x-forwarded-for", "forwarded", &x);
    assert_eq!(statuses, [200, 429, 200]);
}

#[test]
fn a_real_ip_is_one_address() {
    let key = Forwarded::x_real_ip(proxies());
    let of = |peer, lines: &[&[u8]]| client(&key, "x-real-ip", peer, lines);
    assert_eq!(of("10.0.0.1", &[b" 192.0.2.1 "]), "192.0.2.1");
    assert_eq!(of("192.0.2.9", &[b"192.0.2.1"]), "192.0.2.9");
    assert_eq!(of("10.0.0.1", &[]), "10.0.0.1");
    assert_eq!(of("10.0.0.1", &[b"192.0.2.1, 192.0.2.2"]), "10.0.0.1");
    assert_eq!(of("10.0.0.1", &[b"192.0.2.1", b"192.0.2.2"]), "10.0.0.1");
}

#[test]
fn the_walk_is_bounded() {
    let hops = |count| {
        let proxies = vec!["10.0.0.2"; count];
        format!("192.0.2.1,{}", proxies.join(","))
    };
    assert_eq!(
        x_forwarded_for("10.0.0.1", &[hops(63).as_bytes()]),
        "192.0.2.1"
    );
    assert_eq!(
        x_forwarded_for("10.0.0.1", &[hops(64).as_bytes()]),
        "10.0.0.1"
    );
    assert_eq!(
        x_forwarded_for("10.0.0.1", &[hops(1000).as_bytes()]),
        "10.0.0.1"
    );
    let lines = [&b"10.0.0.2"[..]; 1000];
    assert_eq!(x_forwarded_for("10.0.0.1", &lines), "10.0.0.1");

    // 8192 bytes from the right, with the comma that ends the hop.
    let padded = |blanks| format!("192.0.2.1,{}10.0.0.2", " ".repeat(blanks));
    let fits = 8192 - ",10.0.0.2".len();
    // The client itself has to fit as well, unless a comma shows where it begins.
    let before = fits - "192.0.2.1".len();
    assert_eq!(
        x_forwarded_for("10.0.0.1", &[padded(before).as_bytes()]),
        "192.0.2.1"
    );
    assert_eq!(
        x_forwarded_for("10.0.0.1", &[padded(before + 1).as_bytes()]),
        "10.0.0.1"
    );
    assert_eq!(
        x_forwarded_for("10.0.0.1", &[padded(20_000).as_bytes()]),
        "10.0.0.1"
    );

    let long = format!("{}, 192.0.2.1", "x".repeat(10_000));
    assert_eq!(x_forwarded_for("10.0.0.1", &[long.as_bytes()]), "192.0.2.1");
}

#[test]
fn a_key_has_prefixes_as_a_peer_has() {
    let key = Forwarded::x_forwarded_for(proxies()).ipv4_prefix(24);
    let of = |forwarded: &str| {
        let request = Request::get("/")
            .extension(PeerAddr("10.0.0.1:1".parse().unwrap()))
            .header("x-forwarded-for", forwarded)
            .body(())
            .unwrap();
        key.key(&Head::of(&request)).unwrap().to_string()
    };
    assert_eq!(of("192.0.2.1"), "192.0.2.0/24");
    assert_eq!(of("2001:db8::1"), "2001:db8::/64");
    assert!(key.key(&Head::of(&Request::new(()))).is_none());
}

/// Only `X-Forwarded-For` could be chosen where a layer is put behind proxies.
#[test]
fn a_single_header_is_one_line_with_one_address_from_a_trusted_proxy() {
    let key = Forwarded::single_header(proxies(), "cf-connecting-ip".parse().unwrap());
    let read = |peer: &str, lines: &[&[u8]]| client(&key, "cf-connecting-ip", peer, lines);
    assert_eq!(read("10.0.0.1", &[b"192.0.2.1"]), "192.0.2.1");
    assert_eq!(read("10.0.0.1", &[b" 2001:db8::1 "]), "2001:db8::1");
    assert_eq!(read("198.51.100.1", &[b"192.0.2.1"]), "198.51.100.1");
    let not_believed: [&[&[u8]]; 7] = [
        &[],
        &[b""],
        &[b"192.0.2.1, 192.0.2.2"],
        &[b"192.0.2.1", b"192.0.2.1"],
        &[b"unknown"],
        &[b"192.0.2.1 192.0.2.2"],
        &[b"192.0.2.256"],
    ];
    for lines in not_believed {
        assert_eq!(read("10.0.0.1", lines), "10.0.0.1", "{lines:?}");
    }
    // Other fields are not read.
    assert_eq!(
        client(&key, "x-forwarded-for", "10.0.0.1", &[b"192.0.2.1"]),
        "10.0.0.1"
    );
}
