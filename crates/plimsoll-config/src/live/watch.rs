//! Watching a file, and reloading limits when it changes.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use plimsoll_spec::text_of;

use super::{Changes, Limits};
use crate::{Config, ConfigError, Format};

/// A file that is checked repeatedly, and replaces the configuration when it has changed.
///
/// It compares the content of the file and of the files that it includes, not their times, so a file may be written in
/// place, replaced, or be a link. A change is applied when two checks in a row read the same content, so that a
/// partially written file is not used. A file that cannot be read or has mistakes is reported once, and the limits stay
/// as they are.
///
/// ```
/// use plimsoll::Clock;
/// use plimsoll_config::{Config, FileWatch};
///
/// # let dir = std::env::temp_dir().join(format!("plimsoll-watch-doc-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir)?;
/// # let path = dir.join("limits.yaml");
/// std::fs::write(&path, "limiters: { disk: { kind: concurrency, limit: 4 } }")?;
/// let limits = Config::from_file(&path)?.build(&Clock::system())?;
/// let mut file = FileWatch::new(&path);
/// std::fs::write(&path, "limiters: { disk: { kind: concurrency, limit: 8 } }")?;
/// assert!(file.check(&limits).is_none()); // it may still be written
/// let changes = file.check(&limits).unwrap()?;
/// assert_eq!(changes.changed, ["disk"]);
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FileWatch {
    path: PathBuf,
    /// The files that it includes.
    included: Vec<PathBuf>,
    /// The content of all files at the last check.
    seen: Option<String>,
    /// The content that was last applied or rejected.
    done: Option<String>,
    /// The last reported error of a file that cannot be read.
    reported: Option<String>,
}

impl FileWatch {
    /// Creates a watch of this file. Nothing is read before the first check.
    pub fn new(path: impl AsRef<Path>) -> Self {
        Self {
            path: path.as_ref().to_owned(),
            included: Vec::new(),
            seen: None,
            done: None,
            reported: None,
        }
    }

    /// Reads the file, and replaces the configuration if it has changed. `None` if it has not, or may still be written.
    ///
    /// # Errors
    ///
    /// Returns the error of [`Limits::replace_file`]. The same error is returned once.
    pub fn check(&mut self, limits: &Limits) -> Option<Result<Changes, ConfigError>> {
        self.check_with(|config| limits.replace(config))
    }

    /// Like [`check`](Self::check), for limits that `replace` changes.
    #[doc(hidden)]
    pub fn check_with(
        &mut self,
        replace: impl FnOnce(&Config) -> Result<Changes, ConfigError>,
    ) -> Option<Result<Changes, ConfigError>> {
        let text = match text_of(&self.path) {
            Ok(text) => text,
            Err(error) => {
                self.seen = None;
                let said = Some(error.to_string());
                let again = self.reported == said;
                self.reported = said;
                return (!again).then_some(Err(error));
            }
        };
        self.reported = None;
        let all = self.with_included(&text);
        if self.done.as_ref() == Some(&all) {
            self.seen = None;
            return None;
        }
        if self.seen.as_ref() != Some(&all) {
            self.seen = Some(all);
            return None;
        }
        self.seen = None;
        let format = Format::of(&self.path);
        let config = Config::from_str(&self.path, &text, format);
        let files = config
            .as_ref()
            .map_or_else(ConfigError::files, Config::files);
        self.included = files.iter().skip(1).cloned().collect();
        let all = self.with_included(&text);
        let changes = config.and_then(|config| replace(&config));
        let first = self.done.replace(all).is_none();
        // The first content is the one that the limits were built from.
        if first && changes.as_ref().is_ok_and(Changes::is_empty) {
            return None;
        }
        Some(changes)
    }
}

impl FileWatch {
    /// The content of all files. A file that cannot be read is a mistake of the file that includes it.
    fn with_included(&self, text: &str) -> String {
        let mut all = text.to_owned();
        for file in &self.included {
            all.push('\0');
            all += &text_of(file).unwrap_or_else(|error| error.to_string());
        }
        all
    }
}

impl Limits {
    /// [Checks](FileWatch::check) a file every `every` on a thread of its own, and calls `report` with the result. Dropping the
    /// returned guard ends the thread.
    ///
    /// ```no_run
    /// use plimsoll::Clock;
    /// use plimsoll_config::Config;
    /// use std::sync::Arc;
    /// use std::time::Duration;
    ///
    /// let limits = Arc::new(Config::from_file("limits.yaml")?.build(&Clock::system())?);
    /// let watcher = limits.watch_file("limits.yaml", Duration::from_secs(1), |result| match result {
    ///     Ok(changes) => eprintln!("{changes}"),
    ///     Err(error) => eprintln!("the old limits stay: {error}"),
    /// })?;
    /// # drop(watcher);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the operating system cannot start a thread.
    pub fn watch_file(
        self: &Arc<Self>,
        path: impl AsRef<Path>,
        every: Duration,
        report: impl FnMut(Result<Changes, ConfigError>) + Send + 'static,
    ) -> io::Result<FileWatcher> {
        let limits = Arc::clone(self);
        let replace = move |config: &Config| limits.replace(config);
        FileWatch::new(path).spawn(every, replace, report)
    }
}

impl FileWatch {
    /// Checks the file every `every` on a thread of its own, for limits that `replace` changes.
    #[doc(hidden)]
    pub fn spawn(
        mut self,
        every: Duration,
        mut replace: impl FnMut(&Config) -> Result<Changes, ConfigError> + Send + 'static,
        mut report: impl FnMut(Result<Changes, ConfigError>) + Send + 'static,
    ) -> io::Result<FileWatcher> {
        let (stop, stopped) = mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name("plimsoll-config".to_owned());
        let thread = thread.spawn(move || {
            while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                if let Some(result) = self.check_with(&mut replace) {
                    report(result);
                }
            }
        })?;
        Ok(FileWatcher {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

/// Watches a file until it is dropped. [`Limits::watch_file`] returns it.
#[derive(Debug)]
#[must_use = "the file is no longer watched when this is dropped"]
pub struct FileWatcher {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for FileWatcher {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // If `report` has panicked, the panic was reported already.
            let _ = thread.join();
        }
    }
}
