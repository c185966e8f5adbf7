//! Structured fields according to RFC 9651.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::HeaderValue;

/// The largest integer of the format: 15 digits.
pub(super) const LARGEST: u64 = 999_999_999_999_999;

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// A sink for text: first to measure it, then a buffer of exactly that size.
pub(super) trait Out {
    fn put(&mut self, bytes: &[u8]);

    /// Writes an integer, at most the largest one.
    fn integer(&mut self, number: u64) {
        self.put(itoa::Buffer::new().format(number.min(LARGEST)).as_bytes());
    }

    /// Writes a parameter of an item. The key includes its delimiters: `;r=`.
    fn parameter(&mut self, key: &[u8], number: u64) {
        self.put(key);
        self.integer(number);
    }

    /// Writes a String, which may contain only printable ASCII: everything else becomes `%` and two digits.
    ///
    /// JSON escapes the same two characters in the same way, so this is also a JSON string.
    fn string(&mut self, text: &str) {
        self.put(b"\"");
        runs(text, b"\"\\", |run, odd| {
            self.put(run);
            match odd {
                Some(special @ (b'"' | b'\\')) => self.put(&[b'\\', special]),
                Some(byte) => self.percent(byte),
                None => {}
            }
        });
        self.put(b"\"");
    }

    /// Writes a JSON string, which may contain all of Unicode.
    fn json_string(&mut self, text: &str) {
        self.put(b"\"");
        // Bytes of other characters are none of these.
        let is_odd = |byte: &u8| *byte < b' ' || *byte == b'"' || *byte == b'\\';
        let mut rest = text.as_bytes();
        while let Some(at) = rest.iter().position(is_odd) {
            let (run, odd) = rest.split_at(at);
            self.put(run);
            match odd[0] {
                special @ (b'"' | b'\\') => self.put(&[b'\\', special]),
                control => {
                    let (high, low) = (usize::from(control >> 4), usize::from(control & 15));
                    self.put(&[b'\\', b'u', b'0', b'0', HEX[high], HEX[low]]);
                }
            }
            rest = &odd[1..];
        }
        self.put(rest);
        self.put(b"\"");
    }

    /// Writes a byte as `%` and two digits.
    fn percent(&mut self, byte: u8) {
        let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
        self.put(&[b'%', HEX[high], HEX[low]]);
    }

    /// Writes a Byte Sequence.
    fn byte_sequence(&mut self, bytes: &[u8]) {
        self.put(b":");
        // In parts of whole groups, without an allocation: only the last one is padded.
        for part in bytes.chunks(48) {
            let mut text = [0; 64];
            if let Ok(length) = STANDARD.encode_slice(part, &mut text) {
                self.put(&text[..length]);
            }
        }
        self.put(b":");
    }
}

impl Out for usize {
    fn put(&mut self, bytes: &[u8]) {
        *self += bytes.len();
    }
}

impl Out for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// A text that is usually short enough to be written in place, and copied once.
pub(super) struct InPlace<const ROOM: usize> {
    place: [u8; ROOM],
    /// The length of what was written, including parts without room.
    length: usize,
}

/// The value of a field.
pub(super) type Line = InPlace<96>;

impl<const ROOM: usize> Default for InPlace<ROOM> {
    fn default() -> Self {
        Self {
            place: [0; ROOM],
            length: 0,
        }
    }
}

impl<const ROOM: usize> Out for InPlace<ROOM> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        let end = self.length + bytes.len();
        if let Some(room) = self.place.get_mut(self.length..end) {
            room.copy_from_slice(bytes);
        }
        self.length = end;
    }
}

impl<const ROOM: usize> InPlace<ROOM> {
    /// The whole text, if there was room for it.
    pub(super) fn text(&self) -> Option<&[u8]> {
        self.place.get(..self.length)
    }
}

/// Calls `each` with the runs of printable ASCII in a text, each with the byte that ends it: one that is not printable
/// ASCII, or one of `special`.
pub(super) fn runs(text: &str, special: &[u8], mut each: impl FnMut(&[u8], Option<u8>)) {
    let is_odd = |byte: &u8| !matches!(byte, b' '..=b'~') || special.contains(byte);
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(is_odd) {
        each(&rest[..at], Some(rest[at]));
        rest = &rest[at + 1..];
    }
    each(rest, None);
}

/// The output of `write`, in one allocation of the right size.
pub(super) fn written(write: impl Fn(&mut dyn Out)) -> Bytes {
    let mut page = InPlace::<512>::default();
    write(&mut page);
    if let Some(text) = page.text() {
        return Bytes::copy_from_slice(text);
    }
    let mut size = 0_usize;
    write(&mut size);
    let mut text = Vec::with_capacity(size);
    write(&mut text);
    Bytes::from(text)
}

/// The same as the value of a header field. `None` if it is not a valid value.
pub(super) fn value(write: impl Fn(&mut dyn Out)) -> Option<HeaderValue> {
    HeaderValue::from_maybe_shared(written(write)).ok()
}
