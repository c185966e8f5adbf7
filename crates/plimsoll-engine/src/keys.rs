//! Keys of requests: the sources that parts of a key are read from.

use std::borrow::Cow;
use std::fmt::Write;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};

use http::HeaderName;
use plimsoll::Address;
use plimsoll_config::ClientSpec;
use plimsoll_config::uses::{KeyPart, KeySpec};
use plimsoll_tower::internals::peer_of;
use plimsoll_tower::keys::{
    CookieKey, Forwarded, HeaderKey, MAX_LEN, Missing, PathKey, Peer, QueryKey, TrustedProxies,
    bounded,
};
use plimsoll_tower::{Head, KeyFrom};

use crate::request::{BodyValues, Claims, Descriptors};

/// The source of the address of a client.
#[derive(Clone, Debug)]
pub(crate) enum Client {
    Peer(Peer),
    Forwarded(Forwarded),
}

impl Client {
    pub(crate) fn new(spec: &ClientSpec) -> Self {
        let networks = spec.proxies.iter().map(ToString::to_string);
        // The file was checked before; an address that cannot be read would not be trusted.
        let trusted = TrustedProxies::parse(networks).unwrap_or_default();
        if trusted == TrustedProxies::none() {
            return Self::Peer(Peer::new().ipv6_prefix(spec.ipv6_prefix));
        }
        let name = spec.header.as_deref();
        let forwarded = match name.map(str::parse::<HeaderName>) {
            Some(Ok(name)) if name == http::header::FORWARDED => Forwarded::rfc_7239(trusted),
            Some(Ok(name)) if name.as_str() != "x-forwarded-for" => {
                Forwarded::single_header(trusted, name)
            }
            _ => Forwarded::x_forwarded_for(trusted),
        };
        Self::Forwarded(forwarded.ipv6_prefix(spec.ipv6_prefix))
    }
}

/// The source of one part of a key.
#[derive(Debug)]
pub(crate) enum Source {
    Client(Client),
    Peer(Peer),
    Method,
    Host,
    Path(PathKey),
    Route,
    Header(HeaderKey),
    Cookie(CookieKey),
    Query(QueryKey),
    Segment(usize),
    Descriptor(String),
    Claim(String),
    Form(String),
    Json(String),
    Constant(String),
}

impl Source {
    /// The source that a part of a key in the file describes. `None` if its name is invalid.
    pub(crate) fn new(part: &KeyPart, client: &Client) -> Option<Self> {
        Some(match part {
            KeyPart::Client => Self::Client(client.clone()),
            KeyPart::Peer => Self::Peer(Peer::new()),
            KeyPart::Method => Self::Method,
            KeyPart::Host => Self::Host,
            KeyPart::Path => Self::Path(PathKey::new()),
            KeyPart::Route => Self::Route,
            KeyPart::Header(name) | KeyPart::Metadata(name) => {
                Self::Header(HeaderKey::named(name).ok()?)
            }
            KeyPart::Cookie(name) => Self::Cookie(CookieKey::new(name)),
            KeyPart::Query(name) => Self::Query(QueryKey::new(name)),
            KeyPart::Segment(number) => Self::Segment(*number),
            KeyPart::Descriptor(name) => Self::Descriptor(name.clone()),
            KeyPart::Claim(name) => Self::Claim(name.clone()),
            KeyPart::Form(name) => Self::Form(name.clone()),
            KeyPart::Json(pointer) => Self::Json(pointer.clone()),
            KeyPart::Constant(text) => Self::Constant(text.clone()),
            _ => return None,
        })
    }

    /// The name of the descriptor entry that it reads, if it reads one.
    pub(crate) fn descriptor(&self) -> Option<&str> {
        match self {
            Self::Descriptor(name) => Some(name),
            _ => None,
        }
    }

    /// Whether it is read from the body.
    pub(crate) const fn reads_body(&self) -> bool {
        matches!(self, Self::Form(_) | Self::Json(_))
    }

    /// Whether it identifies the caller, so that the limit is the caller's own.
    pub(crate) const fn is_of_caller(&self) -> bool {
        !matches!(
            self,
            Self::Method | Self::Host | Self::Path(_) | Self::Route | Self::Constant(_)
        )
    }

    /// The remedy if the part is missing because of the program, not because of the caller.
    pub(crate) fn missing(&self, head: &Head<'_>) -> Option<&'static str> {
        let missing = match self {
            Self::Client(Client::Peer(peer)) | Self::Peer(peer) => peer.missing(head),
            Self::Client(Client::Forwarded(forwarded)) => forwarded.missing(head),
            _ => return None,
        };
        match missing {
            Missing::InProgram(remedy) => Some(remedy),
            _ => None,
        }
    }

    /// Writes the part of a request into `to`. Returns false if the request has none.
    #[inline]
    pub(crate) fn write(&self, head: &Head<'_>, route: &str, to: &mut impl Write) -> bool {
        let mut address = AddressText::default();
        let text = self.read(head, route, &mut address);
        text.is_some_and(|text| to.write_str(&text).is_ok())
    }

    /// The part of a request; an address is written into `address`. `None` if the request has none.
    #[inline]
    pub(crate) fn read<'a>(
        &'a self,
        head: &Head<'a>,
        route: &'a str,
        address: &'a mut AddressText,
    ) -> Option<Cow<'a, str>> {
        match self {
            Self::Client(Client::Peer(peer)) | Self::Peer(peer) => match peer_of(head)? {
                // A file cannot set a prefix for IPv4: the whole address counts.
                IpAddr::V4(ip) => Some(address.of_ipv4(ip).into()),
                ip => Some(address.of(&peer.address(ip)).into()),
            },
            _ => self.read_other(head, route, address),
        }
    }

    fn read_other<'a>(
        &'a self,
        head: &Head<'a>,
        route: &'a str,
        address: &'a mut AddressText,
    ) -> Option<Cow<'a, str>> {
        match self {
            Self::Client(Client::Peer(_)) | Self::Peer(_) => None,
            Self::Client(Client::Forwarded(forwarded)) => {
                let client = forwarded.key(head)?;
                Some(address.of(&client).into())
            }
            Self::Header(key) => key.key(head),
            Self::Cookie(key) => key.key(head),
            Self::Query(key) => key.key(head),
            Self::Path(key) => key.key(head),
            Self::Method => Some(head.method().as_str().into()),
            Self::Host => host(head).map(|host| bounded(host.into(), MAX_LEN)),
            Self::Route => Some(route.into()),
            Self::Segment(number) => {
                let segment = head.uri().path().split('/').nth(*number);
                let segment = segment.filter(|segment| !segment.is_empty());
                segment.map(|segment| bounded(segment.into(), MAX_LEN))
            }
            Self::Descriptor(name) => {
                let known = head.extensions().get::<Descriptors>()?;
                Some(bounded(known.get(name)?.into(), MAX_LEN))
            }
            Self::Claim(name) => {
                let known = head.extensions().get::<Claims>()?;
                Some(bounded(known.get(name)?.into(), MAX_LEN))
            }
            Self::Form(name) => {
                let body = head.extensions().get::<BodyValues>()?;
                Some(bounded(body.form(name)?, MAX_LEN))
            }
            Self::Json(pointer) => {
                let body = head.extensions().get::<BodyValues>()?;
                Some(bounded(body.json(pointer)?, MAX_LEN))
            }
            Self::Constant(text) => Some(text.as_str().into()),
        }
    }
}

/// The text of each octet followed by a dot, with the first byte lowest, and its length in bits.
static OCTETS: [(u32, u32); 256] = {
    let mut all = [(0, 0); 256];
    let mut octet = 0_u8;
    loop {
        let (mut digits, mut rest) = (b'.' as u32, octet as u32);
        let mut bits = 8;
        loop {
            digits = digits << 8 | (b'0' as u32 + rest % 10);
            bits += 8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        all[octet as usize] = (digits, bits);
        if octet == u8::MAX {
            break all;
        }
        octet += 1;
    }
};

/// A buffer for the text of an address: the longest one, with its prefix, has 43 bytes. It is aligned, so that an IPv4 address
/// is checked to be UTF-8 by one load of 16 bytes.
#[repr(align(16))]
pub(crate) struct AddressText([u8; 48]);

impl Default for AddressText {
    #[inline]
    fn default() -> Self {
        Self([0; 48])
    }
}

impl AddressText {
    /// The text of an address, as its `Display` writes it. An IPv4 address is written without the formatting machinery.
    fn of(&mut self, address: &Address) -> &str {
        if let (IpAddr::V4(ip), 32) = (address.ip(), address.prefix()) {
            return self.of_ipv4(ip);
        }
        let mut rest = &mut self.0[..];
        let written = write!(rest, "{address}").map(|()| rest.len());
        let end = self.0.len() - written.unwrap_or(self.0.len());
        std::str::from_utf8(&self.0[..end]).unwrap_or_default()
    }

    #[inline]
    fn of_ipv4(&mut self, ip: Ipv4Addr) -> &str {
        let pair = |one: u8, two: u8| {
            let ((one, first), (two, second)) =
                (OCTETS[usize::from(one)], OCTETS[usize::from(two)]);
            (u64::from(one) | u64::from(two) << first, first + second)
        };
        let [a, b, c, d] = ip.octets();
        let ((start, first), (end, second)) = (pair(a, b), pair(c, d));
        let text = u128::from(start) | u128::from(end) << first;
        self.0[..16].copy_from_slice(&text.to_le_bytes());
        let text = std::str::from_utf8(&self.0[..16]).unwrap_or_default();
        // Without the last dot.
        text.get(..((first + second) / 8 - 1) as usize)
            .unwrap_or_default()
    }
}

/// The sources of the parts of a key.
pub(crate) fn sources(parts: &[KeyPart], client: &Client) -> Vec<Source> {
    let sources = parts.iter().filter_map(|part| Source::new(part, client));
    sources.collect()
}

/// The host of a request, without its port.
pub(crate) fn host<'r>(head: &Head<'r>) -> Option<&'r str> {
    let authority = head.uri().authority().map(http::uri::Authority::as_str);
    let host = authority.or_else(|| head.header("host"))?;
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    if host.starts_with('[') {
        return host.find(']').map(|end| &host[..=end]);
    }
    Some(host.split(':').next().unwrap_or(host))
}

/// Writes the key of a request. Returns false, and writes nothing, if a part is missing.
pub(crate) fn write_key(parts: &[Source], head: &Head<'_>, route: &str, keys: &mut String) -> bool {
    let start = keys.len();
    let written = match parts {
        [part] => part.write(head, route, keys),
        parts => parts.iter().enumerate().all(|(index, part)| {
            (index == 0 || keys.write_char(KeySpec::SEPARATOR).is_ok())
                && part.write(head, route, &mut Escaped(keys))
        }),
    };
    if !written {
        keys.truncate(start);
    }
    written
}

/// Writes one of several parts of a key. `|` separates the parts; in a part it is escaped as `\|`, so that different keys have
/// different texts.
struct Escaped<'a>(&'a mut String);

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        const SPECIAL: [char; 2] = [KeySpec::SEPARATOR, '\\'];
        if !text.contains(SPECIAL) {
            return self.0.write_str(text);
        }
        for letter in text.chars() {
            if SPECIAL.contains(&letter) {
                self.0.write_char('\\')?;
            }
            self.0.write_char(letter)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_they_display_themselves() {
        let octets = [0, 1, 9, 10, 19, 99, 100, 101, 199, 200, 255];
        let four = octets.map(|octet| IpAddr::from([octet, 7, 255 - octet, octet]));
        let six = ["::1", "2001:db8::7", "::ffff:192.0.2.1"].map(|it| it.parse().unwrap());
        for ip in four.into_iter().chain(six) {
            for prefix in [0, 24, 31, 32, 64, 128] {
                let address = Address::network(ip, prefix, prefix);
                let mut text = AddressText::default();
                assert_eq!(text.of(&address), address.to_string());
            }
        }
    }
}
