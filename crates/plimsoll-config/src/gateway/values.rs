//! Values of a gateway that are written as text: addresses, servers, sizes.

use std::borrow::Cow;
use std::fmt;
use std::net::SocketAddr;

use plimsoll_spec::Url;

use crate::uses::{Spelled, spelled_as_text};

/// An address with a port. In a file `127.0.0.1:8080` or `"[::1]:8080"`; `Display` writes it as a file has it.
///
/// ```
/// use plimsoll_config::gateway::Address;
///
/// assert_eq!(Address("127.0.0.1:8080".parse()?).to_string(), "127.0.0.1:8080");
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Address(pub SocketAddr);

/// A server: `http://10.0.0.1:9000`, `https://api.example.com`. See [`parse`](Self::parse).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Origin {
    /// Whether it uses TLS.
    pub tls: bool,
    /// Its name or address, without the brackets of an IPv6 address.
    pub host: String,
    /// Its port. Default: 80, or 443 with TLS.
    pub port: u16,
    /// Its name or address, and its port if the URL has one.
    pub authority: String,
}

/// A number of bytes, in a file with a unit such as `512KiB`, `10MiB` or `1GiB`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bytes(pub u64);

impl Spelled for Address {
    const HARMLESS: &'static str = "text:127.0.0.1:8080";
    const WANTED: &'static str =
        "an address with a port such as 127.0.0.1:8080, 0.0.0.0:80 or [::1]:8080";

    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|_| String::new())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Origin {
    /// Parses a URL of a scheme, a host and an optional port. A path, a query or credentials are errors.
    ///
    /// ```
    /// use plimsoll_config::gateway::Origin;
    ///
    /// let origin = Origin::parse("https://api.example.com").unwrap();
    /// assert_eq!((origin.tls, origin.port), (true, 443));
    /// assert!(Origin::parse("https://api.example.com/path").is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// Returns a hint, to be appended to `expected a server such as …`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text
            .split_once("://")
            .ok_or_else(|| format!(", did you mean `http://{}`?", Url::hidden(text)))?;
        let tls = match scheme {
            "http" => false,
            "https" => true,
            _ => return Err(": the scheme is http or https".to_owned()),
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.contains(['/', '?', '#']) {
            return Err(": paths are passed on as they are, so it has none".to_owned());
        }
        if authority.contains('@') {
            return Err(": a server has no user".to_owned());
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                let digits = port.bytes().all(|byte| byte.is_ascii_digit());
                let port = port.parse::<u16>().ok().filter(|port| digits && *port > 0);
                (
                    host,
                    Some(port.ok_or(": a port is a number from 1 to 65535")?),
                )
            }
            _ => (authority, None),
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        let address = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        let host = match address {
            Some(address) if address.parse::<std::net::Ipv6Addr>().is_ok() => address,
            None if !host.is_empty() && host.len() <= 253 && host.chars().all(plain) => host,
            _ => return Err(": its host is a name or an address".to_owned()),
        };
        Ok(Self {
            tls,
            host: host.to_owned(),
            port: port.unwrap_or(if tls { 443 } else { 80 }),
            authority: authority.to_owned(),
        })
    }

    /// The expected text of [`parse`](Self::parse), for error messages.
    pub const WANTED: &str = "a server such as http://10.0.0.1:9000 or https://api.example.com";
}

impl Spelled for Origin {
    const HARMLESS: &'static str = "text:http://127.0.0.1";
    const WANTED: &'static str = Self::WANTED;

    fn parse(text: &str) -> Result<Self, String> {
        Self::parse(text)
    }

    /// The URL may contain a password.
    fn shown(text: &str) -> Cow<'_, str> {
        Url::hidden(text)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority)
    }
}

impl Spelled for Bytes {
    const HARMLESS: &'static str = "text:1B";
    const WANTED: &'static str = "a number of bytes such as 512KiB, 10MiB or 1GiB";

    fn parse(text: &str) -> Result<Self, String> {
        let bytes = plimsoll_spec::Memory(text.to_owned()).bytes();
        bytes.map(Self).ok_or_else(String::new)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}B", self.0)
    }
}

spelled_as_text! {
    Address => {
        "description": "An address with a port such as 127.0.0.1:8080 or [::1]:8080.",
        "type": "string", "pattern": "^([0-9.]+|\\[[0-9a-fA-F:.]+\\]):[0-9]{1,5}$"
    }
    Origin => {
        "description": "A server such as `http://10.0.0.1:9000` or `https://api.example.com`.",
        "type": "string", "pattern": "^https?://[^/?#@]+/?$"
    }
    Bytes => {
        "description": "A number of bytes such as 512KiB, 10MiB or 1GiB.",
        "type": "string", "pattern": "^[0-9]+(B|KiB|MiB|GiB)$"
    }
}
