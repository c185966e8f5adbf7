//! Lists to which proxies append, read from the right.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::header::ValueIter;
use http::{HeaderMap, HeaderName, HeaderValue};

/// The maximum number of hops that are read. No chain of proxies is that long.
const MOST_HOPS: usize = 64;

/// The maximum number of bytes that are read.
const MOST_BYTES: usize = 8192;

/// The list is longer than the part that is read.
#[derive(Debug)]
pub(super) struct TooLong;

/// The elements of a list, the last one first. Several lines are one list.
///
/// An element is found by the text to the right of it, so nothing that a client wrote, such as a quotation mark that is never
/// closed, can change how the elements of a proxy are parsed.
pub(super) struct Hops<'r> {
    lines: ValueIter<'r, HeaderValue>,
    rest: Option<&'r [u8]>,
    quotes: bool,
    hops_left: usize,
    bytes_left: usize,
}

impl<'r> Hops<'r> {
    /// The elements of this header field. With `quotes`, commas in quoted strings do not separate.
    pub(super) fn new(headers: &'r HeaderMap, name: &HeaderName, quotes: bool) -> Self {
        Self {
            lines: headers.get_all(name).iter(),
            rest: None,
            quotes,
            hops_left: MOST_HOPS,
            bytes_left: MOST_BYTES,
        }
    }
}

impl<'r> Iterator for Hops<'r> {
    type Item = Result<&'r [u8], TooLong>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = match self.rest.take() {
            Some(rest) => rest,
            None => self.lines.next_back()?.as_bytes(),
        };
        if self.hops_left == 0 {
            return Some(Err(TooLong));
        }
        self.hops_left -= 1;
        let within = &line[line.len().saturating_sub(self.bytes_left)..];
        let element = match last_comma(within, self.quotes) {
            Some(at) => {
                let at = at + line.len() - within.len();
                self.rest = Some(&line[..at]);
                &line[at + 1..]
            }
            None if within.len() < line.len() => return Some(Err(TooLong)),
            None => line,
        };
        self.bytes_left = self.bytes_left.saturating_sub(element.len() + 1);
        Some(Ok(element.trim_ascii()))
    }
}

fn last_comma(line: &[u8], quotes: bool) -> Option<usize> {
    if !quotes {
        return line.iter().rposition(|byte| *byte == b',');
    }
    let mut quoted = false;
    line.iter().enumerate().rev().find_map(|(at, byte)| {
        match byte {
            b'"' if !is_escaped(&line[..at]) => quoted = !quoted,
            b',' if !quoted => return Some(at),
            _ => {}
        }
        None
    })
}

/// Whether the character after this text is escaped: after an odd number of backslashes.
fn is_escaped(before: &[u8]) -> bool {
    let backslashes = before.iter().rev().take_while(|byte| **byte == b'\\');
    backslashes.count() % 2 == 1
}

/// The value of `for` in an element of RFC 7239's `Forwarded`, without its quotation marks. `None` if there is none, there are
/// several, or the element is malformed.
pub(super) fn for_parameter(element: &[u8]) -> Option<&[u8]> {
    let mut found = None;
    let mut rest = element;
    while !rest.is_empty() {
        let mut quoted = false;
        let mut escaped = false;
        let end = rest.iter().position(|byte| {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if quoted => escaped = true,
                b'"' => quoted = !quoted,
                b';' => return !quoted,
                _ => {}
            }
            false
        });
        if end.is_none() && quoted {
            return None;
        }
        let (pair, next) = match end {
            Some(end) => (&rest[..end], &rest[end + 1..]),
            None => (rest, &rest[rest.len()..]),
        };
        rest = next;
        let pair = pair.trim_ascii();
        if pair.is_empty() {
            continue;
        }
        let equals = pair.iter().position(|byte| *byte == b'=')?;
        if pair[..equals].eq_ignore_ascii_case(b"for")
            && found.replace(&pair[equals + 1..]).is_some()
        {
            return None;
        }
    }
    unquoted(found?)
}

/// The text between quotation marks, or the text itself if there are none. Addresses need no escapes.
pub(super) fn unquoted(text: &[u8]) -> Option<&[u8]> {
    let inner = match text.strip_prefix(b"\"") {
        Some(open) => open.strip_suffix(b"\"")?,
        None => text,
    };
    (!inner.iter().any(|byte| matches!(byte, b'"' | b'\\'))).then_some(inner)
}

/// The address of a hop: `192.0.2.1`, `2001:db8::1`, `[2001:db8::1]`, each also with a port. `None` for `unknown`, for
/// obfuscated names such as `_hidden`, and for everything else.
pub(super) fn address(hop: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(hop).ok()?;
    if let Some(open) = text.strip_prefix('[') {
        let (inside, after) = open.split_once(']')?;
        let ported = after.is_empty() || after.strip_prefix(':').is_some_and(is_port);
        let address: Ipv6Addr = inside.parse().ok().filter(|_| ported)?;
        return Some(IpAddr::from(address).to_canonical());
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address.to_canonical());
    }
    let (before, port) = text.split_once(':')?;
    let address: Ipv4Addr = before.parse().ok().filter(|_| is_port(port))?;
    Some(address.into())
}

/// A port, or an obfuscated name for one.
fn is_port(text: &str) -> bool {
    match text.strip_prefix('_') {
        Some(name) => {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            !name.is_empty() && name.bytes().all(allowed)
        }
        None => (1..=5).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit()),
    }
}
