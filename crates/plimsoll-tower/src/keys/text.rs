//! Keys of text, bounded.

use std::borrow::Cow;
use std::fmt::Write;

use sha2::{Digest, Sha256};

/// How many bytes of text a key has at most, unless set otherwise.
pub const LONGEST: usize = 256;

/// How many bytes of the digest are kept. Nobody finds another text to a digest of 128 bits.
const DIGEST: usize = 16;

/// Text that is no longer than `longest` bytes as it is; otherwise its beginning and a digest of all of it.
///
/// A limit keeps its keys, so their length decides how much memory strangers can fill. Cutting alone would put
/// different clients into one place. The digest is the same in every process, so limits that a fleet shares
/// agree on it.
///
/// What is made of long text has `longest` and up to 33 bytes: it is always longer than text that was short
/// enough, so that nobody can write down the short form of somebody else's key.
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

/// The bound of a text key, and what all of them do with their text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bound(pub(super) usize);

impl Default for Bound {
    fn default() -> Self {
        Self(LONGEST)
    }
}

impl Bound {
    /// A key of this text. Text that is empty but for blanks is no key.
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
