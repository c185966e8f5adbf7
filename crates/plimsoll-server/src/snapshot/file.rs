//! The snapshot format: lines of JSON. The first line is a header, the last one has the number of lines and a checksum.

use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

use crc32fast::Hasher;
use plimsoll::Moment;
use plimsoll_engine::{Saved, SavedBucket};
use serde::{Deserialize, Serialize};

/// The format version that this program writes, and the newest one that it reads.
pub(super) const VERSION: u64 = 2;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Header {
    /// The format version.
    pub(super) plimsoll_snapshot: u64,
    pub(super) saved_at: Moment,
}

/// A saved state.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    Limit(Saved),
    /// A limit from the configuration of Envoy's reference server.
    Envoy(Saved),
    Bucket(SavedBucket),
}

/// The last line.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Trailer {
    /// The number of lines before this one.
    pub(super) lines: u64,
    /// The checksum of all bytes before this line.
    pub(super) crc32: u32,
}

/// Writes a snapshot line by line.
pub(super) struct SnapshotWriter<W> {
    to: W,
    sum: Hasher,
    count: u64,
    line: Vec<u8>,
}

impl<W: Write> SnapshotWriter<W> {
    pub(super) fn new(to: W, saved_at: Moment) -> io::Result<Self> {
        let mut lines = Self {
            to,
            sum: Hasher::new(),
            count: 0,
            line: Vec::new(),
        };
        lines.put(&Header {
            plimsoll_snapshot: VERSION,
            saved_at,
        })?;
        Ok(lines)
    }

    pub(super) fn write(&mut self, line: &Line) -> io::Result<()> {
        self.put(line)
    }

    fn put(&mut self, line: &impl Serialize) -> io::Result<()> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, line)?;
        self.line.push(b'\n');
        self.sum.update(&self.line);
        self.count += 1;
        self.to.write_all(&self.line)
    }

    /// The number of lines written so far.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// Writes the last line, with the checksum.
    pub(super) fn end(mut self) -> io::Result<W> {
        let end = Trailer {
            lines: self.count,
            crc32: self.sum.clone().finalize(),
        };
        self.put(&end)?;
        Ok(self.to)
    }
}

/// Why a snapshot is invalid.
#[derive(Debug)]
pub(super) enum SnapshotError {
    Io(io::Error),
    NoSnapshot,
    Version(u64),
    Future(Duration),
    Truncated,
    Damaged,
    Line(u64, String),
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "it cannot be read: {error}"),
            Self::NoSnapshot => f.write_str("it does not begin as a snapshot does"),
            Self::Version(version) => write!(
                f,
                "it is of version {version}, and this program reads versions up to {VERSION}"
            ),
            Self::Future(ahead) => write!(
                f,
                "it was written {} s after now, so the clock of this machine is or was wrong",
                ahead.as_secs()
            ),
            Self::Truncated => f.write_str("its end is missing"),
            Self::Damaged => f.write_str("its checksum is wrong"),
            Self::Line(line, error) => write!(f, "line {line}: {error}"),
        }
    }
}

impl From<io::Error> for SnapshotError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
