//! What outlives the process: the states of limits in memory, in a file of a directory that is given.
//!
//! The file is written beside its place, brought to the disk, and moved there; so whoever reads it finds the old one or
//! the new one. It ends with a checksum, which is checked before anything of it is used. Moments in it are those of the
//! wall clock, so a limit that is read goes on as if the process had never ended.

mod file;
mod lost;
mod read;
mod shares;

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use plimsoll::{Clock, Moment};
use plimsoll_engine::{Limits, Parametric};

use self::file::{Line, Lines};

pub(crate) use self::read::Kept;

/// The file in the directory, while it is written, and when it cannot be used.
const NAME: &str = "limits.snapshot";
const WRITING: &str = "limits.snapshot.new";
const BAD: &str = "limits.snapshot.bad";

/// Where states are kept.
#[derive(Debug)]
pub(crate) struct Snapshots {
    directory: PathBuf,
    /// One writes at a time.
    writing: Mutex<()>,
    written: AtomicU64,
    failed: AtomicU64,
    /// The nanoseconds of the last one that was written; 0 if there is none.
    last: AtomicU64,
}

impl Snapshots {
    /// Makes the directory unless it is there.
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

    /// What was kept last, if anything. What cannot be used is set aside.
    ///
    /// # Errors
    ///
    /// If it cannot be read although it is there, or not be set aside.
    pub(crate) fn read(&self, now: Moment) -> io::Result<Option<Kept>> {
        let path = self.directory.join(NAME);
        match Kept::open(&path, now) {
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

    /// Writes what the limits remember now. Says how it went in the log.
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
                // What is there of it may be what fills the disk.
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
        let mut lines = Lines::new(BufWriter::new(options.open(&writing)?), now)?;
        limits.save(|saved| lines.write(&Line::Limit(saved)))?;
        envoy.save(|saved| lines.write(&Line::Envoy(saved)))?;
        buckets.save(|saved| lines.write(&Line::Bucket(saved)))?;
        let count = lines.count();
        let mut to = lines.end()?;
        to.flush()?;
        to.get_ref().sync_all()?;
        fs::rename(&writing, self.directory.join(NAME))?;
        // So that the name is on the disk too.
        File::open(&self.directory)?.sync_all()?;
        Ok(count)
    }

    /// How many were written, how many could not be, and when the last one was.
    pub(crate) fn counts(&self) -> (u64, u64, Option<Duration>) {
        let last = self.last.load(Ordering::Relaxed);
        (
            self.written.load(Ordering::Relaxed),
            self.failed.load(Ordering::Relaxed),
            (last > 0).then(|| Duration::from_nanos(last)),
        )
    }
}
