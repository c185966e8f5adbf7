//! Trusted proxies.

use std::net::IpAddr;

use plimsoll::InvalidLimit;

use super::Address;

/// The networks of the proxies that are trusted to report the addresses of clients.
///
/// List only proxies that you run yourself. Every host in these networks can claim any client address.
///
/// ```
/// use plimsoll_tower::keys::TrustedProxies;
///
/// let proxies = TrustedProxies::parse(["192.0.2.0/28", "2001:db8::7"])?.and(TrustedProxies::loopback());
/// assert!(proxies.contains("192.0.2.3".parse()?));
/// assert!(!proxies.contains("192.0.2.16".parse()?));
///
/// let typo = TrustedProxies::parse(["192.0.2.5/28"]).unwrap_err();
/// assert_eq!(typo.to_string(), "`network` is 192.0.2.5/28: expected no bits beyond the prefix");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TrustedProxies(Vec<Address>);

impl TrustedProxies {
    /// Trusts no proxy.
    #[must_use]
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// Trusts proxies on this machine that connect through the loopback addresses.
    #[must_use]
    pub fn loopback() -> Self {
        Self::of(&[(IpAddr::from([127, 0, 0, 0]), 8), (v6(0, 1), 128)])
    }

    /// Trusts the private networks: `10.0.0.0/8`, `172.16.0.0/12`, `192.168.0.0/16` and `fc00::/7`.
    ///
    /// Use this only if all hosts in these networks that connect are proxies of yours. If clients do too, list the proxies.
    #[must_use]
    pub fn private() -> Self {
        Self::of(&[
            (IpAddr::from([10, 0, 0, 0]), 8),
            (IpAddr::from([172, 16, 0, 0]), 12),
            (IpAddr::from([192, 168, 0, 0]), 16),
            (v6(0xfc00, 0), 7),
        ])
    }

    /// Trusts all peers on Unix sockets: see [`UnixPeer`](super::UnixPeer).
    ///
    /// Use this only if the path and the mode of the socket allow only your proxy to open it.
    #[must_use]
    pub fn unix_sockets() -> Self {
        Self::of(&[(v6(0x100, 0), 32)])
    }

    fn of(networks: &[(IpAddr, u8)]) -> Self {
        let networks = networks.iter();
        Self(
            networks
                .map(|(address, prefix)| Address::network(*address, *prefix, *prefix))
                .collect(),
        )
    }

    /// Parses networks such as `192.0.2.0/24` or `2001:db8::/32`, and single addresses.
    ///
    /// # Errors
    ///
    /// Returns an error if one of them is neither a network nor an address, or has bits beyond its prefix.
    pub fn parse<T: AsRef<str>>(
        networks: impl IntoIterator<Item = T>,
    ) -> Result<Self, InvalidLimit> {
        let networks = networks.into_iter();
        networks
            .map(|text| network(text.as_ref()))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Trusts the proxies of both.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    /// Returns whether this address is trusted.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address))
    }
}

/// An address in which only the first and the last group are not zero.
fn v6(first: u16, last: u16) -> IpAddr {
    IpAddr::from([first, 0, 0, 0, 0, 0, 0, last])
}

fn network(text: &str) -> Result<Address, InvalidLimit> {
    let wrong = |rule| InvalidLimit::new("network", text, rule);
    let written = text.trim();
    let (address, prefix) = match written.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (written, None),
    };
    let address: IpAddr = address
        .parse()
        .map_err(|_| wrong("an IP address, or one with a prefix as in 192.0.2.0/24"))?;
    let Some(prefix) = prefix else {
        return Ok(address.into());
    };
    // Only digits: `parse` would accept a sign as well.
    let digits = prefix.bytes().all(|byte| byte.is_ascii_digit());
    let bits = prefix.parse::<u8>().ok().filter(|_| digits);
    let (most, rule) = match address {
        IpAddr::V4(_) => (32, "a prefix of 0 to 32 bits"),
        IpAddr::V6(_) => (128, "a prefix of 0 to 128 bits"),
    };
    let bits = bits
        .filter(|bits| *bits <= most)
        .ok_or_else(|| wrong(rule))?;
    // `::ffff:192.0.2.0/120` is an IPv4 network written in the other form.
    let mapped = address.is_ipv6() && address.to_canonical().is_ipv4();
    let bits = match bits.checked_sub(96) {
        Some(rest) if mapped => rest,
        None if mapped => return Err(wrong("a prefix of 96 to 128 bits")),
        _ => bits,
    };
    let network = Address::network(address, bits, bits);
    if network.ip() != address.to_canonical() {
        return Err(wrong("no bits beyond the prefix"));
    }
    Ok(network)
}
