use std::borrow::Cow;

use super::KeyFrom;
use super::text::Bound;
use crate::Head;

/// The key is a parameter of the query, decoded.
///
/// Names and values are read as forms write them: `+` is a blank, `%41` is an `A`, and what is not UTF-8
/// becomes `U+FFFD`. If the parameter is repeated the first counts. A parameter that is missing or empty
/// gives no key.
///
/// ```
/// use plimsoll_tower::{Head, KeyFrom, keys::QueryKey};
///
/// let request = http::Request::get("/search?q=tea&ten%61nt=red+bull").body(())?;
/// let key = QueryKey::new("tenant").key(&Head::of(&request));
/// assert_eq!(key.as_deref(), Some("red bull"));
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueryKey {
    name: String,
    bound: Bound,
}

impl QueryKey {
    /// The value of the parameter of this name. Case matters.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            bound: Bound::default(),
        }
    }

    /// [Shortens](super::bounded) what is longer than this; [`LONGEST`](super::LONGEST) unless set.
    #[must_use]
    pub fn longest(mut self, bytes: usize) -> Self {
        self.bound = Bound(bytes);
        self
    }
}

impl KeyFrom for QueryKey {
    type Key = str;

    fn key<'r>(&self, head: &Head<'r>) -> Option<Cow<'r, str>> {
        let mut pairs = head.uri().query()?.split('&');
        let value = pairs.find_map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            // The application would decode the name, so `ten%61nt` must not get around the limit.
            Decoded(name.as_bytes())
                .eq(self.name.bytes())
                .then_some(value)
        })?;
        self.bound.key(decoded(value))
    }
}

fn decoded(text: &str) -> Cow<'_, str> {
    if !text.bytes().any(|byte| matches!(byte, b'%' | b'+')) {
        return Cow::Borrowed(text);
    }
    let bytes: Vec<u8> = Decoded(text.as_bytes()).collect();
    Cow::Owned(match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(wrong) => String::from_utf8_lossy(wrong.as_bytes()).into_owned(),
    })
}

/// The bytes that a text of a form stands for. A `%` without two digits stands for itself.
struct Decoded<'r>(&'r [u8]);

impl Iterator for Decoded<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(match (first, rest) {
            (b'+', _) => b' ',
            (b'%', [high, low, after @ ..]) => match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) => {
                    self.0 = after;
                    high << 4 | low
                }
                _ => b'%',
            },
            (byte, _) => *byte,
        })
    }
}

fn digit(byte: u8) -> Option<u8> {
    Some(match byte {
        b'0'..=b'9' => byte - b'0',
        b'a'..=b'f' => byte - b'a' + 10,
        b'A'..=b'F' => byte - b'A' + 10,
        _ => return None,
    })
}
