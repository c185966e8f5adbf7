//! Several logs, merged: requests in the order in which they came.
//!
//! Lines are written when a request ends, so a slow request stands behind quicker ones that came after it. Requests wait here
//! until no line that is still to be read can belong before them: within a window of time, and a bound on memory.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::format::{Hints, LogFormat};
use crate::log::{BadLine, Log, LogError, LogSummary};
use crate::order::Order;
use crate::pool::Pool;
use crate::record::Record;
use crate::time::DurationUnit;
use crate::wanted::Wanted;

/// How much requests that wait may take.
const ROOM: usize = 64 << 20;

/// Logs to be read together.
///
/// ```no_run
/// use plimsoll_replay::Logs;
///
/// let mut requests = Logs::of(["access.log.1.gz", "access.log"]).open()?;
/// while let Some(record) = requests.next() {
///     println!("{} {}", record.method(), record.target());
/// }
/// # Ok::<(), plimsoll_replay::LogError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Logs {
    files: Vec<PathBuf>,
    hints: Hints,
    window: Duration,
}

impl Logs {
    /// These files; `-` is the standard input. What is packed by gzip is unpacked.
    pub fn of(files: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        Self {
            files: files.into_iter().map(Into::into).collect(),
            hints: Hints::default(),
            window: Duration::from_secs(60),
        }
    }

    /// How their lines are written; found out by what stands in them unless set.
    #[must_use]
    pub const fn format(mut self, format: LogFormat) -> Self {
        self.hints.format = Some(format);
        self
    }

    /// What durations without a unit count; as the server that wrote them has it unless set.
    #[must_use]
    pub const fn duration_unit(mut self, unit: DurationUnit) -> Self {
        self.hints.unit = Some(unit);
        self
    }

    /// How long after a request came its line may be written and still be put in its place; a minute unless set.
    #[must_use]
    pub const fn window(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }

    /// Reads no more header fields than these.
    #[must_use]
    pub(crate) fn wanted(mut self, wanted: Wanted) -> Self {
        self.hints.wanted = wanted;
        self
    }

    /// The files.
    #[must_use]
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// How many bytes they have together, if that is known.
    #[must_use]
    pub fn size(&self) -> Option<u64> {
        let sizes = self
            .files
            .iter()
            .map(|file| Some(std::fs::metadata(file).ok()?.len()));
        sizes.sum()
    }

    /// Opens all of them.
    ///
    /// # Errors
    ///
    /// If one cannot be opened, or is no log.
    pub fn open(&self) -> Result<Requests, LogError> {
        let passed = Arc::new(AtomicU64::new(0));
        let mut logs = Vec::new();
        for (index, path) in self.files.iter().enumerate() {
            let file = u32::try_from(index).unwrap_or(u32::MAX);
            logs.push(Reading {
                log: Log::open(path, file, &self.hints, &passed)?,
                until: i64::MIN,
                ended: false,
            });
        }
        Ok(Requests {
            logs,
            passed,
            window: i64::try_from(self.window.as_nanos()).unwrap_or(i64::MAX),
            waiting: Order::default(),
            pool: Pool::default(),
            room: 0,
            count: 0,
            last: i64::MIN,
            late: 0,
            current: None,
        })
    }
}

struct Reading {
    log: Log,
    /// The latest moment that a line of it had.
    until: i64,
    ended: bool,
}

/// The requests of logs, in the order in which they came.
pub struct Requests {
    logs: Vec<Reading>,
    passed: Arc<AtomicU64>,
    window: i64,
    /// Those that wait, by their places.
    waiting: Order,
    pool: Pool,
    /// How much those that wait take.
    room: usize,
    count: u64,
    last: i64,
    late: u64,
    /// The place of the request that was returned last.
    current: Option<u32>,
}

impl Requests {
    /// The next request, until the one after it is asked for.
    #[expect(
        clippy::should_implement_trait,
        reason = "it lends its record, which an iterator cannot"
    )]
    pub fn next(&mut self) -> Option<&Record> {
        loop {
            let frontier = self
                .logs
                .iter()
                .filter(|it| !it.ended)
                .map(|it| it.until)
                .min();
            let first = self.waiting.peek(|turn| self.pool.fetch(turn));
            if let Some((at, _, place)) = first
                && (frontier.is_none_or(|until| at <= until.saturating_sub(self.window))
                    || self.room > ROOM)
            {
                self.waiting.pop();
                if let Some(before) = self.current.replace(place) {
                    self.pool.free(before);
                }
                let record = self.pool.get_mut(place);
                self.room -= record.room();
                if at < self.last {
                    // Its moment has passed: it comes now.
                    self.late += 1;
                    record.at = self.last;
                }
                self.last = record.at;
                return Some(self.pool.get(place));
            }
            self.read(frontier?);
        }
    }

    /// The request that was returned last.
    pub(crate) fn current(&self) -> Option<&Record> {
        self.current.map(|place| self.pool.get(place))
    }

    /// Reads a request of the log that is furthest behind.
    fn read(&mut self, frontier: i64) {
        let behind = self
            .logs
            .iter_mut()
            .find(|it| !it.ended && it.until == frontier);
        let Some(reading) = behind else {
            return;
        };
        let Some(place) = reading.log.next(&mut self.pool) else {
            reading.ended = true;
            return;
        };
        let record = self.pool.get(place);
        reading.until = reading.until.max(record.stamp);
        self.room += record.room();
        self.waiting.push((record.at, self.count, place));
        self.count += 1;
    }

    /// How many bytes of the files were read.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }

    /// The name of a file, by its number.
    pub(crate) fn name(&self, file: u32) -> &str {
        self.logs
            .get(file as usize)
            .map_or("", |it| &it.log.seen.file)
    }

    /// What was read of each log.
    #[must_use]
    pub fn summaries(&self) -> Vec<LogSummary> {
        self.logs.iter().map(|it| it.log.seen.clone()).collect()
    }

    /// Lines that could not be read, some of each log.
    #[must_use]
    pub fn bad_lines(&self) -> Vec<BadLine> {
        self.logs
            .iter()
            .flat_map(|it| it.log.bad.iter().cloned())
            .collect()
    }

    /// How many requests came so long before their lines that their places had passed: they came when they were read.
    #[must_use]
    pub const fn late(&self) -> u64 {
        self.late
    }
}

impl std::fmt::Debug for Requests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Requests")
            .field("waiting", &self.waiting.len())
            .finish_non_exhaustive()
    }
}
