//! Reading what was kept: all of it is checked before any of it is used.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek};
use std::path::Path;
use std::time::Duration;

use crc32fast::Hasher;
use plimsoll::Moment;
use plimsoll_engine::{Limits, Parametric, Saved};

use super::file::{Bad, End, Head, Line, VERSION};
use super::lost::Lost;

/// By how much the clock of the machine may have been put back: then time stands still so long for what was kept.
const SKEW: Duration = Duration::from_secs(60);
/// No line is longer than the longest key and what is remembered of it. A log of many entries is long.
const LONGEST: usize = 64 << 20;

/// A snapshot that was checked.
#[derive(Debug)]
pub(crate) struct Kept {
    from: BufReader<File>,
    lines: u64,
    /// Everything but keys, to build limits with.
    pub(crate) limits: Vec<Saved>,
    /// The limits of the configuration of Envoy's reference server that follow.
    pub(crate) envoy: Vec<String>,
    /// How long ago it was written.
    pub(crate) age: Duration,
}

impl Kept {
    /// Checks a file. `None` if there is none.
    pub(super) fn open(path: &Path, now: Moment) -> Result<Option<Self>, Bad> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let mut from = BufReader::with_capacity(1 << 16, file);
        let mut line = Vec::new();
        if !next(&mut from, &mut line)? {
            return Err(Bad::Truncated);
        }
        let Ok(head) = serde_json::from_slice::<Head>(&line) else {
            return Err(Bad::NoSnapshot);
        };
        if head.plimsoll_snapshot > VERSION {
            return Err(Bad::Version(head.plimsoll_snapshot));
        }
        let ahead = head.saved_at.since(now);
        if ahead > SKEW {
            return Err(Bad::Future(ahead));
        }
        let mut sum = Hasher::new();
        let (mut lines, mut limits, mut envoy) = (0, Vec::new(), Vec::new());
        loop {
            // The line before, which is not the last.
            sum.update(&line);
            lines += 1;
            if !next(&mut from, &mut line)? {
                return Err(Bad::Truncated);
            }
            match parse(&line, lines + 1) {
                Ok(Line::Envoy(Saved::Keys { limiter, .. })) => envoy.push(limiter),
                Ok(Line::Limit(Saved::Key(..) | Saved::Last(_) | Saved::Subject(..)))
                | Ok(Line::Envoy(_) | Line::Bucket(_)) => {}
                Ok(Line::Limit(saved)) => limits.push(saved),
                Err(bad) => {
                    let Ok(end) = serde_json::from_slice::<End>(&line) else {
                        // Whichever comes first: a line that was damaged is none any more.
                        return Err(bad);
                    };
                    if end.crc32 != sum.finalize() || end.lines != lines {
                        return Err(Bad::Damaged);
                    }
                    break;
                }
            }
        }
        if next(&mut from, &mut line)? {
            return Err(Bad::Damaged);
        }
        from.rewind()?;
        Ok(Some(Self {
            from,
            lines,
            limits,
            envoy,
            age: now.since(head.saved_at),
        }))
    }

    /// Puts everything where it belongs. Says in the log what has no place any more. Returns how much of it had one.
    pub(crate) fn restore(
        mut self,
        limits: &Limits,
        envoy: &Limits,
        buckets: &Parametric,
    ) -> io::Result<u64> {
        let (mut restore, mut envoy) = (limits.restore(), envoy.restore());
        let (mut terms, mut count) = (None, 0);
        let mut lost = Lost::default();
        let mut line = Vec::new();
        for number in 0..self.lines {
            next(&mut self.from, &mut line)?;
            if number == 0 {
                continue;
            }
            let parsed = parse(&line, number + 1);
            let parsed = parsed.map_err(|bad| io::Error::other(bad.to_string()))?;
            lost.about(&parsed);
            let restored = match parsed {
                Line::Limit(saved) => restore.put(saved),
                Line::Envoy(saved) => envoy.put(saved),
                Line::Bucket(saved) => {
                    let (next, restored) = buckets.restore(terms, saved);
                    terms = next;
                    restored
                }
            };
            match restored {
                true => count += 1,
                false => lost.note(),
            }
        }
        lost.say();
        Ok(count)
    }
}

fn parse(line: &[u8], number: u64) -> Result<Line, Bad> {
    serde_json::from_slice(line).map_err(|error| Bad::Line(number, error.to_string()))
}

/// Reads a whole line. False at the end of the file.
fn next(from: &mut BufReader<File>, line: &mut Vec<u8>) -> Result<bool, io::Error> {
    line.clear();
    loop {
        let (found, used) = {
            let part = from.fill_buf()?;
            let end = part.iter().position(|byte| *byte == b'\n');
            let used = end.map_or(part.len(), |end| end + 1);
            line.extend_from_slice(&part[..used]);
            (end.is_some(), used)
        };
        from.consume(used);
        if found {
            return Ok(true);
        }
        if used == 0 {
            // A line without an end is none: something is missing.
            return Ok(false);
        }
        if line.len() > LONGEST {
            return Err(io::Error::other("a line is longer than any should be"));
        }
    }
}
