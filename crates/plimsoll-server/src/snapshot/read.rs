//! Reads snapshots. The whole file is verified before any state is restored.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek};
use std::path::Path;
use std::time::Duration;

use crc32fast::Hasher;
use plimsoll::Moment;
use plimsoll_engine::{Limits, Parametric, Saved};

use super::file::{Header, Line, SnapshotError, Trailer, VERSION};
use super::unrestored::Unrestored;

/// The largest step back of the wall clock since the snapshot was written. Restored limits do not refill for that time.
const SKEW: Duration = Duration::from_secs(60);
/// Maximum length of a line. A sliding log with many entries is long.
const LONGEST: usize = 64 << 20;

/// A snapshot that was read and verified.
#[derive(Debug)]
pub(crate) struct LoadedSnapshot {
    from: BufReader<File>,
    lines: u64,
    /// The states of limits without keys, with which limits are built.
    pub(crate) limits: Vec<Saved>,
    /// The names of the limits from the configuration of Envoy's reference server.
    pub(crate) envoy: Vec<String>,
    /// The time since it was written.
    pub(crate) age: Duration,
}

impl LoadedSnapshot {
    /// Reads and verifies a file. `None` if it does not exist.
    pub(super) fn open(path: &Path, now: Moment) -> Result<Option<Self>, SnapshotError> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let mut from = BufReader::with_capacity(1 << 16, file);
        let mut line = Vec::new();
        if !next(&mut from, &mut line)? {
            return Err(SnapshotError::Truncated);
        }
        let Ok(head) = serde_json::from_slice::<Header>(&line) else {
            return Err(SnapshotError::NoSnapshot);
        };
        if head.plimsoll_snapshot > VERSION {
            return Err(SnapshotError::Version(head.plimsoll_snapshot));
        }
        let ahead = head.saved_at.since(now);
        if ahead > SKEW {
            return Err(SnapshotError::Future(ahead));
        }
        let mut sum = Hasher::new();
        let (mut lines, mut limits, mut envoy) = (0, Vec::new(), Vec::new());
        loop {
            // The checksum covers every line but the last.
            sum.update(&line);
            lines += 1;
            if !next(&mut from, &mut line)? {
                return Err(SnapshotError::Truncated);
            }
            match parse(&line, lines + 1) {
                Ok(Line::Envoy(Saved::Keys { limiter, .. })) => envoy.push(limiter),
                Ok(Line::Limit(Saved::Key(..) | Saved::Last(_) | Saved::Subject(..)))
                | Ok(Line::Envoy(_) | Line::Bucket(_)) => {}
                Ok(Line::Limit(saved)) => limits.push(saved),
                Err(bad) => {
                    let Ok(end) = serde_json::from_slice::<Trailer>(&line) else {
                        // A damaged line may fail to parse before the checksum is compared.
                        return Err(bad);
                    };
                    if end.crc32 != sum.finalize() || end.lines != lines {
                        return Err(SnapshotError::Damaged);
                    }
                    break;
                }
            }
        }
        if next(&mut from, &mut line)? {
            return Err(SnapshotError::Damaged);
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

    /// Restores all states and returns their number. Logs the states that could not be restored.
    pub(crate) fn restore(
        mut self,
        limits: &Limits,
        envoy: &Limits,
        buckets: &Parametric,
    ) -> io::Result<u64> {
        let (mut restore, mut envoy) = (limits.restore(), envoy.restore());
        let (mut terms, mut count) = (None, 0);
        let mut unrestored = Unrestored::default();
        let mut line = Vec::new();
        for number in 0..self.lines {
            next(&mut self.from, &mut line)?;
            if number == 0 {
                continue;
            }
            let parsed = parse(&line, number + 1);
            let parsed = parsed.map_err(|bad| io::Error::other(bad.to_string()))?;
            unrestored.begin_line(&parsed);
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
                false => unrestored.count_state(),
            }
        }
        unrestored.log();
        Ok(count)
    }
}

fn parse(line: &[u8], number: u64) -> Result<Line, SnapshotError> {
    serde_json::from_slice(line).map_err(|error| SnapshotError::Line(number, error.to_string()))
}

/// Reads a line. Returns `false` at the end of the file.
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
            // A line without a line feed was cut off.
            return Ok(false);
        }
        if line.len() > LONGEST {
            return Err(io::Error::other("a line is longer than any should be"));
        }
    }
}
