//! Limits that follow their file.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use plimsoll_spec::text_of;

use super::{Changes, Limits};
use crate::{Config, ConfigError, Format};

/// A file that is looked at now and then, and whose limits are put into effect when it has changed.
///
/// It looks at what the file says, not at when it was written: it does not matter whether the file is written in place, replaced
/// by another, or a link to one. A file that is still being written is left alone: a change counts when it looks the same
/// twice. The same goes for files that it includes. Whatever cannot be read, or is wrong, is reported once, and the limits stay as they are; a file that was deleted may
/// come back.
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
/// assert!(file.look(&limits).is_none()); // it may still be written
/// let changes = file.look(&limits).unwrap()?;
/// assert_eq!(changes.changed, ["disk"]);
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FileWatch {
    path: PathBuf,
    /// The files that it includes.
    included: Vec<PathBuf>,
    /// What was seen last, of all files.
    seen: Option<String>,
    /// What was last put into effect or refused.
    done: Option<String>,
    /// What was last reported of a file that cannot be read.
    reported: Option<String>,
}

impl FileWatch {
    /// Will look at this file.
    pub fn new(path: impl AsRef<Path>) -> Self {
        Self {
            path: path.as_ref().to_owned(),
            included: Vec::new(),
            seen: None,
            done: None,
            reported: None,
        }
    }

    /// Looks at the file. `None` if there is nothing new, or if it may still be written.
    ///
    /// # Errors
    ///
    /// What [`Limits::replace_file`] says. It is said once.
    pub fn look(&mut self, limits: &Limits) -> Option<Result<Changes, ConfigError>> {
        self.look_with(|config| limits.replace(config))
    }

    /// [`look`](Self::look), for limits that are more than these.
    #[doc(hidden)]
    pub fn look_with(
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
        // At first it says what the limits were built from.
        if first && changes.as_ref().is_ok_and(Changes::is_empty) {
            return None;
        }
        Some(changes)
    }
}

impl FileWatch {
    /// What all files say. One that cannot be read is a mistake of the file that includes it.
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
    /// [Looks](FileWatch::look) at a file every so often, in a thread of its own, and tells what came of it. Ends when the
    /// guard is dropped.
    ///
    /// # Errors
    ///
    /// If the operating system has no thread to give.
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
    /// Looks every so often in a thread of its own, for limits that `replace` changes.
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
                if let Some(result) = self.look_with(&mut replace) {
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

/// Looks at a file until it is dropped. See [`Limits::watch_file`].
#[derive(Debug)]
#[must_use = "nobody looks at the file any more when it is dropped"]
pub struct FileWatcher {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for FileWatcher {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // If `report` has panicked, that was said already.
            let _ = thread.join();
        }
    }
}
