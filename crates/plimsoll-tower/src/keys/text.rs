//! Bounds for keys of text.

use std::borrow::Cow;
use std::fmt::Write;

use sha2::{Digest, Sha256};

/// The default maximum of the bytes of a text key, before its digest.
pub const MAX_LEN: usize = 256;

/// The bytes of the digest. It is infeasible to find another text for a digest of 128 bits.
const DIGEST: usize = 16;

/// Returns text of at most `longest` bytes unchanged, and otherwise its beginning with a digest of the whole text.
///
/// A limit stores its keys, so their length decides how much memory clients can fill. Truncation alone would merge different
/// clients into one key. The digest is the same in every process, so all processes of a fleet compute the same key.
///
/// The result for long text has `longest` bytes and up to 33 more. It is always longer than text that is not shortened, so a
/// client cannot send the shortened form of another client's key.
///
/// ```
/// use plimsoll_tower::keys::bounded;
///
/// let (one, other) = ("x".repeat(1000), "x".repeat(1001));
/// assert_eq!(bounded("short".into(), 8), "short");
/// assert_ne!(bounded(one.as_str().into(), 8), bounded(other.into(), 8));
/// assert_eq!(bounded(one.into(), 8).len(), 8 + 33);
/// ```
#[must_use]
pub fn bounded(text: Cow<'_, str>, longest: usize) -> Cow<'_, str> {
    if text.len() <= longest {
        text
    } else {
        Cow::Owned(folded(&text, longest))
    }
}

#[cold]
fn folded(text: &str, longest: usize) -> String {
    let mut cut = longest;
    while !text.is_char_boundary(cut) {
        cut -= 1;
    }
    let mut short = String::with_capacity(cut + 1 + 2 * DIGEST);
    short.push_str(&text[..cut]);
    short.push('~');
    for byte in &Sha256::digest(text)[..DIGEST] {
        // Writing to a String cannot fail.
        let _ok = write!(short, "{byte:02x}");
    }
    short
}

/// The maximum length of a text key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bound(pub(super) usize);

impl Default for Bound {
    fn default() -> Self {
        Self(MAX_LEN)
    }
}

impl Bound {
    /// The key for this text. Empty text and text of whitespace is no key.
    pub(super) fn borrowed(self, text: &[u8]) -> Option<Cow<'_, str>> {
        self.key(Cow::Borrowed(std::str::from_utf8(text.trim_ascii()).ok()?))
    }

    pub(super) fn key(self, text: Cow<'_, str>) -> Option<Cow<'_, str>> {
        (!text.is_empty()).then(|| bounded(text, self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_between_characters_and_stays_longer_than_the_bound() {
        let text = "ä".repeat(100);
        for longest in 0..200 {
            let short = bounded(text.as_str().into(), longest);
            assert!(short.len() > longest && short.len() <= longest + 33);
        }
        assert_eq!(bounded(text.as_str().into(), 200), text);
    }

    #[test]
    fn the_digest_is_the_same_everywhere() {
        // printf abc | sha256sum
        assert_eq!(
            bounded("abc".into(), 1),
            "a~ba7816bf8f01cfea414140de5dae2223"
        );
    }
}
