//! The names of keys: `namespace:{subject}:limiter:kind`.
//!
//! The subject is the hash tag, so that all limits of one subject are on one node of a cluster, and different subjects are spread
//! over the nodes. A subject is often a secret, such as an API key, an address or a token. By default its name is a keyed digest of
//! 128 bits, so that the store, its slow log and its dumps do not reveal it, and names are short.
//!
//! The hash tag is the text between the first `{` and the next `}`. Braces and the separator are escaped in all parts, so every byte
//! value is allowed and different subjects have different names.

use std::fmt;
use std::sync::{Mutex, TryLockError};

use sha2::{Digest, Sha256};

use crate::rule::RuleKind;

/// The naming of keys: how subjects become parts of key names.
#[derive(Clone)]
pub(crate) enum Naming {
    /// Readable, with escapes.
    Raw,
    /// A keyed digest.
    Digest(Box<Hmac>),
}

/// HMAC-SHA-256, initialized with the secret.
#[derive(Clone)]
pub(crate) struct Hmac {
    inner: Sha256,
    outer: Sha256,
}

/// The length of a digest in bytes.
const DIGEST: usize = 16;

/// The block length of SHA-256.
const BLOCK: usize = 64;

impl Naming {
    /// A digest with this secret.
    pub(crate) fn with_secret(secret: &[u8]) -> Self {
        let mut block = [0; BLOCK];
        if secret.len() > BLOCK {
            let hash = Sha256::digest(secret);
            block[..hash.len()].copy_from_slice(&hash);
        } else {
            block[..secret.len()].copy_from_slice(secret);
        }
        let begun = |pad: u8| Sha256::new_with_prefix(block.map(|byte| byte ^ pad));
        Self::Digest(Box::new(Hmac {
            inner: begun(0x36),
            outer: begun(0x5c),
        }))
    }

    /// A digest with a secret that is derived from the namespace.
    pub(crate) fn of_namespace(namespace: &[u8]) -> Self {
        let mut secret = Sha256::new_with_prefix(b"plimsoll-redis keys of ");
        secret.update(namespace);
        Self::with_secret(&secret.finalize())
    }

    fn write(&self, key: &mut Vec<u8>, subject: &[u8]) {
        match self {
            Self::Raw => {
                if subject.is_empty() {
                    // An empty pair of braces would not be a hash tag.
                    key.push(b'%');
                }
                escape(key, subject);
            }
            Self::Digest(hmac) => {
                let hash = hmac.inner.clone().chain_update(subject).finalize();
                let hash = hmac.outer.clone().chain_update(hash).finalize();
                let digit = |nibble: u8| b"0123456789abcdef"[usize::from(nibble)];
                let mut digits = [0; 2 * DIGEST];
                for (pair, byte) in digits.chunks_exact_mut(2).zip(hash) {
                    pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
                }
                key.extend_from_slice(&digits);
            }
        }
    }
}

/// Hides the secret.
impl fmt::Debug for Naming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Raw => "Raw",
            Self::Digest(_) => "Digest",
        })
    }
}

/// The prefix and the suffix of all keys of a limiter, and the keys that were named last.
pub(crate) struct Frame {
    before: Vec<u8>,
    after: Vec<u8>,
    recent: [Mutex<Named>; RECENT],
}

/// A subject and its key. Both are empty until the first subject is named.
struct Named {
    subject: Vec<u8>,
    key: Vec<u8>,
}

/// The number of recent keys that a limiter remembers. Callers of a busy subject then do not compute its digest each time, which
/// takes longer than the rest of what a caller does before it waits.
const RECENT: usize = 16;

/// The longest subject that is remembered.
const LONGEST_RECENT: usize = 128;

impl Frame {
    pub(crate) fn new(namespace: &[u8], limiter: &[u8], kind: RuleKind) -> Self {
        let (mut before, mut after) = (Vec::new(), b"}:".to_vec());
        escape(&mut before, namespace);
        before.extend_from_slice(b":{");
        escape(&mut after, limiter);
        after.extend_from_slice(&[b':', kind.letter()]);
        Self {
            before,
            after,
            recent: [const { Mutex::new(Named::NONE) }; RECENT],
        }
    }

    /// The key for `subject`.
    pub(crate) fn key(&self, naming: &Naming, subject: &[u8]) -> Vec<u8> {
        if matches!(naming, Naming::Raw) || subject.len() > LONGEST_RECENT {
            return self.name(naming, subject);
        }
        let mut recent = match self.recent[place(subject)].try_lock() {
            Ok(recent) => recent,
            Err(TryLockError::Poisoned(recent)) => recent.into_inner(),
            // Another caller reads or replaces it at this moment. A digest takes no longer than to wait for it.
            Err(TryLockError::WouldBlock) => return self.name(naming, subject),
        };
        if recent.key.is_empty() || recent.subject != subject {
            let key = self.name(naming, subject);
            recent.key.clone_from(&key);
            recent.subject.clear();
            recent.subject.extend_from_slice(subject);
            return key;
        }
        recent.key.clone()
    }

    fn name(&self, naming: &Naming, subject: &[u8]) -> Vec<u8> {
        let length = self.before.len() + 2 * DIGEST + self.after.len();
        let mut key = Vec::with_capacity(length);
        key.extend_from_slice(&self.before);
        naming.write(&mut key, subject);
        key.extend_from_slice(&self.after);
        key
    }
}

impl Named {
    const NONE: Self = Self {
        subject: Vec::new(),
        key: Vec::new(),
    };
}

/// The place of a subject among the recent ones. Subjects often differ only in their last bytes.
fn place(subject: &[u8]) -> usize {
    let mix = |place: usize, byte: &u8| place.wrapping_mul(31).wrapping_add(usize::from(*byte));
    subject.iter().rev().take(8).fold(subject.len(), mix) % RECENT
}

fn escape(key: &mut Vec<u8>, part: &[u8]) {
    for &byte in part {
        match byte {
            b'{' => key.extend_from_slice(b"%7B"),
            b'}' => key.extend_from_slice(b"%7D"),
            b':' => key.extend_from_slice(b"%3A"),
            b'%' => key.extend_from_slice(b"%25"),
            _ => key.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(naming: &Naming, namespace: &str, subject: &[u8], limiter: &str) -> String {
        let kind = RuleKind::FixedWindow;
        let (namespace, limiter) = (namespace.as_bytes(), limiter.as_bytes());
        let key = Frame::new(namespace, limiter, kind).key(naming, subject);
        String::from_utf8(key).expect("escaping keeps text text")
    }

    fn named(namespace: &str, subject: &str, limiter: &str) -> String {
        by(&Naming::Raw, namespace, subject.as_bytes(), limiter)
    }

    #[test]
    fn the_subject_is_the_hash_tag_whatever_it_holds() {
        assert_eq!(named("shop", "42", "api"), "shop:{42}:api:w");
        assert_eq!(named("s{h}", "a}{b", "x:y"), "s%7Bh%7D:{a%7D%7Bb}:x%3Ay:w");
        assert_eq!(named("", "", ""), ":{%}::w");
    }

    #[test]
    fn different_names_never_meet() {
        assert_ne!(named("a", "b:c", "d"), named("a:b", "c", "d"));
        assert_ne!(named("a", "", "d"), named("a", "%", "d"));
        assert_ne!(named("a", "%7B", "d"), named("a", "{", "d"));
    }

    /// RFC 4231, the test cases 2 and 6, of which the second has a secret longer than a block.
    #[test]
    fn digests_are_hmac_sha_256() {
        let naming = Naming::with_secret(b"Jefe");
        let name = by(&naming, "n", b"what do ya want for nothing?", "l");
        assert_eq!(name, "n:{5bdcc146bf60754e6a042426089575c7}:l:w");
        let naming = Naming::with_secret(&[0xaa; 131]);
        let subject = b"Test Using Larger Than Block-Size Key - Hash Key First";
        let name = by(&naming, "n", subject, "l");
        assert_eq!(name, "n:{60e431591ee0b67f0d8a26aacbf5b77f}:l:w");
    }

    /// More subjects than are remembered, so that they replace each other, and one too long to be remembered.
    #[test]
    fn recent_keys_are_those_of_their_subjects() {
        let naming = Naming::of_namespace(b"n");
        let frame = Frame::new(b"n", b"l", RuleKind::TokenBucket);
        let mut subjects: Vec<Vec<u8>> = (0..100_u8).map(|n| vec![n % 40; n.into()]).collect();
        subjects.push(vec![b'x'; LONGEST_RECENT + 1]);
        for subject in subjects
            .iter()
            .chain(&subjects)
            .chain(subjects.iter().rev())
        {
            assert_eq!(frame.key(&naming, subject), frame.name(&naming, subject));
            assert_eq!(frame.key(&naming, subject), frame.name(&naming, subject));
        }
    }

    #[test]
    fn names_are_short_and_differ_by_namespace_and_secret() {
        let long = vec![b'x'; 1 << 16];
        let one = by(&Naming::of_namespace(b"a"), "a", &long, "l");
        assert_eq!(one.len(), "a:{}:l:w".len() + 32);
        assert_ne!(one, by(&Naming::of_namespace(b"b"), "a", &long, "l"));
        assert_ne!(one, by(&Naming::with_secret(b"a"), "a", &long, "l"));
        assert_eq!(format!("{:?}", Naming::with_secret(b"a")), "Digest");
    }
}
