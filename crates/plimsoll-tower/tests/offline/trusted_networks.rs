//! Which networks are trusted, as they are written.

use plimsoll_tower::keys::TrustedProxies;

#[test]
fn networks_are_read_strictly() {
    for (network, inside, outside) in [
        ("192.0.2.0/24", "192.0.2.255", "192.0.3.0"),
        ("192.0.2.7", "192.0.2.7", "192.0.2.6"),
        ("192.0.2.7/32", "::ffff:192.0.2.7", "192.0.2.8"),
        ("0.0.0.0/0", "255.255.255.255", "::1"),
        ("::/0", "2001:db8::1", "192.0.2.1"),
        ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::"),
        ("::1", "::1", "::2"),
        ("::ffff:192.0.2.0/120", "192.0.2.9", "192.0.3.9"),
        (" 192.0.2.7 ", "192.0.2.7", "192.0.2.6"),
    ] {
        let proxies = TrustedProxies::parse([network]).unwrap();
        assert!(proxies.contains(inside.parse().unwrap()), "{network}");
        assert!(!proxies.contains(outside.parse().unwrap()), "{network}");
    }
    for (network, expected) in [
        (
            "192.0.2.0/33",
            "`network` is 192.0.2.0/33: expected a prefix of 0 to 32 bits",
        ),
        (
            "::/129",
            "`network` is ::/129: expected a prefix of 0 to 128 bits",
        ),
        (
            "::/256",
            "`network` is ::/256: expected a prefix of 0 to 128 bits",
        ),
        (
            "::ffff:0.0.0.0/95",
            "`network` is ::ffff:0.0.0.0/95: expected a prefix of 96 to 128 bits",
        ),
        (
            "192.0.2.1/24",
            "`network` is 192.0.2.1/24: expected no bits beyond the prefix",
        ),
        (
            "proxy.example",
            "`network` is proxy.example: expected an IP address, or one with a prefix as in 192.0.2.0/24",
        ),
    ] {
        let wrong = TrustedProxies::parse([network]).unwrap_err();
        assert_eq!(wrong.to_string(), expected);
    }
    for wrong in [
        "",
        "/",
        "/8",
        "10.0.0.0/",
        "10.0.0.0/+8",
        "10.0.0.0/8/8",
        "10.0.0/8",
    ] {
        assert!(TrustedProxies::parse([wrong]).is_err(), "{wrong}");
    }
}

#[test]
fn well_known_networks() {
    let ours = TrustedProxies::loopback().and(TrustedProxies::private());
    for inside in [
        "127.0.0.1",
        "127.255.255.255",
        "::1",
        "10.1.2.3",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "fc00::1",
        "fdff::1",
    ] {
        assert!(ours.contains(inside.parse().unwrap()), "{inside}");
    }
    for outside in [
        "128.0.0.1",
        "::2",
        "11.0.0.1",
        "172.32.0.0",
        "172.15.0.1",
        "192.169.0.0",
        "fe00::",
        "2001:db8::1",
        "0.0.0.0",
    ] {
        assert!(!ours.contains(outside.parse().unwrap()), "{outside}");
    }
}
