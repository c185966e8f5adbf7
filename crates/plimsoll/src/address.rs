use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IP address as a key: without its port, reduced to the prefix that is limited as one.
///
/// A client chooses its port, so a limit that included the port could be evaded by connecting again. A customer of an
/// IPv6 provider has at least 2^64 addresses; so by default the first 64 bits of an IPv6 address count, and all bits of
/// an IPv4 address. An IPv4 address in its IPv6-mapped form (`::ffff:192.0.2.1`), as an IPv6 socket reports it, is that
/// IPv4 address.
///
/// ```
/// use plimsoll::Address;
/// use std::net::IpAddr;
///
/// let one: IpAddr = "2001:db8::1".parse()?;
/// let neighbour: IpAddr = "2001:db8::2".parse()?;
/// assert_eq!(Address::network(one, 32, 64), Address::network(neighbour, 32, 64));
/// assert_eq!(Address::network(one, 32, 64).to_string(), "2001:db8::/64");
/// assert_eq!(Address::from(one).to_string(), "2001:db8::1");
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// The upper and the lower half of the bits: a key is copied in whole words, and need not lie at a multiple of 16. IPv4
    /// addresses are in their IPv6-mapped form, where no IPv6 address is, masked or not.
    bits: (u64, u64),
    /// The prefix length in bits, as users count it: up to 32 for an IPv4 address.
    prefix: u8,
}

impl Address {
    /// Returns the network of this address, by the length of its prefix. A length above the maximum means the whole
    /// address.
    #[inline]
    #[must_use]
    pub fn network(address: IpAddr, ipv4_prefix: u8, ipv6_prefix: u8) -> Self {
        match address {
            IpAddr::V4(v4) => Self::network_v4(v4, ipv4_prefix),
            IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
                Some(v4) => Self::network_v4(v4, ipv4_prefix),
                None => Self::of_bits(v6.to_bits() & mask(ipv6_prefix), ipv6_prefix.min(128)),
            },
        }
    }

    /// The network of an IPv4 address: only its 32 bits are masked.
    #[inline]
    fn network_v4(address: Ipv4Addr, prefix: u8) -> Self {
        let prefix = prefix.min(32);
        let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
        let masked = Ipv4Addr::from_bits(address.to_bits() & mask);
        Self::of_bits(masked.to_ipv6_mapped().to_bits(), prefix)
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the halves of the bits")]
    const fn of_bits(bits: u128, prefix: u8) -> Self {
        Self {
            bits: ((bits >> 64) as u64, bits as u64),
            prefix,
        }
    }

    /// All bits as one number.
    #[inline]
    const fn number(&self) -> u128 {
        (self.bits.0 as u128) << 64 | self.bits.1 as u128
    }

    /// Returns the address that represents a user at the other end of a Unix socket, which has no network address.
    ///
    /// It is in `100::/32`, a part of the prefix that routers discard (RFC 6666), with the user ID in the next 32 bits:
    /// no packet can come from it, and each user is a network of its own if the first 64 bits count.
    ///
    /// ```
    /// use plimsoll::Address;
    ///
    /// let user = Address::network(Address::ip_of_user(1000), 32, 64);
    /// assert_eq!(user.to_string(), "100:0:0:3e8::/64");
    /// ```
    #[must_use]
    pub const fn ip_of_user(uid: u32) -> IpAddr {
        let [a, b, c, d] = uid.to_be_bytes();
        let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        IpAddr::V6(Ipv6Addr::new(0x100, 0, high, low, 0, 0, 0, 0))
    }

    /// Returns the address, or the first address of the network.
    #[must_use]
    pub fn ip(&self) -> IpAddr {
        IpAddr::V6(Ipv6Addr::from_bits(self.number())).to_canonical()
    }

    /// Returns the prefix length in bits.
    #[must_use]
    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    /// Returns whether this network contains `address`. No IPv6 network contains an IPv4 address, not even `::/0`.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let same_kind = self.ip().is_ipv4() == address.to_canonical().is_ipv4();
        same_kind && Self::network(address, self.prefix, self.prefix).bits == self.bits
    }

    /// Whether it is a single address and not a network.
    fn is_whole(&self) -> bool {
        self.prefix == if self.ip().is_ipv4() { 32 } else { 128 }
    }
}

/// A number with this many leading bits set.
fn mask(bits: u8) -> u128 {
    let others = 128_u8.saturating_sub(bits);
    u128::MAX.checked_shl(others.into()).unwrap_or(0)
}

impl From<IpAddr> for Address {
    fn from(address: IpAddr) -> Self {
        Self::network(address, 32, 128)
    }
}

impl Hash for Address {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // One number is faster to hash than a slice, and the prefix is the same for all keys of a limit.
        state.write_u128(self.number());
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_whole() {
            return self.ip().fmt(f);
        }
        write!(f, "{}/{}", self.ip(), self.prefix)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Serializes the text of `Display`: an address, or a network such as `2001:db8::/64`.
#[cfg(feature = "serde")]
impl serde::Serialize for Address {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Reads an address, or a network such as `2001:db8::/64`. Bits after the prefix are ignored.
#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Address {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        let read = match text.split_once('/') {
            None => text.parse().ok().map(IpAddr::into),
            Some((ip, prefix)) => {
                ip.parse()
                    .ok()
                    .zip(prefix.parse().ok())
                    .and_then(|(ip, prefix)| {
                        // A prefix that is too long for the address was shortened.
                        Some(Self::network(ip, prefix, prefix)).filter(|it| it.prefix == prefix)
                    })
            }
        };
        read.ok_or_else(|| {
            let expected = "an IP address, or a network such as 192.0.2.0/24";
            serde::de::Error::custom(format_args!("expected {expected}: {text:?}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_key_has_three_words() {
        assert_eq!((size_of::<Address>(), align_of::<Address>()), (24, 8));
    }

    #[test]
    fn no_masked_ipv6_address_is_an_ipv4_address() {
        for prefix in 0..=128 {
            for v6 in ["::", "::1", "::fffe:0:0", "::7fff:c000:201", "ffff::"] {
                for v4 in ["0.0.0.0", "192.0.2.1", "255.255.255.255"] {
                    let (v6, v4) = (
                        Address::network(ip(v6), prefix, prefix),
                        Address::network(ip(v4), prefix, prefix),
                    );
                    assert_ne!(v6.bits, v4.bits, "{v6} {v4}");
                }
            }
        }
    }

    #[test]
    fn networks_are_written_as_people_write_them() {
        for (address, v4, v6, text) in [
            ("192.0.2.77", 32, 64, "192.0.2.77"),
            ("::ffff:192.0.2.77", 24, 64, "192.0.2.0/24"),
            ("192.0.2.77", 0, 64, "0.0.0.0/0"),
            ("192.0.2.77", 200, 64, "192.0.2.77"),
            ("2001:db8:1:2:3::", 32, 56, "2001:db8:1::/56"),
            ("2001:db8::1", 32, 255, "2001:db8::1"),
            ("2001:db8::1", 32, 0, "::/0"),
        ] {
            assert_eq!(Address::network(ip(address), v4, v6).to_string(), text);
        }
    }
}
