//! Several logs, merged: requests in the order of their arrival.
//!
//! Servers write a line when a request ends, so the line of a slow request follows those of quicker ones that arrived later. Requests
//! are buffered until no unread line can belong before them, within a window of time and a bound on memory.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::duration::DurationUnit;
use crate::error::{BadLine, LogError};
use crate::format::{Hints, LogFormat};
use crate::log::{Log, LogSummary};
use crate::order::Order;
use crate::pool::Pool;
use crate::record::Record;
use crate::wanted::Wanted;

/// The memory bound of buffered requests, in bytes.
const ROOM: usize = 64 << 20;

/// A set of log files, which are read together as one stream of requests in the order of their arrival.
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
    /// The logs in these files. `-` is the standard input. Gzip files are decompressed, whatever their name.
    pub fn of(files: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        Self {
            files: files.into_iter().map(Into::into).collect(),
            hints: Hints::default(),
            window: Duration::from_secs(60),
        }
    }

    /// Sets the format of all files. Default: detected for each file.
    #[must_use]
    pub const fn format(mut self, format: LogFormat) -> Self {
        self.hints.format = Some(format);
        self
    }

    /// Sets the unit of durations that are written without one. Default: that of the server that writes the format, such as seconds
    /// for Caddy and milliseconds for Envoy; whole numbers at the end of a combined line are ignored.
    #[must_use]
    pub const fn duration_unit(mut self, unit: DurationUnit) -> Self {
        self.hints.unit = Some(unit);
        self
    }

    /// Sets the longest time from the arrival of a request to its line for which requests are sorted by arrival. Default: one minute.
    /// A longer window needs more memory, up to 64 MiB; see [`Requests::late`].
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

    /// The files, in the order in which they were set.
    #[must_use]
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// The size of all files together, in bytes. `None` if one of them is the standard input or cannot be read.
    #[must_use]
    pub fn size(&self) -> Option<u64> {
        let sizes = self
            .files
            .iter()
            .map(|file| Some(std::fs::metadata(file).ok()?.len()));
        sizes.sum()
    }

    /// Opens all files, and detects their formats.
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be opened, or none of its first lines is a request.
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
    /// The latest moment of its lines so far.
    until: i64,
    ended: bool,
}

/// The requests of [`Logs`], in the order of their arrival.
///
/// ```
/// use plimsoll_replay::Logs;
///
/// let file = std::env::temp_dir().join(format!("requests-{}.log", std::process::id()));
/// std::fs::write(&file, "time,path\n2026-11-15T12:00:02Z,/b\n2026-11-15T12:00:01Z,/a\n")?;
/// let mut requests = Logs::of([&file]).open()?;
/// assert_eq!(requests.next().map(|record| record.target()), Some("/a"));
/// assert_eq!(requests.next().map(|record| record.target()), Some("/b"));
/// assert!(requests.next().is_none() && requests.bad_lines().is_empty());
/// # std::fs::remove_file(&file)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Requests {
    logs: Vec<Reading>,
    passed: Arc<AtomicU64>,
    window: i64,
    /// The buffered requests, by their places.
    waiting: Order,
    pool: Pool,
    /// The memory of buffered requests, in bytes.
    room: usize,
    count: u64,
    last: i64,
    late: u64,
    /// The place of the request that was returned last.
    current: Option<u32>,
}

impl Requests {
    /// The next request. It is valid until the next call, so this is not an `Iterator`. `None` at the end of all logs.
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
                    // Requests after it have been returned already, so it arrives now. Its end is the same.
                    self.late += 1;
                    let later = self.last.abs_diff(at);
                    record.duration = record.duration.map(|it| it.saturating_sub(later));
                    record.at = self.last;
                }
                self.last = record.at;
                return Some(self.pool.get(place));
            }
            self.read(frontier?);
        }
    }

    /// Calls `with` for each request: first for the one that was read already, then for the others. Calls `watch` with the number of
    /// bytes read after every 16,384 requests, and at the end.
    pub(crate) fn each(&mut self, watch: &mut dyn FnMut(u64), mut with: impl FnMut(&Record)) {
        let mut count = 0_u64;
        if let Some(first) = self.current() {
            with(first);
        }
        while let Some(record) = self.next() {
            with(record);
            count += 1;
            if count.is_multiple_of(1 << 14) {
                watch(self.bytes_read());
            }
        }
        watch(self.bytes_read());
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

    /// The number of bytes read from the files so far, before decompression.
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

    /// The number of lines and requests of each log, as read so far.
    #[must_use]
    pub fn summaries(&self) -> Vec<LogSummary> {
        self.logs.iter().map(|it| it.log.seen.clone()).collect()
    }

    /// Examples of lines that could not be read, up to three of each log.
    #[must_use]
    pub fn bad_lines(&self) -> Vec<BadLine> {
        self.logs
            .iter()
            .flat_map(|it| it.log.bad.iter().cloned())
            .collect()
    }

    /// The number of requests whose lines came later than the [window](Logs::window). Each has the arrival time of the request before
    /// it, and ends when the log says.
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
