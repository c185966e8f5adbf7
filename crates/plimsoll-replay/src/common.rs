//! Lines of text: the common and combined formats with fields that servers append, and Envoy's format.

use crate::duration::{self, DurationUnit};
use crate::record::{self, Record, Why};
use crate::time::{self, Stamp};

const NO_REQUEST: Why = "no request in quotes follows its moment";
const NO_MOMENT: Why = "what it has in brackets is not a moment";

/// Reads lines of the common and the combined format.
#[derive(Clone, Debug, Default)]
pub(crate) struct Common {
    /// The last moment that was read, because many lines have the same one.
    last: Option<([u8; 26], Stamp)>,
    /// The unit of trailing whole numbers, if they are durations.
    unit: Option<DurationUnit>,
    /// Whether a configuration may use the referer or the agent.
    named: bool,
}

impl Common {
    pub(crate) fn new(unit: Option<DurationUnit>, named: bool) -> Self {
        Self {
            last: None,
            unit,
            named,
        }
    }

    /// Reads `CLIENT IDENT USER [MOMENT] "REQUEST" STATUS BYTES "REFERER" "AGENT" …`.
    pub(crate) fn read(&mut self, line: &str, to: &mut Record) -> Result<(), Why> {
        let bytes = line.as_bytes();
        let (mut open, mut why) = (0, "it has no moment in brackets");
        let (stamp, end) = loop {
            open += memchr::memchr(b'[', &bytes[open..]).ok_or(why)?;
            let end = open + memchr::memchr(b']', &bytes[open..]).ok_or(why)?;
            let is_last = bytes[end + 1..].trim_ascii_start().starts_with(b"\"");
            match self.stamp(&bytes[open + 1..end]) {
                Some(stamp) if is_last => break (stamp, end),
                None if is_last => return Err(NO_MOMENT),
                // An address of IPv6 and a name of a user may have brackets too: the request follows those of the moment.
                Some(_) => (open, why) = (open + 1, NO_REQUEST),
                None => (open, why) = (open + 1, NO_MOMENT),
            }
        };
        (to.stamp, to.rough) = (stamp.nanos, stamp.rough);
        who(&line[..open], to);
        let mut rest = Rest(&line[end + 1..]);
        let Some(Part::Quoted(request)) = rest.next() else {
            return Err(NO_REQUEST);
        };
        to.set_request(request)?;
        let Some(Part::Plain(status)) = rest.next() else {
            return Err("no status follows its request");
        };
        to.status = number(status)
            .and_then(|it| u16::try_from(it).ok())
            .ok_or("its status is not a number")?;
        if let Some(Part::Plain(sent)) = rest.next() {
            // A body without bytes is written as a dash.
            to.sent = number(sent).or((sent == "-").then_some(0));
        }
        self.appended(rest, to);
        to.complete()
    }

    #[inline]
    fn stamp(&mut self, text: &[u8]) -> Option<Stamp> {
        let Ok(text) = <[u8; 26]>::try_from(text) else {
            return time::any(text);
        };
        match self.last {
            Some((last, stamp)) if last == text => Some(stamp),
            _ => {
                let stamp = time::any(&text)?;
                self.last = Some((text, stamp));
                Some(stamp)
            }
        }
    }

    /// Reads the fields after the bytes: the referer, the agent, and those that servers append.
    fn appended(&self, rest: Rest<'_>, to: &mut Record) {
        let (mut quoted, mut late) = (0, None);
        for part in rest {
            match part {
                Part::Quoted(text) => {
                    quoted += 1;
                    match quoted {
                        1 | 2 if !self.named => {}
                        1 => to.add_header("referer", text),
                        2 => to.add_header("user-agent", text),
                        3 if is_forwarded(text) => to.add_header("x-forwarded-for", text),
                        _ if has_millis(text) => {
                            late =
                                duration::duration(text.as_bytes(), DurationUnit::Seconds).or(late)
                        }
                        _ => {}
                    }
                }
                Part::Plain(text) if to.duration.is_none() => to.duration = self.duration(text),
                Part::Plain(_) => {}
            }
        }
        to.duration = to.duration.or(late);
    }

    /// Parses a duration. A number with a point is nginx' `$request_time`, and one with `ms` is Traefik's duration. Whole numbers
    /// are durations only if a unit is set.
    fn duration(&self, text: &str) -> Option<u64> {
        let (name, value) = match text.as_bytes().first() {
            Some(b'0'..=b'9') => ("", text),
            _ => text.split_once('=').unwrap_or(("", text)),
        };
        let value = value.trim_matches('"');
        let named = ["rt", "request_time", "duration"].contains(&name);
        let is = named
            || (name.is_empty()
                && (value.contains('.') || value.ends_with('s') || self.unit.is_some()));
        let unit = self.unit.unwrap_or(DurationUnit::Seconds);
        is.then(|| duration::duration(value.as_bytes(), unit))
            .flatten()
    }
}

/// Reads the fields before the moment: `CLIENT IDENT USER`, or with the host before them.
fn who(text: &str, to: &mut Record) {
    let (first, rest) = record::words(text).unwrap_or((text, ""));
    to.set_client(first);
    if to.client.is_none() {
        let second = rest.split(' ').next().unwrap_or_default();
        to.set_client(second);
        if to.client.is_some() {
            to.set_host(first);
        }
    }
}

/// Whether a number has at least three digits after its point, as nginx writes durations. Its `$gzip_ratio` has two.
fn has_millis(text: &str) -> bool {
    text.split_once('.')
        .is_some_and(|(_, fraction)| fraction.len() >= 3)
}

/// Whether a text is a list of addresses.
fn is_forwarded(text: &str) -> bool {
    let first = text.split(',').next().unwrap_or_default().trim();
    record::address(first).is_some()
}

/// Reads Envoy's default format: `[START] "REQUEST" STATUS FLAGS RECEIVED SENT MILLIS UPSTREAM "FORWARDED" "AGENT" "ID" "HOST"
/// "UPSTREAM"`.
pub(crate) fn envoy(line: &str, to: &mut Record) -> Result<(), Why> {
    let (stamp, rest) = line
        .strip_prefix('[')
        .and_then(|line| line.split_once(']'))
        .ok_or("it has no moment in brackets")?;
    let stamp = time::rfc_3339(stamp.as_bytes()).ok_or(NO_MOMENT)?;
    (to.stamp, to.rough, to.starts) = (stamp.nanos, stamp.rough, true);
    let mut rest = Rest(rest);
    let Some(Part::Quoted(request)) = rest.next() else {
        return Err(NO_REQUEST);
    };
    to.set_request(request)?;
    let mut plain = Vec::new();
    let mut quoted = Vec::new();
    // The words after the last quoted one.
    let mut last = 0;
    for part in rest {
        match part {
            // Newer versions have details in quotes or words here. Only the numbers are used.
            Part::Plain(text) => plain.push(text),
            Part::Quoted(text) => {
                quoted.push(text);
                last = plain.len();
            }
        }
    }
    to.status = plain
        .first()
        .and_then(|it| number(it))
        .and_then(|it| u16::try_from(it).ok())
        .ok_or("no status follows its request")?;
    let numbers: Vec<u64> = plain.iter().skip(1).filter_map(|it| number(it)).collect();
    if let [received, sent, millis, ..] = numbers[..] {
        (to.received, to.sent) = (Some(received), Some(sent));
        to.duration = millis
            .checked_mul(1_000_000)
            .filter(|it| *it <= 86_400_000_000_000);
    }
    if let [.., forwarded, agent, id, host, _upstream] = quoted[..] {
        to.add_header("x-forwarded-for", forwarded);
        to.add_header("user-agent", agent);
        to.add_header("x-request-id", id);
        to.set_host(if host == "-" { "" } else { host });
        // The format has no peer. The last entry of X-Forwarded-For is the address that Envoy appended.
        let appended = forwarded.rsplit(',').next().unwrap_or_default();
        to.set_client(appended.trim());
    }
    // Istio appends the cluster, the local addresses of both sides, the peer, and two names.
    if let (None, [_, _, _, peer, _, _]) = (to.client, &plain[last..]) {
        to.set_client(peer);
    }
    to.complete()
}

/// Reads a line that begins with a moment; a method and a path may follow.
pub(crate) fn times(line: &str, to: &mut Record) -> Result<(), Why> {
    // Blanks may separate the date, the time and the zone.
    let line = line.trim();
    let blanks = line.match_indices(char::is_whitespace).map(|(at, _)| at);
    let mut ends: Vec<usize> = blanks.take(3).collect();
    ends.push(line.len());
    let moment = |end: &usize| Some((time::any(&line.as_bytes()[..*end])?, *end));
    let (stamp, end) = ends
        .iter()
        .rev()
        .find_map(moment)
        .ok_or("it does not begin with a moment")?;
    (to.stamp, to.rough) = (stamp.nanos, stamp.rough);
    let mut words = line[end..].split_whitespace();
    let (method, target) = (words.next().unwrap_or("GET"), words.next().unwrap_or("/"));
    if target.starts_with('/') && method.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        to.set_method(method);
        to.set_target(target);
    } else {
        to.set_target("/");
    }
    to.complete()
}

pub(crate) fn number(text: &str) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.bytes().try_fold(0_u64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        let number = number.checked_mul(10)?.checked_add(digit.into())?;
        (digit < 10).then_some(number)
    })
}

/// The rest of a line, part by part.
struct Rest<'a>(&'a str);

enum Part<'a> {
    Plain(&'a str),
    Quoted(&'a str),
}

impl<'a> Iterator for Rest<'a> {
    type Item = Part<'a>;

    fn next(&mut self) -> Option<Part<'a>> {
        let spaces = self.0.bytes().take_while(|byte| *byte == b' ').count();
        let text = &self.0[spaces..];
        let Some(inner) = text.strip_prefix('"') else {
            if text.is_empty() {
                return None;
            }
            let end = memchr::memchr(b' ', text.as_bytes()).unwrap_or(text.len());
            self.0 = &text[end..];
            return Some(Part::Plain(&text[..end]));
        };
        let bytes = inner.as_bytes();
        let mut from = 0;
        while let Some(found) = memchr::memchr2(b'"', b'\\', &bytes[from..]) {
            let at = from + found;
            if bytes[at] == b'"' {
                self.0 = &inner[at + 1..];
                return Some(Part::Quoted(&inner[..at]));
            }
            from = at + 2;
            if from > bytes.len() {
                break;
            }
        }
        // An unterminated quote: its text is the rest of the line.
        self.0 = "";
        Some(Part::Quoted(inner))
    }
}
