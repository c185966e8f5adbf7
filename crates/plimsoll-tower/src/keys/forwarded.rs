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

/// The key is the client's address, as trusted proxies tell it.
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
/// # Who is believed
///
/// Anybody can write such a header, so what matters is who wrote which part. A proxy appends the address it
/// was called from to what it was sent. Hence:
///
/// - If the [peer](super::Peer) is not a trusted proxy, the header is not looked at: the key is the peer.
/// - Otherwise the list is read from the right, over hops that are trusted proxies themselves. The first that is
///   not is the client. It was written by a trusted proxy; what stands to the left of it was not, and is not
///   looked at.
/// - If all are trusted, the leftmost is the client.
/// - Where something stands that is no address (`unknown`, a hidden name, nothing at all) reading ends, and
///   the key is the hop to the right of it: the proxy that would not say more, or the peer. Clients of
///   which a proxy tells nothing share the limit of that proxy.
/// - If the answer is not among the last 64 hops or 8192 bytes, the key is the peer.
///
/// So a client that is not in a trusted network can neither leave its key nor enter another's by what it writes.
/// A client that *is* in a trusted network can: it looks like a proxy. Name proxies, not the networks of clients.
///
/// One header is read and never the other, because a proxy that appends to one hands the other on as the
/// client wrote it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forwarded {
    trusted: TrustedProxies,
    field: Field,
    prefixes: Prefixes,
}

/// Which field the proxies write the address into.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Field {
    XForwardedFor,
    Forwarded,
    /// In a field with one address.
    Single(HeaderName),
}

static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
static X_REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

impl Forwarded {
    /// Reads `X-Forwarded-For`, which most proxies append to.
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
    /// The proxy must replace what the client sent in this header. If it only passes the header on, the client
    /// chooses its key. Where there are several lines or no address the key is the peer.
    #[must_use]
    pub fn x_real_ip(trusted: TrustedProxies) -> Self {
        Self::reading(trusted, Field::Single(X_REAL_IP.clone()))
    }

    /// Reads a field of this name with a single address, as networks that deliver content send it: `CF-Connecting-IP`,
    /// `True-Client-IP`, `Fly-Client-IP`.
    ///
    /// As with [`X-Real-IP`](Self::x_real_ip), the proxy must replace what the client sent. Anything but one line with one
    /// address, which may have a port, is not believed: the key is then the peer.
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

    /// How many bits of an IPv4 address count; 32, that is all, unless set.
    #[must_use]
    pub const fn ipv4_prefix(mut self, bits: u8) -> Self {
        self.prefixes.ipv4 = bits;
        self
    }

    /// How many bits of an IPv6 address count; 64 unless set.
    #[must_use]
    pub const fn ipv6_prefix(mut self, bits: u8) -> Self {
        self.prefixes.ipv6 = bits;
        self
    }

    /// The key of this address, for instance to give it limits of its own.
    #[must_use]
    pub fn address(&self, address: IpAddr) -> Address {
        self.prefixes.of(address)
    }

    /// The address of the client, all of it. None if not even the peer is known.
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
