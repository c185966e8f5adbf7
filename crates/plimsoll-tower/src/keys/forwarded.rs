//! The client's address behind proxies.

use std::borrow::Cow;
use std::net::IpAddr;

use http::HeaderName;
use http::header::FORWARDED;

use super::address::Prefixes;
use super::hops::{Hops, address, for_parameter, unquoted};
use super::peer::{NO_PEER, peer_of};
use super::{Address, KeyFrom, Missing, TrustedProxies};
use crate::Head;

/// The key is the client's address, as trusted proxies report it.
///
/// ```
/// use plimsoll_tower::{Head, KeyFrom, keys::{Forwarded, PeerAddr, TrustedProxies}};
///
/// let client = Forwarded::x_forwarded_for(TrustedProxies::loopback());
/// let request = http::Request::get("/")
///     .extension(PeerAddr("127.0.0.1:40000".parse()?))
///     // The client wrote the first address, the proxy appended the second.
///     .header("x-forwarded-for", "198.51.100.1, 192.0.2.1")
///     .body(())?;
/// let key = client.key(&Head::of(&request));
/// assert_eq!(key.unwrap().to_string(), "192.0.2.1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Which addresses are trusted
///
/// Any client can send such a header, so each part is only as trustworthy as its writer. A proxy appends the address of
/// its peer to the header that it received. Hence:
///
/// - If the [peer](super::Peer) is not a trusted proxy, the header is ignored: the key is the peer.
/// - Otherwise the list is read from the right, over hops that are trusted proxies themselves. The first hop that is not
///   trusted is the client. A trusted proxy wrote it; everything to the left of it is ignored.
/// - If all hops are trusted, the leftmost is the client.
/// - Reading ends at an entry that is not an address (`unknown`, an obfuscated name, an empty entry), and the key is
///   the hop to the right of it: the proxy that reported no address, or the peer. Clients whose address a proxy does
///   not report share the limit of that proxy.
/// - If the client is not among the last 64 hops or 8192 bytes, the key is the peer.
///
/// So a client outside of the trusted networks can neither evade its key nor use another client's key by sending
/// headers. A client *inside* a trusted network can: it looks like a proxy. List proxies, not the networks of clients.
///
/// Only one header is read, because a proxy that appends to one header forwards the others as the client wrote them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forwarded {
    trusted: TrustedProxies,
    field: Field,
    prefixes: Prefixes,
}

/// The field in which the proxies report the address.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Field {
    XForwardedFor,
    Forwarded,
    /// A field with one address.
    Single(HeaderName),
}

static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
static X_REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

impl Forwarded {
    /// Reads `X-Forwarded-For`, to which most proxies append.
    #[must_use]
    pub fn x_forwarded_for(trusted: TrustedProxies) -> Self {
        Self::reading(trusted, Field::XForwardedFor)
    }

    /// Reads `Forwarded`, as RFC 7239 defines it.
    #[must_use]
    pub fn rfc_7239(trusted: TrustedProxies) -> Self {
        Self::reading(trusted, Field::Forwarded)
    }

    /// Reads `X-Real-IP`, a single address.
    ///
    /// The proxy must replace the value that the client sent. If it passes the header on, the client chooses its key. If the field
    /// is repeated or has no valid address, the key is the peer.
    #[must_use]
    pub fn x_real_ip(trusted: TrustedProxies) -> Self {
        Self::reading(trusted, Field::Single(X_REAL_IP.clone()))
    }

    /// Reads a field with this name and a single address, as content delivery networks send it: `CF-Connecting-IP`,
    /// `True-Client-IP`, `Fly-Client-IP`.
    ///
    /// As with [`X-Real-IP`](Self::x_real_ip), the proxy must replace the value that the client sent. Any value but one line with
    /// one address, which may have a port, is ignored: the key is then the peer.
    ///
    /// ```
    /// use plimsoll_tower::{Head, KeyFrom, keys::{Forwarded, PeerAddr, TrustedProxies}};
    ///
    /// let edge = TrustedProxies::parse(["198.51.100.0/24"])?;
    /// let client = Forwarded::single_header(edge, "cf-connecting-ip".parse()?);
    /// let request = http::Request::get("/")
    ///     .extension(PeerAddr("198.51.100.7:40000".parse()?))
    ///     .header("CF-Connecting-IP", "192.0.2.1")
    ///     .body(())?;
    /// let key = client.key(&Head::of(&request));
    /// assert_eq!(key.unwrap().to_string(), "192.0.2.1");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn single_header(trusted: TrustedProxies, name: HeaderName) -> Self {
        Self::reading(trusted, Field::Single(name))
    }

    fn reading(trusted: TrustedProxies, field: Field) -> Self {
        Self {
            trusted,
            field,
            prefixes: Prefixes::DEFAULT,
        }
    }

    /// Sets the number of leading bits of an IPv4 address that form the key. Default: 32, the whole address.
    #[must_use]
    pub const fn ipv4_prefix(mut self, bits: u8) -> Self {
        self.prefixes.ipv4 = bits;
        self
    }

    /// Sets the number of leading bits of an IPv6 address that form the key. Default: 64.
    #[must_use]
    pub const fn ipv6_prefix(mut self, bits: u8) -> Self {
        self.prefixes.ipv6 = bits;
        self
    }

    /// Returns the key of an address, for instance to set a limit for it.
    #[must_use]
    pub fn address(&self, address: IpAddr) -> Address {
        self.prefixes.of(address)
    }

    /// Returns the whole address of the client. `None` if the address of the peer is unknown.
    #[must_use]
    pub fn client(&self, head: &Head<'_>) -> Option<IpAddr> {
        let peer = peer_of(head)?;
        if !self.trusted.contains(peer) {
            return Some(peer);
        }
        let headers = head.headers();
        Some(match &self.field {
            Field::XForwardedFor => {
                self.walk(peer, Hops::new(headers, &X_FORWARDED_FOR, false), unquoted)
            }
            Field::Forwarded => {
                self.walk(peer, Hops::new(headers, &FORWARDED, true), for_parameter)
            }
            Field::Single(name) => {
                let mut lines = headers.get_all(name).iter();
                match (lines.next(), lines.next()) {
                    (Some(line), None) => address(line.as_bytes().trim_ascii()).unwrap_or(peer),
                    _ => peer,
                }
            }
        })
    }

    fn walk<'r>(
        &self,
        peer: IpAddr,
        hops: Hops<'r>,
        node: fn(&'r [u8]) -> Option<&'r [u8]>,
    ) -> IpAddr {
        let mut known = peer;
        for hop in hops {
            let Ok(hop) = hop else {
                return peer;
            };
            match node(hop).and_then(address) {
                Some(proxy) if self.trusted.contains(proxy) => known = proxy,
                Some(client) => return client,
                None => return known,
            }
        }
        known
    }
}

/// Proxies that append to `X-Forwarded-For`, as most do.
impl From<TrustedProxies> for Forwarded {
    fn from(trusted: TrustedProxies) -> Self {
        Self::x_forwarded_for(trusted)
    }
}

impl KeyFrom for Forwarded {
    type Key = Address;

    fn key<'r>(&self, head: &Head<'r>) -> Option<Cow<'r, Address>> {
        Some(Cow::Owned(self.address(self.client(head)?)))
    }

    fn missing(&self, _head: &Head<'_>) -> Missing {
        NO_PEER
    }
}
