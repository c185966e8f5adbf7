//! The address of a client, behind trusted proxies.

use std::fmt;
use std::net::IpAddr;

use crate::uses::{Spelled, spelled_as_text};

/// The settings that determine the address of a client, which is the key `client`.
/// [`Config::client`](crate::Config::client) returns them.
///
/// ```
/// use plimsoll_config::{Config, Format};
///
/// let text = "proxies: [10.0.0.0/8]\nclient: { header: cf-connecting-ip }";
/// let config = Config::from_str("limits.yaml", text, Format::Yaml)?;
/// assert_eq!(config.client().header.as_deref(), Some("cf-connecting-ip"));
/// assert_eq!(config.client().ipv6_prefix, 64);
/// # Ok::<(), plimsoll_config::ConfigError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ClientSpec {
    /// The trusted proxies, whose header field names the client. Empty: the client is the peer of the connection.
    pub proxies: Vec<Network>,
    /// The number of bits of an IPv6 address that identify a client.
    pub ipv6_prefix: u8,
    /// The header field that names the client, in lower case: a field with a single address, or `forwarded` (RFC 7239). `None`:
    /// `x-forwarded-for`.
    pub header: Option<String>,
}

/// A network: the addresses with a common prefix, such as `10.0.0.0/8` or `2001:db8::/32`, or one address.
///
/// ```
/// use plimsoll_config::{Config, Format};
///
/// let config = Config::from_str("limits.yaml", "proxies: [10.0.0.0/8, '::1']", Format::Yaml)?;
/// let proxies = &config.client().proxies;
/// assert!(proxies[0].contains("10.1.2.3".parse()?));
/// assert!(!proxies[0].contains("11.1.2.3".parse()?));
/// assert_eq!(proxies[1].to_string(), "::1/128");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Network {
    /// The first address.
    pub address: IpAddr,
    /// The number of bits of the prefix.
    pub prefix: u8,
}

impl Network {
    /// Returns whether an address is in the network. An IPv4-mapped IPv6 address counts as its IPv4 address.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let shift = 32 - u32::from(self.prefix.min(32));
                let differ = u64::from(network.to_bits() ^ address.to_bits());
                differ >> shift == 0
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let differ = network.to_bits() ^ address.to_bits();
                let shift = 128 - u32::from(self.prefix.min(128));
                differ.checked_shr(shift).unwrap_or_default() == 0
            }
            _ => false,
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl Spelled for Network {
    const HARMLESS: &'static str = "text:::1";
    const WANTED: &'static str =
        "an address or a network such as 10.0.0.1, 10.0.0.0/8 or 2001:db8::/32";

    fn parse(text: &str) -> Result<Self, String> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| String::new())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let plain = |it: &str| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit());
        let prefix = match prefix {
            None => most,
            Some(prefix) if plain(prefix) => prefix.parse().unwrap_or(u8::MAX),
            Some(_) => return Err(String::new()),
        };
        if prefix > most {
            return Err(format!(": it has {most} bits"));
        }
        Ok(Self { address, prefix })
    }
}

spelled_as_text! {
    Network => {
        "description": "An address, or a network such as 10.0.0.0/8 or 2001:db8::/32.",
        "type": "string", "pattern": "^[0-9a-fA-F:.]+(/[0-9]{1,3})?$"
    }
}
