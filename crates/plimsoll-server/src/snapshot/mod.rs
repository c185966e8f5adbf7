//! Snapshots: the states of limits in memory, written to a file so that they survive a restart.
//!
//! A snapshot is written to a temporary file, synced and renamed, so a reader finds either the old file or the new one. Its checksum
//! is verified before any state is restored. Moments are wall-clock times, so a restored limit continues as if the process
//! had not ended.

mod file;
mod read;
mod shares;
mod unrestored;

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use plimsoll::{Clock, Moment};
use plimsoll_engine::{Limits, Parametric};

use self::file::{Line, SnapshotWriter};

pub(crate) use self::read::LoadedSnapshot;

/// The names of the snapshot, of the temporary file, and of an invalid snapshot that was moved away.
const NAME: &str = "limits.snapshot";
const WRITING: &str = "limits.snapshot.new";
const BAD: &str = "limits.snapshot.bad";

/// The directory for snapshots.
#[derive(Debug)]
pub(crate) struct Snapshots {
    directory: PathBuf,
    /// Serializes writers.
    writing: Mutex<()>,
    written: AtomicU64,
    failed: AtomicU64,
    /// The time of the last snapshot, in nanoseconds since 1970. 0 if there was none.
    last: AtomicU64,
}

impl Snapshots {
    /// Creates the directory if it does not exist.
    pub(crate) fn open(directory: &Path) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        Ok(Self {
            directory: directory.to_owned(),
            writing: Mutex::default(),
            written: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            last: AtomicU64::new(0),
        })
    }

    /// Reads the last snapshot, if there is one. Renames an invalid snapshot.
    ///
    /// # Errors
    ///
    /// If an invalid snapshot cannot be renamed.
    pub(crate) fn read(&self, now: Moment) -> io::Result<Option<LoadedSnapshot>> {
        let path = self.directory.join(NAME);
        match LoadedSnapshot::open(&path, now) {
            Ok(kept) => Ok(kept),
            Err(bad) => {
                let aside = self.directory.join(BAD);
                fs::rename(&path, &aside)?;
                tracing::error!(
                    file = %path.display(),
                    aside = %aside.display(),
                    "the snapshot is not used, and was set aside: {bad}; limits in memory begin anew"
                );
                Ok(None)
            }
        }
    }

    /// Writes a snapshot of all limits and logs the result.
    pub(crate) fn write(
        &self,
        limits: &Limits,
        envoy: &Limits,
        buckets: &Parametric,
        clock: &Clock,
    ) {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let now = clock.precise_now();
        match self.try_write(limits, envoy, buckets, now) {
            Ok(lines) => {
                self.written.fetch_add(1, Ordering::Relaxed);
                self.last.store(now.as_nanos(), Ordering::Relaxed);
                tracing::debug!(lines, "snapshot written");
            }
            Err(error) => {
                self.failed.fetch_add(1, Ordering::Relaxed);
                // The partial file may be what fills the disk.
                let _ = fs::remove_file(self.directory.join(WRITING));
                tracing::error!(
                    directory = %self.directory.display(),
                    "cannot write a snapshot: {error}; limits are served from memory, and a restart would forget what was used since the last one"
                );
            }
        }
    }

    fn try_write(
        &self,
        limits: &Limits,
        envoy: &Limits,
        buckets: &Parametric,
        now: Moment,
    ) -> io::Result<u64> {
        let writing = self.directory.join(WRITING);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        // Keys may be secrets.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut lines = SnapshotWriter::new(BufWriter::new(options.open(&writing)?), now)?;
        limits.save(|saved| lines.write(&Line::Limit(saved)))?;
        envoy.save(|saved| lines.write(&Line::Envoy(saved)))?;
        buckets.save(|saved| lines.write(&Line::Bucket(saved)))?;
        let count = lines.count();
        let mut to = lines.end()?;
        to.flush()?;
        to.get_ref().sync_all()?;
        fs::rename(&writing, self.directory.join(NAME))?;
        // Syncs the rename.
        File::open(&self.directory)?.sync_all()?;
        Ok(count)
    }

    /// The number of snapshots written, the number of failures, and when the last one was written.
    pub(crate) fn counts(&self) -> (u64, u64, Option<Duration>) {
        let last = self.last.load(Ordering::Relaxed);
        (
            self.written.load(Ordering::Relaxed),
            self.failed.load(Ordering::Relaxed),
            (last > 0).then(|| Duration::from_nanos(last)),
        )
    }
}
