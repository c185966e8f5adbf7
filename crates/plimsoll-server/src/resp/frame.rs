//! The wire format of Redis: commands in, replies out. Bounded, and without a copy of what is read.

use std::fmt;
use std::ops::Range;

/// How many arguments a command has at most.
const MOST_ARGUMENTS: usize = 64;
/// How long an argument is at most.
const LONGEST_ARGUMENT: usize = 64 * 1024;
/// How long a line is at most: a length, or a command that is typed.
const LONGEST_LINE: usize = 64 * 1024;

/// What is wrong with what a client sent. The connection is closed after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BadFrame {
    Line,
    Count,
    Length,
    Bulk,
}

impl fmt::Display for BadFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Line => "a line that is too long or has no CRLF",
            Self::Count => "expected an array of 1 to 64 arguments",
            Self::Length => "expected a length of 0 to 65536 bytes",
            Self::Bulk => "expected a bulk string with CRLF at its end",
        })
    }
}

/// The arguments of a command, as places in the buffer.
#[derive(Debug, Default)]
pub(crate) struct Arguments(Vec<Range<usize>>);

impl Arguments {
    pub(crate) fn of<'b>(&self, buffer: &'b [u8]) -> impl Iterator<Item = &'b [u8]> {
        self.0.iter().map(move |place| &buffer[place.clone()])
    }

    /// Reads one command from `buffer`, and says how long it is; `None` if it is not whole yet.
    pub(crate) fn read(&mut self, buffer: &[u8]) -> Result<Option<usize>, BadFrame> {
        self.0.clear();
        match buffer.first() {
            None => Ok(None),
            Some(b'*') => self.read_array(buffer),
            Some(_) => self.read_inline(buffer),
        }
    }

    fn read_array(&mut self, buffer: &[u8]) -> Result<Option<usize>, BadFrame> {
        let Some((count, mut at)) = line(buffer, 1)? else {
            return Ok(None);
        };
        // What other servers do as well: an array of nothing is no command.
        let Some(count @ ..=MOST_ARGUMENTS) = number(&buffer[count]) else {
            return Err(BadFrame::Count);
        };
        for _ in 0..count {
            match buffer.get(at) {
                None => return Ok(None),
                Some(b'$') => {}
                Some(_) => return Err(BadFrame::Bulk),
            }
            let Some((length, start)) = line(buffer, at + 1)? else {
                return Ok(None);
            };
            let Some(length @ ..=LONGEST_ARGUMENT) = number(&buffer[length]) else {
                return Err(BadFrame::Length);
            };
            let end = start + length;
            match buffer.get(end..end + 2) {
                None => return Ok(None),
                Some(b"\r\n") => {}
                Some(_) => return Err(BadFrame::Bulk),
            }
            self.0.push(start..end);
            at = end + 2;
        }
        Ok(Some(at))
    }

    /// A command as people type it: words, divided by blanks.
    fn read_inline(&mut self, buffer: &[u8]) -> Result<Option<usize>, BadFrame> {
        let Some(end) = buffer.iter().position(|byte| *byte == b'\n') else {
            return match buffer.len() > LONGEST_LINE {
                true => Err(BadFrame::Line),
                false => Ok(None),
            };
        };
        let mut start = None;
        for (at, byte) in buffer[..=end].iter().enumerate() {
            match (byte.is_ascii_whitespace(), start) {
                (false, None) => start = Some(at),
                (true, Some(from)) => {
                    if self.0.len() == MOST_ARGUMENTS {
                        return Err(BadFrame::Count);
                    }
                    self.0.push(from..at);
                    start = None;
                }
                _ => {}
            }
        }
        Ok(Some(end + 1))
    }
}

/// The line that begins at `start`: its place without CRLF, and where the next begins.
fn line(buffer: &[u8], start: usize) -> Result<Option<(Range<usize>, usize)>, BadFrame> {
    // A number has at most 20 digits.
    let rest = buffer.get(start..).unwrap_or_default();
    let within = &rest[..rest.len().min(32)];
    match within.iter().position(|byte| *byte == b'\r') {
        None if rest.len() >= 32 => Err(BadFrame::Line),
        None => Ok(None),
        Some(length) => match rest.get(length + 1) {
            None => Ok(None),
            Some(b'\n') => Ok(Some((start..start + length, start + length + 2))),
            Some(_) => Err(BadFrame::Line),
        },
    }
}

fn number(digits: &[u8]) -> Option<usize> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Replies, written into a buffer.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    pub(crate) buffer: Vec<u8>,
    /// Whether the client speaks RESP3.
    pub(crate) resp3: bool,
}

impl Replies {
    pub(crate) fn simple(&mut self, text: &str) {
        self.line(b'+', text);
    }

    /// An error. Line breaks would end it early.
    pub(crate) fn error(&mut self, text: &str) {
        let text: String = text
            .chars()
            .map(|it| if it.is_control() { ' ' } else { it })
            .collect();
        self.line(b'-', &text);
    }

    pub(crate) fn integer(&mut self, number: i64) {
        self.line(b':', itoa::Buffer::new().format(number));
    }

    pub(crate) fn bulk(&mut self, bytes: &[u8]) {
        self.line(b'$', itoa::Buffer::new().format(bytes.len()));
        self.buffer.extend_from_slice(bytes);
        self.buffer.extend_from_slice(b"\r\n");
    }

    pub(crate) fn array(&mut self, length: usize) {
        self.line(b'*', itoa::Buffer::new().format(length));
    }

    /// A map of so many pairs: an array of twice as many for clients that know no maps.
    pub(crate) fn map(&mut self, pairs: usize) {
        match self.resp3 {
            true => self.line(b'%', itoa::Buffer::new().format(pairs)),
            false => self.array(pairs * 2),
        }
    }

    fn line(&mut self, kind: u8, text: &str) {
        self.buffer.push(kind);
        self.buffer.extend_from_slice(text.as_bytes());
        self.buffer.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of a command, and how long it is.
    type Command = (Vec<Vec<u8>>, usize);

    fn read(buffer: &[u8]) -> Result<Option<Command>, BadFrame> {
        let mut arguments = Arguments::default();
        let length = arguments.read(buffer)?;
        let words = arguments.of(buffer).map(<[u8]>::to_vec).collect();
        Ok(length.map(|length| (words, length)))
    }

    #[test]
    fn commands_are_read_whole_or_not_at_all() {
        let command = b"*3\r\n$4\r\nECHO\r\n$0\r\n\r\n$3\r\na\r\n\r\n";
        for end in 0..command.len() {
            assert_eq!(read(&command[..end]), Ok(None), "{end}");
        }
        let words = vec![b"ECHO".to_vec(), Vec::new(), b"a\r\n".to_vec()];
        assert_eq!(read(command), Ok(Some((words, command.len()))));
    }

    #[test]
    fn typed_commands_are_words() {
        let (words, length) = read(b"  ping  hello \r\nnext").unwrap().unwrap();
        assert_eq!(
            (words, length),
            (vec![b"ping".to_vec(), b"hello".to_vec()], 16)
        );
        assert_eq!(read(b"\r\n"), Ok(Some((Vec::new(), 2))));
        assert_eq!(read(b"ping"), Ok(None));
    }

    #[test]
    fn what_is_no_command_is_an_error() {
        for (bytes, error) in [
            (&b"*65\r\n"[..], BadFrame::Count),
            (b"*-1\r\n", BadFrame::Count),
            (b"*+1\r\n", BadFrame::Count),
            (b"*1\r\n$65537\r\n", BadFrame::Length),
            (b"*1\r\n:1\r\n", BadFrame::Bulk),
            (b"*1\r\n$1\r\nab\r\n", BadFrame::Bulk),
            (b"*1\rx", BadFrame::Line),
            (
                b"*00000000000000000000000000000000000000001\r\n",
                BadFrame::Line,
            ),
        ] {
            assert_eq!(
                read(bytes),
                Err(error),
                "{}",
                String::from_utf8_lossy(bytes)
            );
        }
        assert_eq!(read(&vec![b'a'; LONGEST_LINE + 1]), Err(BadFrame::Line));
    }
}
