//! The names of keys: `namespace:{subject}:limiter:kind`.
//!
//! The subject is the hash tag, so that all limits of one subject lie on one node of a cluster, and those of different
//! subjects are spread. A tag is what stands between the first `{` and the next `}`, so these two are escaped
//! wherever they come from, and what separates the parts too; every byte value works, and no two names meet.

use crate::rule::Kind;

/// The key of `limiter` for `subject`.
pub(crate) fn key(namespace: &[u8], subject: &[u8], limiter: &[u8], kind: Kind) -> Vec<u8> {
    let mut key = Vec::with_capacity(namespace.len() + subject.len() + limiter.len() + 8);
    escape(&mut key, namespace);
    key.extend_from_slice(b":{");
    if subject.is_empty() {
        // Nothing between the braces would be no tag.
        key.push(b'%');
    }
    escape(&mut key, subject);
    key.extend_from_slice(b"}:");
    escape(&mut key, limiter);
    key.extend_from_slice(&[b':', kind.letter()]);
    key
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

    fn named(namespace: &str, subject: &str, limiter: &str) -> String {
        let kind = Kind::FixedWindow;
        let key = key(
            namespace.as_bytes(),
            subject.as_bytes(),
            limiter.as_bytes(),
            kind,
        );
        String::from_utf8(key).expect("escaping keeps text text")
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
}
