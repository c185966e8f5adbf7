//! One log, with its requests in the order of its lines, and its bad lines.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use serde::Serialize;

use crate::csv;
use crate::error::{BadLine, LogError};
use crate::format::{Hints, Parsed, Parser};
use crate::input::{Line, Lines, open};
use crate::pool::Pool;
use crate::record::Record;
use crate::time::SECOND;

/// The number of bad lines that are kept as examples.
const EXAMPLES: usize = 3;

/// A file without a request in this many lines is not a log.
const LOOKED_AT: u64 = 100_000;

/// Maximum number of lines of one value in quotes.
const LINES: usize = 100;

/// Maximum number of requests of one second that are spread over it together.
const GROUP: usize = 1 << 16;

/// The number of lines and requests of one log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct LogSummary {
    /// The file.
    pub file: String,
    /// The name of its [`LogFormat`](crate::LogFormat). `None` if the log is empty.
    pub format: Option<&'static str>,
    /// Number of lines.
    pub lines: u64,
    /// Number of lines that are requests.
    pub requests: u64,
    /// Number of lines that cannot be read.
    pub bad: u64,
    /// Number of requests with a duration. Permits of the others are released at once.
    pub with_duration: u64,
    /// Number of requests whose moment is known only to the second. They are spread evenly over that second.
    pub whole_seconds: u64,
    /// The error at which reading stopped before the end of the file, such as a truncated gzip stream.
    pub cut_short: Option<String>,
}

/// Reads one log.
pub(crate) struct Log {
    file: u32,
    lines: Lines,
    parser: Option<Parser>,
    /// Requests of one second, which are spread over it when a request of another second follows.
    group: VecDeque<u32>,
    /// The number of requests of the group that have their own moment.
    spread: usize,
    /// The moment from which on the second of the group has no requests yet.
    from: i64,
    ended: bool,
    pub(crate) seen: LogSummary,
    pub(crate) bad: Vec<BadLine>,
}

impl Log {
    pub(crate) fn open(
        path: &Path,
        file: u32,
        hints: &Hints,
        passed: &Arc<AtomicU64>,
    ) -> Result<Self, LogError> {
        let failed = |error| LogError::Open {
            file: path.to_owned(),
            error,
        };
        let lines = Lines::new(open(path, passed).map_err(failed)?);
        let name = match path == Path::new("-") {
            true => "standard input".to_owned(),
            false => path
                .file_name()
                .unwrap_or(path.as_os_str())
                .to_string_lossy()
                .into_owned(),
        };
        let mut log = Self {
            seen: LogSummary {
                file: name,
                format: None,
                lines: 0,
                requests: 0,
                bad: 0,
                with_duration: 0,
                whole_seconds: 0,
                cut_short: None,
            },
            file,
            lines,
            parser: hints.format.map(|format| Parser::new(format, hints)),
            group: VecDeque::new(),
            spread: 0,
            from: 0,
            ended: false,
            bad: Vec::new(),
        };
        if log.parser.is_none() {
            log.detect(path, hints)?;
        }
        log.seen.format = log.parser.as_ref().map(|parser| parser.format.as_str());
        Ok(log)
    }

    /// Detects the format by the first lines. Lines before the first request that no format can read count as bad lines.
    fn detect(&mut self, path: &Path, hints: &Hints) -> Result<(), LogError> {
        let mut begin = None;
        loop {
            // A gzip file may be broken from its start.
            let first = self.lines.first().map_err(|error| LogError::Open {
                file: path.to_owned(),
                error,
            })?;
            let first = String::from_utf8_lossy(first);
            self.parser = Parser::detect(&first.lines(), hints);
            if self.parser.is_some() {
                return Ok(());
            }
            let count = first.lines().count();
            let begin = begin.get_or_insert_with(|| begins(first.trim_start()));
            if count == 0 || self.seen.lines > LOOKED_AT {
                return match self.seen.bad == 0 && begin.is_empty() {
                    true => Ok(()),
                    false => Err(LogError::NotALog {
                        file: path.to_owned(),
                        begins: std::mem::take(begin),
                    }),
                };
            }
            for _ in 0..count {
                let text = match self.lines.next() {
                    Line::End | Line::Failed(_) => break,
                    Line::TooLong => Cow::Borrowed(""),
                    Line::Text(text) if text.trim_ascii().is_empty() || text.starts_with(b"#") => {
                        self.seen.lines += 1;
                        continue;
                    }
                    Line::Text(text) => String::from_utf8_lossy(text),
                };
                let why = "it is in no known format";
                note_bad((&mut self.seen, &mut self.bad), why, &text);
            }
        }
    }

    /// Reads the next request, and returns its place.
    pub(crate) fn next(&mut self, pool: &mut Pool) -> Option<u32> {
        loop {
            if self.spread > 0 {
                self.spread -= 1;
                return self.group.pop_front();
            }
            if self.ended {
                self.spread_group(true, pool);
                if self.spread == 0 {
                    return None;
                }
                continue;
            }
            let place = pool.take();
            let record = pool.get_mut(place);
            if !self.read(record) {
                pool.free(place);
                self.ended = true;
                continue;
            }
            let (rough, stamp) = (record.rough, record.stamp);
            if !rough && self.group.is_empty() {
                return Some(place);
            }
            let same = rough
                && self
                    .group
                    .front()
                    .is_none_or(|first| pool.get(*first).stamp == stamp);
            if !same {
                self.spread_group(true, pool);
            }
            self.group.push_back(place);
            if !same && !rough {
                // The request has its own moment.
                self.spread = self.group.len();
            } else if self.group.len() - self.spread >= GROUP {
                self.spread_group(false, pool);
            }
        }
    }

    /// Spreads the requests of one second evenly over it, in their order. If more may follow, they get the first half of the rest of
    /// the second.
    fn spread_group(&mut self, whole: bool, pool: &mut Pool) {
        let count = i64::try_from(self.group.len()).unwrap_or(i64::MAX);
        let first = self.group.front().map(|first| pool.get(*first));
        let Some(first) = first.filter(|first| first.rough) else {
            return;
        };
        let start = first.stamp;
        // The free rest of another second cannot be used.
        let from = match (start..start + SECOND).contains(&self.from) {
            true => self.from,
            false => start,
        };
        let left = start + SECOND - from;
        let span = if whole { left } else { left / 2 };
        let apart = span / count;
        let mut moved = from + apart / 2 - start;
        for place in &self.group {
            let record = pool.get_mut(*place);
            record.at += moved;
            record.stamp += moved;
            moved += apart;
        }
        self.from = if whole { 0 } else { from + span };
        self.spread = self.group.len();
    }

    /// Reads lines until one is a request. Returns false at the end.
    fn read(&mut self, record: &mut Record) -> bool {
        loop {
            let Some(parser) = &mut self.parser else {
                return false;
            };
            let (why, begin) = match self.lines.next() {
                Line::End => return false,
                Line::Failed(error) => {
                    self.seen.cut_short = Some(format!("after line {}: {error}", self.seen.lines));
                    return false;
                }
                Line::TooLong => ("it is longer than 64 KiB", Cow::Borrowed("")),
                Line::Text(text) => {
                    let text = match std::str::from_utf8(text) {
                        Ok(text) => Cow::Borrowed(text),
                        Err(_) => String::from_utf8_lossy(text),
                    };
                    match parser.parse(&text, record) {
                        Ok(Parsed::Request) => {
                            self.note(record);
                            return true;
                        }
                        Ok(Parsed::Nothing) => {
                            self.seen.lines += 1;
                            continue;
                        }
                        Err(csv::OPEN) => {
                            let begin = begins(&text);
                            if self.read_on(record) {
                                return true;
                            }
                            record.clear();
                            (csv::OPEN, Cow::Owned(begin))
                        }
                        Err(why) => {
                            record.clear();
                            (why, text)
                        }
                    }
                }
            };
            note_bad((&mut self.seen, &mut self.bad), why, &begin);
        }
    }

    /// Reads the last line again together with those after it, because a value in quotes may have several lines. Returns false if
    /// they are no request either: then the quote was not closed, and the lines after it stay unread.
    fn read_on(&mut self, record: &mut Record) -> bool {
        let Some(parser) = &mut self.parser else {
            return false;
        };
        for more in 1..LINES {
            let Some(text) = self.lines.longer(more) else {
                return false;
            };
            record.clear();
            match parser.parse(&String::from_utf8_lossy(text), record) {
                Ok(Parsed::Request) => {
                    self.note(record);
                    for _ in 0..more {
                        self.lines.next();
                    }
                    self.seen.lines += more as u64;
                    return true;
                }
                Err(csv::OPEN) => {}
                Ok(Parsed::Nothing) | Err(_) => return false,
            }
        }
        false
    }

    /// Counts a line that is a request.
    fn note(&mut self, record: &mut Record) {
        self.seen.lines += 1;
        self.seen.requests += 1;
        self.seen.with_duration += u64::from(record.duration.is_some());
        self.seen.whole_seconds += u64::from(record.rough);
        (record.file, record.line) = (self.file, self.seen.lines);
    }
}

/// Counts a line that cannot be read, and keeps the first ones.
fn note_bad((seen, bad): (&mut LogSummary, &mut Vec<BadLine>), why: &str, text: &str) {
    seen.lines += 1;
    seen.bad += 1;
    if bad.len() < EXAMPLES {
        bad.push(BadLine {
            file: seen.file.clone(),
            line: seen.lines,
            why: why.to_owned(),
            begins: begins(text),
        });
    }
}

/// The first characters of a text.
fn begins(text: &str) -> String {
    text.lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(40)
        .collect()
}
