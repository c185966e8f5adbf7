use std::net::{IpAddr, Ipv6Addr};

/// The part of an address that is limited as one.
///
/// A masked IPv6 address stays one, so it never is the key of an IPv4 address.
pub(super) fn key(address: IpAddr, ipv6_prefix: u8) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let host_bits = 128 - u32::from(ipv6_prefix.min(128));
            let mask = u128::MAX.checked_shl(host_bits).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(one: &str, other: &str, prefix: u8) -> bool {
        let [one, other] = [one, other].map(|text| key(text.parse().unwrap(), prefix));
        one == other
    }

    #[test]
    fn a_prefix_is_for_ipv6_alone() {
        assert!(same("2001:db8::1", "2001:db8::2", 64));
        assert!(!same("2001:db8::1", "2001:db8:0:1::1", 64));
        assert!(!same("2001:db8::1", "2001:db8::2", 128));
        assert!(same("2001:db8::1", "fe80::1", 0));
        assert!(!same("192.0.2.1", "192.0.2.2", 1));
    }

    #[test]
    fn a_mapped_address_is_the_ipv4_address() {
        assert!(same("192.0.2.1", "::ffff:192.0.2.1", 64));
        assert!(!same("0.0.0.0", "::", 0));
        assert!(same("2001:db8::1", "2001:db8::1", 255));
    }
}
