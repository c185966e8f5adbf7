//! The wire format of Redis (RESP): parses commands without copying them, with bounds, and writes replies.

use std::fmt;

use smallvec::SmallVec;

/// Maximum number of arguments of a command.
const MOST_ARGUMENTS: usize = 64;
/// Maximum length of an argument.
const LONGEST_ARGUMENT: usize = 64 * 1024;
/// Maximum length of a line: a length, or an inline command.
const LONGEST_LINE: usize = 64 * 1024;

/// Maximum number of digits of a number. Clients write no leading zeros.
const MOST_DIGITS: usize = 20;

/// A protocol error. The server reports it and closes the connection.
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

/// The words of a command, borrowed from the read buffer.
pub(crate) type Words<'b> = SmallVec<[&'b [u8]; 8]>;

/// Parses one command from `buffer` and returns its length. `None` if it is incomplete.
pub(crate) fn read<'b>(buffer: &'b [u8], words: &mut Words<'b>) -> Result<Option<usize>, BadFrame> {
    words.clear();
    match buffer.first() {
        None => Ok(None),
        Some(b'*') => read_array(buffer, words),
        Some(_) => read_inline(buffer, words),
    }
}

fn read_array<'b>(buffer: &'b [u8], words: &mut Words<'b>) -> Result<Option<usize>, BadFrame> {
    // As in other servers, an empty array is not a command.
    let Some((count, mut at)) = number(buffer, 1, MOST_ARGUMENTS, BadFrame::Count)? else {
        return Ok(None);
    };
    for _ in 0..count {
        match buffer.get(at) {
            None => return Ok(None),
            Some(b'$') => {}
            Some(_) => return Err(BadFrame::Bulk),
        }
        let length = number(buffer, at + 1, LONGEST_ARGUMENT, BadFrame::Length)?;
        let Some((length, start)) = length else {
            return Ok(None);
        };
        let end = start + length;
        match buffer.get(end..end + 2) {
            None => return Ok(None),
            Some(b"\r\n") => {}
            Some(_) => return Err(BadFrame::Bulk),
        }
        words.push(&buffer[start..end]);
        at = end + 2;
    }
    Ok(Some(at))
}

/// Parses an inline command: words, separated by spaces.
fn read_inline<'b>(buffer: &'b [u8], words: &mut Words<'b>) -> Result<Option<usize>, BadFrame> {
    let Some(end) = buffer.iter().position(|byte| *byte == b'\n') else {
        return match buffer.len() > LONGEST_LINE {
            true => Err(BadFrame::Line),
            false => Ok(None),
        };
    };
    let all = buffer[..end].split(u8::is_ascii_whitespace);
    for word in all.filter(|word| !word.is_empty()) {
        if words.len() == MOST_ARGUMENTS {
            return Err(BadFrame::Count);
        }
        words.push(word);
    }
    Ok(Some(end + 1))
}

/// Parses a line at `start` that is a number of at most `most`. Returns the number and the start of the next line, or the error
/// `bad` for any other line.
#[inline]
fn number(
    buffer: &[u8],
    start: usize,
    most: usize,
    bad: BadFrame,
) -> Result<Option<(usize, usize)>, BadFrame> {
    let mut number = 0_usize;
    let mut at = start;
    loop {
        match buffer.get(at) {
            None => return Ok(None),
            Some(b'\r') if at > start => break,
            Some(digit @ b'0'..=b'9') => {
                number = number * 10 + usize::from(digit - b'0');
                if number > most {
                    return Err(bad);
                }
            }
            Some(_) => return Err(bad),
        }
        at += 1;
        if at - start > MOST_DIGITS {
            return Err(BadFrame::Line);
        }
    }
    match buffer.get(at + 1) {
        None => Ok(None),
        Some(b'\n') => Ok(Some((number, at + 2))),
        Some(_) => Err(BadFrame::Line),
    }
}

/// Maximum length of an integer reply: `:`, a sign, 19 digits and CRLF.
const LONGEST_INTEGER: usize = 23;

/// A buffer of replies.
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

    /// Writes an error. Control characters become spaces, because a line break would end the reply.
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

    /// Writes an array of five numbers, the reply to most commands. It is formatted backwards in a local buffer and copied once.
    pub(crate) fn five(&mut self, numbers: [i64; 5]) {
        let mut text = [0; 4 + 5 * LONGEST_INTEGER];
        let mut at = text.len();
        let mut put = |byte| {
            at -= 1;
            text[at] = byte;
        };
        for number in numbers.into_iter().rev() {
            put(b'\n');
            put(b'\r');
            let mut rest = number.unsigned_abs();
            loop {
                put(b'0' + (rest % 10) as u8);
                rest /= 10;
                if rest == 0 {
                    break;
                }
            }
            if number < 0 {
                put(b'-');
            }
            put(b':');
        }
        at -= 4;
        text[at..at + 4].copy_from_slice(b"*5\r\n");
        self.buffer.extend_from_slice(&text[at..]);
    }

    pub(crate) fn bulk(&mut self, bytes: &[u8]) {
        self.line(b'$', itoa::Buffer::new().format(bytes.len()));
        self.buffer.extend_from_slice(bytes);
        self.buffer.extend_from_slice(b"\r\n");
    }

    pub(crate) fn array(&mut self, length: usize) {
        self.line(b'*', itoa::Buffer::new().format(length));
    }

    /// Begins a map of `pairs` pairs; for RESP2 clients an array of twice the length.
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

    /// The words of a command, and its length.
    type Command = (Vec<Vec<u8>>, usize);

    fn read(buffer: &[u8]) -> Result<Option<Command>, BadFrame> {
        let mut words = Words::new();
        let length = super::read(buffer, &mut words)?;
        let words = words.iter().map(|word| word.to_vec()).collect();
        Ok(length.map(|length| (words, length)))
    }

    #[test]
    fn five_numbers_are_an_array_of_integers() {
        for numbers in [
            [0, 1, -1, 9, 10],
            [i64::MAX, i64::MIN, 1_234_567_890, -90, 100],
        ] {
            let (mut one, mut each) = (Replies::default(), Replies::default());
            one.five(numbers);
            each.array(5);
            numbers.into_iter().for_each(|number| each.integer(number));
            assert_eq!(one.buffer, each.buffer);
        }
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
