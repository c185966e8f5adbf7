//! Scans the heads of HTTP/1 requests for ambiguities that hyper accepts, and that servers may parse differently.

use memchr::memchr;

use crate::fault::Fault;

/// The longest line that is scanned. hyper refuses a head with a longer one.
const LONGEST: usize = 64 * 1024;

/// A scanner of the bytes of one connection.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    state: State,
    /// The beginning of an incomplete line.
    line: Vec<u8>,
    length: Option<u64>,
    has_length: bool,
    is_chunked: bool,
    has_lines: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    #[default]
    Head,
    Body(u64),
    /// The start of the next head is unknown: after a chunked body, or a head that hyper will refuse.
    Unknown,
    /// The connection does not speak HTTP/1.
    Upgraded,
}

impl Scan {
    /// Stops scanning: the connection does not speak HTTP/1 from now on.
    pub(crate) fn upgraded(&mut self) {
        self.state = State::Upgraded;
    }

    /// Expects a head next, because a response was sent.
    pub(crate) fn next(&mut self) {
        if self.state == State::Unknown {
            *self = Self::default();
        }
    }

    /// Scans the next bytes.
    pub(crate) fn see(&mut self, mut data: &[u8]) -> Result<(), Fault> {
        while !data.is_empty() {
            match self.state {
                State::Upgraded | State::Unknown => return Ok(()),
                State::Body(left) => {
                    let part = usize::try_from(left).unwrap_or(usize::MAX).min(data.len());
                    data = &data[part..];
                    match left - part as u64 {
                        0 => *self = Self::default(),
                        left => self.state = State::Body(left),
                    }
                }
                State::Head => {
                    let Some(end) = memchr(b'\n', data) else {
                        self.line.extend_from_slice(data);
                        if self.line.len() > LONGEST {
                            self.state = State::Unknown;
                        }
                        return Ok(());
                    };
                    let (line, rest) = data.split_at(end + 1);
                    data = rest;
                    if self.line.is_empty() {
                        self.line(line)?;
                    } else {
                        let mut whole = std::mem::take(&mut self.line);
                        whole.extend_from_slice(line);
                        self.line(&whole)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Scans a line, including its line end.
    fn line(&mut self, line: &[u8]) -> Result<(), Fault> {
        let Some(line) = line.strip_suffix(b"\r\n") else {
            return Err(Fault::BareLineFeed);
        };
        if line.is_empty() {
            // Empty lines may precede a request.
            if self.has_lines {
                return self.head();
            }
            return Ok(());
        }
        if !self.has_lines {
            self.has_lines = true;
            if line == b"PRI * HTTP/2.0" {
                self.state = State::Upgraded;
            }
            return Ok(());
        }
        let Some(colon) = memchr(b':', line) else {
            return Ok(());
        };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            self.has_length = true;
            self.length = std::str::from_utf8(value)
                .ok()
                .and_then(|it| it.parse().ok());
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.is_chunked = true;
        }
        Ok(())
    }

    /// Checks a complete head.
    fn head(&mut self) -> Result<(), Fault> {
        let (length, has_length, is_chunked) = (self.length, self.has_length, self.is_chunked);
        *self = Self::default();
        self.state = match (is_chunked, has_length, length) {
            (true, true, _) => return Err(Fault::BothLengths),
            (true, false, _) | (false, true, None) => State::Unknown,
            (false, true, Some(0)) | (false, false, _) => State::Head,
            (false, true, Some(length)) => State::Body(length),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(text: &[u8]) -> Result<(), Fault> {
        let whole = Scan::default().see(text);
        // The result does not depend on the size of the parts.
        for size in 1..text.len() {
            let mut scan = Scan::default();
            let parts = text.chunks(size).try_for_each(|part| scan.see(part));
            assert_eq!(parts, whole, "{size}");
        }
        whole
    }

    #[test]
    fn heads_that_others_read_differently() {
        let ok: [&[u8]; 6] = [
            b"GET / HTTP/1.1\r\nhost: a\r\n\r\n",
            b"\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            b"POST / HTTP/1.1\r\ncontent-length: 3\r\n\r\na\nbGET / HTTP/1.1\r\n\r\n",
            b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\n\n\r\n0\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\n\n",
            b"",
        ];
        for text in ok {
            assert_eq!(scan(text), Ok(()), "{}", text.escape_ascii());
        }
        let bad: [(&[u8], Fault); 5] = [
            (b"GET / HTTP/1.1\nhost: a\n\n", Fault::BareLineFeed),
            (b"GET / HTTP/1.1\r\nhost: a\n\r\n", Fault::BareLineFeed),
            (
                b"POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
                Fault::BothLengths,
            ),
            (
                b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n",
                Fault::BothLengths,
            ),
            // A head that follows another request is scanned too.
            (
                b"POST / HTTP/1.1\r\ncontent-length: 1\r\n\r\nxGET / HTTP/1.1\n",
                Fault::BareLineFeed,
            ),
        ];
        for (text, fault) in bad {
            assert_eq!(scan(text), Err(fault), "{}", text.escape_ascii());
        }
    }

    #[test]
    fn after_chunks_the_next_head_is_looked_at_again() {
        let mut scan = Scan::default();
        let chunked = b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n";
        assert_eq!(scan.see(chunked), Ok(()));
        scan.next();
        assert_eq!(scan.see(b"GET / HTTP/1.1\n"), Err(Fault::BareLineFeed));
    }
}
