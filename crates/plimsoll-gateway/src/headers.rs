//! Hop-by-hop header fields, and the header fields about the origin of a request.

use std::net::SocketAddr;

use http::header::{
    self, CONNECTION, CONTENT_LENGTH, COOKIE, Entry, FORWARDED, HOST, TE, TRANSFER_ENCODING,
    UPGRADE, VIA,
};
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Uri, Version};

use crate::fault::Fault;

const X_FORWARDED: &str = "x-forwarded-";
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// The peer of a connection.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    /// The address of the peer, without the port.
    text: HeaderValue,
    scheme: &'static str,
    /// The start of an element of `Forwarded`.
    forwarded: String,
}

impl Peer {
    pub(crate) fn new(address: SocketAddr, is_tls: bool) -> Self {
        let ip = address.ip().to_canonical();
        let text = ip.to_string();
        let scheme = if is_tls { "https" } else { "http" };
        let name = if ip.is_ipv6() {
            format!("\"[{text}]\"")
        } else {
            text.clone()
        };
        Self {
            address,
            text: HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("unknown")),
            scheme,
            forwarded: format!("for={name};proto={scheme};host="),
        }
    }
}

/// The tokens of a list field.
fn tokens(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(name).into_iter();
    let lines = lines.filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim)
}

fn has_token(headers: &HeaderMap, name: HeaderName, word: &str) -> bool {
    tokens(headers, name).any(|token| token.eq_ignore_ascii_case(word))
}

/// The protocol that an HTTP/1.1 request upgrades to, if it is allowed. HTTP/2 is not: requests inside would bypass the limits.
pub(crate) fn upgrade_of(headers: &HeaderMap) -> Option<HeaderValue> {
    let wanted = headers.get(UPGRADE)?;
    let text = wanted.to_str().ok()?;
    let http2 = text
        .split(',')
        .any(|it| it.trim().eq_ignore_ascii_case("h2c"));
    (!http2 && has_token(headers, CONNECTION, "upgrade")).then(|| wanted.clone())
}

/// Removes the fields that belong to one connection (RFC 9110, 7.6.1).
pub(crate) fn strip(headers: &mut HeaderMap) {
    if headers.contains_key(CONNECTION) {
        // `keep-alive`, the most frequent token, names a field that is removed below.
        let named: Vec<HeaderName> = tokens(headers, CONNECTION)
            .filter(|token| !token.eq_ignore_ascii_case("keep-alive"))
            .filter_map(|token| HeaderName::from_bytes(token.as_bytes()).ok())
            .filter(|name| ![HOST, CONTENT_LENGTH, TE].contains(name))
            .collect();
        for name in named {
            headers.remove(name);
        }
        headers.remove(CONNECTION);
    }
    for name in [KEEP_ALIVE, PROXY_CONNECTION, TRANSFER_ENCODING, UPGRADE] {
        headers.remove(name);
    }
    if headers.contains_key(TE) {
        let trailers = has_token(headers, TE, "trailers");
        headers.remove(TE);
        if trailers {
            headers.insert(TE, HeaderValue::from_static("trailers"));
        }
    }
}

/// Appends `Via` for a message of this version.
pub(crate) fn via(headers: &mut HeaderMap, version: Version) {
    let here = match version {
        Version::HTTP_10 => HeaderValue::from_static("1.0 plimsoll"),
        Version::HTTP_2 => HeaderValue::from_static("2 plimsoll"),
        _ => HeaderValue::from_static("1.1 plimsoll"),
    };
    headers.append(VIA, here);
}

/// The host of a request. Only HTTP/1.0 may lack one.
pub(crate) fn host(
    uri: &Uri,
    headers: &HeaderMap,
    version: Version,
) -> Result<Option<HeaderValue>, Fault> {
    let mut lines = headers.get_all(HOST).iter();
    let (first, more) = (lines.next(), lines.next());
    if more.is_some() {
        return Err(Fault::BadHost);
    }
    // The target takes precedence over the field (RFC 9112, 3.2.2).
    let host = match uri.authority() {
        Some(authority) => HeaderValue::from_str(authority.as_str()).ok(),
        None => first.cloned(),
    };
    let Some(host) = host else {
        return if version == Version::HTTP_10 {
            Ok(None)
        } else {
            Err(Fault::BadHost)
        };
    };
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~:[]%".contains(byte);
    let text = host.as_bytes();
    if text.iter().all(plain) && (text.is_empty() || Authority::try_from(text).is_ok()) {
        Ok(Some(host))
    } else {
        Err(Fault::BadHost)
    }
}

/// Sets the header fields about the origin of a request. Those that the request has are kept only if its peer is `trusted`.
pub(crate) fn forwarded(
    headers: &mut HeaderMap,
    peer: &Peer,
    host: Option<&HeaderValue>,
    trusted: bool,
) {
    if !trusted {
        let claimed: Vec<HeaderName> = headers
            .keys()
            .filter(|name| name.as_str().starts_with(X_FORWARDED))
            .cloned()
            .collect();
        for name in claimed {
            headers.remove(name);
        }
        headers.remove(FORWARDED);
        headers.remove(X_REAL_IP);
    }
    extend(headers, X_FORWARDED_FOR, &peer.text);
    if let Entry::Vacant(proto) = headers.entry(X_FORWARDED_PROTO) {
        proto.insert(HeaderValue::from_static(peer.scheme));
    }
    if let Some(host) = host
        && let Entry::Vacant(entry) = headers.entry(X_FORWARDED_HOST)
    {
        entry.insert(host.clone());
    }
    let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
    if let Ok(element) = HeaderValue::try_from([&peer.forwarded, "\"", host, "\""].concat()) {
        extend(headers, FORWARDED, &element);
    }
}

/// Appends to a list field on one line, because many servers read only the first line.
fn extend(headers: &mut HeaderMap, name: HeaderName, last: &HeaderValue) {
    if !headers.contains_key(&name) {
        headers.insert(name, last.clone());
        return;
    }
    let mut line = Vec::new();
    for value in headers.get_all(&name).iter().chain([last]) {
        if !line.is_empty() {
            line.extend_from_slice(b", ");
        }
        line.extend_from_slice(value.as_bytes());
    }
    if let Ok(line) = HeaderValue::from_bytes(&line) {
        headers.insert(name, line);
    }
}

/// Joins the cookies of a request in one line: HTTP/2 may divide them over several, HTTP/1.1 has one (RFC 9113, 8.2.3).
pub(crate) fn join_cookies(headers: &mut HeaderMap) {
    if headers.get_all(COOKIE).iter().nth(1).is_none() {
        return;
    }
    let lines: Vec<&[u8]> = headers
        .get_all(COOKIE)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    if let Ok(line) = HeaderValue::from_bytes(&lines.join(&b"; "[..])) {
        headers.insert(header::COOKIE, line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(fields: &[(&'static str, &str)]) -> HeaderMap {
        let field = |(name, value): &(&'static str, &str)| {
            (
                HeaderName::from_static(name),
                value.parse().expect("a value"),
            )
        };
        fields.iter().map(field).collect()
    }

    #[test]
    fn fields_of_a_connection_are_removed() {
        let mut headers = map(&[
            ("connection", "close, X-Hop"),
            ("connection", "Host"),
            ("x-hop", "1"),
            ("host", "a"),
            ("te", "gzip, Trailers"),
            ("keep-alive", "timeout=5"),
            ("upgrade", "websocket"),
            ("transfer-encoding", "chunked"),
            ("proxy-connection", "close"),
            ("x-end", "1"),
        ]);
        strip(&mut headers);
        assert_eq!(
            headers,
            map(&[("host", "a"), ("te", "trailers"), ("x-end", "1")])
        );
    }

    #[test]
    fn nobody_is_believed_but_trusted_proxies() {
        let peer = Peer::new("192.0.2.7:1234".parse().expect("an address"), true);
        let claimed = [
            ("x-forwarded-for", "10.9.9.9"),
            ("x-forwarded-proto", "gopher"),
            ("x-forwarded-port", "1"),
            ("x-real-ip", "10.9.9.9"),
            ("forwarded", "for=10.9.9.9"),
        ];
        let host = HeaderValue::from_static("a.example:8443");
        let mut headers = map(&claimed);
        forwarded(&mut headers, &peer, Some(&host), false);
        let said = "for=192.0.2.7;proto=https;host=\"a.example:8443\"";
        let wanted = map(&[
            ("x-forwarded-for", "192.0.2.7"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "a.example:8443"),
            ("forwarded", said),
        ]);
        assert_eq!(headers, wanted);
        let mut headers = map(&claimed);
        forwarded(&mut headers, &peer, Some(&host), true);
        assert_eq!(headers["x-forwarded-for"], "10.9.9.9, 192.0.2.7");
        assert_eq!(headers["x-forwarded-proto"], "gopher");
        assert_eq!(headers["forwarded"], format!("for=10.9.9.9, {said}"));
    }

    #[test]
    fn a_request_has_one_host() {
        let host = |uri: &str, hosts: &[&str], version| {
            let fields: Vec<_> = hosts.iter().map(|host| ("host", *host)).collect();
            super::host(&uri.parse().expect("a target"), &map(&fields), version)
        };
        let is = |host: &str| Ok(Some(host.parse().expect("a value")));
        assert_eq!(
            host("/", &["a.example:80"], Version::HTTP_11),
            is("a.example:80")
        );
        assert_eq!(host("http://b/", &["a"], Version::HTTP_11), is("b"));
        assert_eq!(host("/", &[], Version::HTTP_10), Ok(None));
        for bad in [
            &[][..],
            &["a", "a"],
            &["a b"],
            &["a\"b"],
            &["a/b"],
            &["u@a"],
            &["a,b"],
        ] {
            assert_eq!(
                host("/", bad, Version::HTTP_11),
                Err(Fault::BadHost),
                "{bad:?}"
            );
        }
    }
}
