//! Base64, as headers need it: the standard alphabet, written but never read.

/// Whether the end is filled up with `=`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Padding {
    /// Structured fields have it.
    Written,
    /// gRPC's headers do not.
    Omitted,
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Tells `put` the text of these bytes, four characters at a time, or fewer at the end.
pub(super) fn encode(bytes: &[u8], padding: Padding, mut put: impl FnMut(&[u8])) {
    for three in bytes.chunks(3) {
        let at = |index: usize| three.get(index).copied().unwrap_or(0);
        let sextets = [
            at(0) >> 2,
            (at(0) & 0b11) << 4 | at(1) >> 4,
            (at(1) & 0b1111) << 2 | at(2) >> 6,
            at(2) & 0b11_1111,
        ];
        let mut four = sextets.map(|sextet| ALPHABET[usize::from(sextet)]);
        // One byte needs two characters, two need three.
        let written = three.len() + 1;
        match padding {
            Padding::Written => {
                four[written..].fill(b'=');
                put(&four);
            }
            Padding::Omitted => put(&four[..written]),
        }
    }
}

#[cfg(test)]
mod tests {
    use ::base64::Engine;
    use ::base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_base64(bytes: Vec<u8>) {
            let text = |padding| {
                let mut text = Vec::new();
                encode(&bytes, padding, |four| text.extend_from_slice(four));
                String::from_utf8(text).unwrap()
            };
            prop_assert_eq!(text(Padding::Written), STANDARD.encode(&bytes));
            prop_assert_eq!(text(Padding::Omitted), STANDARD_NO_PAD.encode(&bytes));
        }
    }
}
