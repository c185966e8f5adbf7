//! Records as requests for the limits. One request is reused for all records.

use std::net::SocketAddr;

use http::header::{CONTENT_LENGTH, HOST, HeaderName, HeaderValue};
use http::{Method, Request, Uri};
use plimsoll_config::Config;
use plimsoll_engine::unknown_body;
use plimsoll_tower::Head;
use plimsoll_tower::keys::PeerAddr;

use crate::record::Record;

/// The largest number of cached names of header fields.
const NAMES: usize = 256;

/// A request that takes the values of one record after the other.
pub(crate) struct Replayed {
    request: Request<()>,
    uris: Uris,
    /// The names of header fields in logs, and whether a limit may look at them.
    names: Vec<(String, Option<HeaderName>)>,
    /// The configurations in lower case.
    config: String,
    /// Whether a limit may use the host, or the length of the body.
    host: bool,
    length: bool,
}

impl Replayed {
    pub(crate) fn new<'c>(configs: impl Iterator<Item = &'c Config>) -> Self {
        let mut request = Request::new(());
        unknown_body(request.extensions_mut());
        let config: String = configs
            .map(|config| config.to_string().to_ascii_lowercase())
            .collect();
        Self {
            request,
            uris: Uris::new(),
            names: Vec::new(),
            host: config.contains("host"),
            length: config.contains("bytes") || config.contains("length"),
            config,
        }
    }

    /// Takes the values of this record. Returns false if its target is invalid.
    pub(crate) fn set(&mut self, record: &Record) -> bool {
        let Some(uri) = self.uris.of(record.target()) else {
            return false;
        };
        *self.request.uri_mut() = uri;
        if self.request.method().as_str() != record.method() {
            let Ok(method) = Method::from_bytes(record.method().as_bytes()) else {
                return false;
            };
            *self.request.method_mut() = method;
        }
        let known = self.request.extensions_mut();
        match (record.client, known.get_mut::<PeerAddr>()) {
            (Some(client), Some(PeerAddr(peer))) => peer.set_ip(client),
            (Some(client), None) => drop(known.insert(PeerAddr(SocketAddr::new(client, 0)))),
            (None, Some(_)) => drop(known.remove::<PeerAddr>()),
            (None, None) => {}
        }
        let headers = self.request.headers_mut();
        if !headers.is_empty() {
            headers.clear();
        }
        for (name, value) in record.headers() {
            let name = match self.names.iter().find(|(known, _)| known == name) {
                Some((_, name)) => name,
                None => {
                    if self.names.len() >= NAMES {
                        self.names.clear();
                    }
                    let lower = name.to_ascii_lowercase();
                    let used = ["x-forwarded-for", "forwarded"].contains(&&*lower)
                        || self.config.contains(&lower);
                    let parsed = used.then(|| lower.parse().ok()).flatten();
                    self.names.push((name.to_owned(), parsed));
                    &self.names[self.names.len() - 1].1
                }
            };
            if let Some(name) = name
                && let Ok(value) = HeaderValue::from_str(value)
            {
                headers.append(name, value);
            }
        }
        if self.host
            && !record.host().is_empty()
            && let Ok(host) = HeaderValue::from_str(record.host())
        {
            headers.insert(HOST, host);
        }
        if self.length
            && let Some(received) = record.received
        {
            headers.insert(CONTENT_LENGTH, received.into());
        }
        true
    }

    pub(crate) fn head(&self) -> Head<'_> {
        Head::of(&self.request)
    }
}

/// A cache of recent targets. Most targets are frequent, and parsing one takes longer than a lookup.
struct Uris(Vec<(String, Uri)>);

/// The largest number of cached targets, and their longest length.
const KNOWN: usize = 1 << 10;
const LONG: usize = 256;

impl Uris {
    fn new() -> Self {
        Self(vec![(String::new(), Uri::default()); KNOWN])
    }

    /// Parses a target, or finds it in the cache. `None` if it is invalid.
    fn of(&mut self, target: &str) -> Option<Uri> {
        if target.is_empty() || target.len() > LONG {
            return read(target);
        }
        let hash = target.as_bytes().chunks(8).fold(0_u64, |hash, chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            (hash.rotate_left(23) ^ u64::from_le_bytes(word)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        });
        let slot = usize::try_from(hash >> 54).unwrap_or(0);
        let (known, uri) = &mut self.0[slot];
        if known != target {
            *uri = read(target)?;
            known.clear();
            known.push_str(target);
        }
        Some(uri.clone())
    }
}

fn read(target: &str) -> Option<Uri> {
    target.parse().or_else(|_| escaped(target).parse()).ok()
}

/// A target with invalid characters percent-encoded: logs escape in ways of their own.
fn escaped(target: &str) -> String {
    let mut text = String::with_capacity(target.len() + 16);
    if !target.starts_with('/') {
        text.push('/');
    }
    for byte in target.bytes() {
        match byte {
            b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' | 0..=b' ' | 0x7f.. => {
                text.push_str(&format!("%{byte:02X}"));
            }
            _ => text.push(char::from(byte)),
        }
    }
    text
}
