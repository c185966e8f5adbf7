//! gRPC-Web: the trailers of a response are the last message of its body.
//!
//! A message is a byte of flags, four bytes of length, and the data. The highest flag marks trailers, which are written
//! as the header fields of HTTP/1. In the text form everything is base64, in parts that may each end with padding.

use base64::engine::general_purpose::STANDARD;
use base64::{DecodeSliceError, Engine};
use bytes::Buf;
use plimsoll::Outcome;

use super::outcome::outcome_of_status;

/// Trailers that are longer than this are not read.
const LONGEST: usize = 16 * 1024;

const HEAD: usize = 5;
const TRAILERS: u8 = 0x80;
/// Trailers that are compressed, or have unknown flags, are not read.
const OTHER_FLAGS: u8 = !TRAILERS;

/// Reads the body of a response for the status in it.
pub(super) struct Reader {
    text: Option<Group>,
    state: State,
}

enum State {
    /// The beginning of a message, and the number of its bytes so far.
    Head([u8; HEAD], usize),
    /// The number of bytes left of a message.
    Data(u32),
    /// Trailers, and their length.
    Trailers(Vec<u8>, usize),
    /// Reading has ended.
    Ended,
}

impl Reader {
    /// Creates a reader of a body in the text form, or in the binary one.
    pub(super) fn new(is_text: bool) -> Self {
        Self {
            text: is_text.then(Group::default),
            state: State::Head([0; HEAD], 0),
        }
    }

    /// Reads the next part of the body. Returns the outcome, if the part contains the status.
    pub(super) fn read(&mut self, part: &impl Buf) -> Option<Outcome> {
        let bytes = part.chunk();
        if bytes.len() < part.remaining() {
            // Parts that are not contiguous cannot be read without consuming them, and servers do not send them.
            self.state = State::Ended;
        }
        let Some(mut text) = self.text.take() else {
            return self.read_bytes(bytes);
        };
        let mut found = None;
        for byte in bytes {
            match text.push(*byte) {
                Ok((decoded, count)) => found = found.or(self.read_bytes(&decoded[..count])),
                Err(_) => self.state = State::Ended,
            }
        }
        self.text = Some(text);
        found
    }

    fn read_bytes(&mut self, mut bytes: &[u8]) -> Option<Outcome> {
        while !bytes.is_empty() {
            match &mut self.state {
                State::Head(head, filled) => {
                    let part = bytes.len().min(HEAD - *filled);
                    head[*filled..*filled + part].copy_from_slice(&bytes[..part]);
                    *filled += part;
                    bytes = &bytes[part..];
                    if *filled == HEAD {
                        self.state = State::after(*head);
                    }
                }
                State::Data(left) => {
                    let part = u32::try_from(bytes.len()).unwrap_or(u32::MAX).min(*left);
                    *left -= part;
                    bytes = &bytes[part as usize..];
                    if *left == 0 {
                        self.state = State::Head([0; HEAD], 0);
                    }
                }
                State::Trailers(text, length) => {
                    let part = bytes.len().min(*length - text.len());
                    text.extend_from_slice(&bytes[..part]);
                    bytes = &bytes[part..];
                    if text.len() == *length {
                        let outcome = status_in(text).map(outcome_of_status);
                        self.state = State::Ended;
                        return outcome;
                    }
                }
                State::Ended => return None,
            }
        }
        None
    }
}

impl State {
    /// The state after this beginning of a message.
    fn after([flags, length @ ..]: [u8; HEAD]) -> Self {
        let length = u32::from_be_bytes(length);
        if flags & TRAILERS == 0 {
            return match length {
                0 => Self::Head([0; HEAD], 0),
                _ => Self::Data(length),
            };
        }
        match usize::try_from(length) {
            Ok(length @ 1..=LONGEST) if flags & OTHER_FLAGS == 0 => {
                Self::Trailers(Vec::new(), length)
            }
            _ => Self::Ended,
        }
    }
}

/// The status in trailers.
fn status_in(trailers: &[u8]) -> Option<&[u8]> {
    trailers.split(|byte| *byte == b'\n').find_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let is_status = line[..colon].eq_ignore_ascii_case(b"grpc-status");
        is_status.then(|| line[colon + 1..].trim_ascii())
    })
}

/// Up to four characters of base64, which encode up to three bytes.
#[derive(Default)]
struct Group {
    characters: [u8; 4],
    filled: usize,
}

impl Group {
    /// Adds a character. If it completes the group, returns the bytes and their number.
    fn push(&mut self, character: u8) -> Result<([u8; 3], usize), DecodeSliceError> {
        let mut bytes = [0; 3];
        self.characters[self.filled] = character;
        self.filled = (self.filled + 1) % 4;
        let count = match self.filled {
            0 => STANDARD.decode_slice(self.characters, &mut bytes)?,
            _ => 0,
        };
        Ok((bytes, count))
    }
}
