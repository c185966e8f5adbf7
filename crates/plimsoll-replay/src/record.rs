//! One request of a log.

use std::net::IpAddr;

/// The reason why a line cannot be read.
pub(crate) type Why = &'static str;

/// A piece of the text of a record.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Span(u32, u32);

/// A request of a log: the content of one line.
///
/// [`Requests::next`](crate::Requests::next) lends it. Records are reused for other lines, so that reading a line does not allocate;
/// clone a record to keep it.
#[derive(Clone, Default, Debug)]
pub struct Record {
    /// The arrival, in nanoseconds since the epoch.
    pub(crate) at: i64,
    /// The moment in the line: the arrival, or the end of the answer.
    pub(crate) stamp: i64,
    /// Whether that moment is known only to the second.
    pub(crate) rough: bool,
    /// Whether that moment is the arrival.
    pub(crate) starts: bool,
    pub(crate) duration: Option<u64>,
    pub(crate) client: Option<IpAddr>,
    pub(crate) status: u16,
    pub(crate) sent: Option<u64>,
    pub(crate) received: Option<u64>,
    pub(crate) file: u32,
    pub(crate) line: u64,
    text: String,
    method: Span,
    target: Span,
    host: Span,
    headers: Vec<(Span, Span)>,
}

impl Record {
    /// The arrival of the request, in nanoseconds since the Unix epoch: the moment of its line, less its duration where lines have the
    /// moment of the answer.
    #[must_use]
    pub const fn at_nanos(&self) -> i64 {
        self.at
    }

    /// The method, such as `GET`.
    #[must_use]
    pub fn method(&self) -> &str {
        self.get(self.method)
    }

    /// The path and the query of the request.
    #[must_use]
    pub fn target(&self) -> &str {
        self.get(self.target)
    }

    /// The requested host. Empty if the log has none.
    #[must_use]
    pub fn host(&self) -> &str {
        self.get(self.host)
    }

    /// The address of the client. `None` if the log has none.
    #[must_use]
    pub const fn client(&self) -> Option<IpAddr> {
        self.client
    }

    /// The duration of the request, in nanoseconds. `None` if the log has none.
    #[must_use]
    pub const fn duration_nanos(&self) -> Option<u64> {
        self.duration
    }

    /// The status of the answer. 0 if the log has none.
    #[must_use]
    pub const fn status(&self) -> u16 {
        self.status
    }

    /// The number of the line in its file, from 1.
    #[must_use]
    pub const fn line(&self) -> u64 {
        self.line
    }

    /// The header fields in the log, as names and values.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers
            .iter()
            .map(|(name, value)| (self.get(*name), self.get(*value)))
    }

    fn get(&self, span: Span) -> &str {
        self.text
            .get(span.0 as usize..span.1 as usize)
            .unwrap_or_default()
    }

    /// Clears the record for another line.
    pub(crate) fn clear(&mut self) {
        let mut text = std::mem::take(&mut self.text);
        let mut headers = std::mem::take(&mut self.headers);
        text.clear();
        // Enough for most paths.
        text.reserve(64);
        headers.clear();
        *self = Self {
            text,
            headers,
            ..Self::default()
        };
    }

    /// A value computed from all parts of the record, to load it into the cache.
    pub(crate) fn look(&self) -> u64 {
        let first = u64::from(self.method.0) + u64::from(self.host.1) + u64::from(self.file);
        first
            .wrapping_add(self.line)
            .wrapping_add(self.duration.unwrap_or(0))
            .wrapping_add(self.sent.unwrap_or(0))
            .wrapping_add(self.at.unsigned_abs())
            .wrapping_add(self.headers.len() as u64)
    }

    /// A value computed from its text, to load it into the cache.
    pub(crate) fn look_at_text(&self) -> u64 {
        let bytes = self.text.as_bytes();
        let last = bytes.last().copied().unwrap_or(0);
        u64::from(last) + u64::from(bytes.first().copied().unwrap_or(0))
    }

    /// The memory of the record, in bytes.
    pub(crate) fn room(&self) -> usize {
        self.text.capacity()
            + self.headers.capacity() * size_of::<(Span, Span)>()
            + size_of::<Self>()
    }

    fn add(&mut self, text: &str) -> Span {
        let start = self.text.len();
        self.text.push_str(text);
        let at = |end: usize| u32::try_from(end).unwrap_or(u32::MAX);
        Span(at(start), at(self.text.len()))
    }

    pub(crate) fn set_method(&mut self, method: &str) {
        self.method = self.add(method);
    }

    pub(crate) fn set_target(&mut self, target: &str) {
        self.target = self.add(target);
    }

    pub(crate) fn set_host(&mut self, host: &str) {
        self.host = self.add(host);
    }

    /// Adds a header field, unless the log has nothing there.
    pub(crate) fn add_header(&mut self, name: &str, value: &str) {
        if !value.is_empty() && value != "-" {
            let name = self.add(name);
            let value = self.add(value);
            self.headers.push((name, value));
        }
    }

    /// Sets method and target from `GET /path HTTP/1.1`.
    pub(crate) fn set_request(&mut self, request: &str) -> Result<(), Why> {
        const WHY: Why = "its request is not a method, a path and a version";
        let (method, rest) = words(request).ok_or(WHY)?;
        // A version follows the last space, if there is one.
        let target = match memchr::memrchr(b' ', rest.as_bytes()) {
            Some(at) if rest[at + 1..].starts_with("HTTP/") => &rest[..at],
            _ => rest,
        };
        let known = !method.is_empty()
            && method
                .bytes()
                .all(|byte| byte.is_ascii_alphabetic() || byte == b'-');
        if !known || target.is_empty() || memchr::memchr(b' ', target.as_bytes()).is_some() {
            return Err(WHY);
        }
        // Copies both at once, with the space between them.
        let Span(start, _) = self.add(&request[..method.len() + 1 + target.len()]);
        let at = |length: usize| start.saturating_add(u32::try_from(length).unwrap_or(u32::MAX));
        self.method = Span(start, at(method.len()));
        self.target = Span(at(method.len() + 1), at(method.len() + 1 + target.len()));
        Ok(())
    }

    /// Sets the client from an address, with or without a port. A host in its place is ignored.
    pub(crate) fn set_client(&mut self, text: &str) {
        self.client = address(text);
    }

    /// Sets defaults, and checks that the record has everything that a request needs.
    pub(crate) fn complete(&mut self) -> Result<(), Why> {
        if self.stamp == 0 {
            return Err("it has no moment");
        }
        if self.method.1 == 0 {
            self.set_method("GET");
        }
        if self.target.0 == self.target.1 {
            return Err("it has no path");
        }
        self.at = match (self.starts, self.duration) {
            (false, Some(duration)) => self
                .stamp
                .saturating_sub(i64::try_from(duration).unwrap_or(i64::MAX)),
            _ => self.stamp,
        };
        Ok(())
    }
}

/// The first word, and the text after the space that follows it.
pub(crate) fn words(text: &str) -> Option<(&str, &str)> {
    let at = memchr::memchr(b' ', text.as_bytes())?;
    Some((&text[..at], &text[at + 1..]))
}

/// Parses an address, with or without a port.
pub(crate) fn address(text: &str) -> Option<IpAddr> {
    // IPv4, the most frequent, has a parser of its own, which is faster than the general one of the standard library.
    if let Some(four) = ipv4(text.as_bytes()) {
        return Some(four);
    }
    let inner = text.strip_prefix('[').and_then(|text| text.split_once(']'));
    if let Some((inner, _)) = inner {
        return inner.parse().ok();
    }
    text.parse()
        .ok()
        .or_else(|| text.rsplit_once(':')?.0.parse().ok())
}

fn ipv4(text: &[u8]) -> Option<IpAddr> {
    let mut octets = [0_u8; 4];
    let (mut at, mut digits, mut value) = (0, 0, 0_u16);
    for byte in text {
        match byte {
            b'0'..=b'9' => {
                value = value * 10 + u16::from(byte - b'0');
                digits += 1;
                if digits > 3 || value > 255 {
                    return None;
                }
            }
            b'.' if digits > 0 && at < 3 => {
                octets[at] = u8::try_from(value).ok()?;
                (at, digits, value) = (at + 1, 0, 0);
            }
            _ => return None,
        }
    }
    octets[3] = u8::try_from(value).ok()?;
    (at == 3 && digits > 0).then(|| IpAddr::from(octets))
}
