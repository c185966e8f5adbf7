//! Reloading limits when their file changes.

use std::io;
use std::path::Path;
use std::time::Duration;

use plimsoll_config::{Changes, Config, ConfigError, FileWatch, FileWatcher};

use crate::limits::Limits;

impl Limits {
    /// Reads a file and [replaces](Self::replace) the configuration with it.
    ///
    /// # Errors
    ///
    /// Returns the mistakes in the file. Nothing is then changed.
    pub fn replace_file(&self, path: impl AsRef<Path>) -> Result<Changes, ConfigError> {
        self.replace(&Config::from_file(path)?)
    }

    /// Watches a file on a thread of its own: reads it every `every`, [replaces](Self::replace) the configuration when the file has
    /// changed, and calls `report` with the changes. Dropping the returned guard ends the thread.
    ///
    /// The content of the file is compared, and links are followed: a `ConfigMap` that swaps its `..data` is a changed
    /// file. While the file is missing, is a directory, is partially written or has mistakes, the limits stay as they
    /// are, and `report` gets the error once.
    ///
    /// ```no_run
    /// use plimsoll_engine::Limits;
    /// use std::time::Duration;
    ///
    /// let limits = Limits::from_file("limits.yaml")?;
    /// let watcher = limits.watch_file("limits.yaml", Duration::from_secs(1), |result| match result {
    ///     Ok(changes) => eprintln!("{changes}"), // per_user: 100/s → 200/s, 3 waiters kept
    ///     Err(error) => eprintln!("{error}"),
    /// })?;
    /// # drop(watcher);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the operating system cannot start a thread.
    pub fn watch_file(
        &self,
        path: impl AsRef<Path>,
        every: Duration,
        report: impl FnMut(Result<Changes, ConfigError>) + Send + 'static,
    ) -> io::Result<FileWatcher> {
        let limits = self.clone();
        let replace = move |config: &Config| limits.replace(config);
        FileWatch::new(path).spawn(every, replace, report)
    }

    /// Checks a watched file once, without a thread: see [`FileWatch::check`](plimsoll_config::FileWatch::check).
    ///
    /// # Errors
    ///
    /// Returns the mistakes in the file. Nothing is then changed.
    pub fn check_file(&self, file: &mut FileWatch) -> Option<Result<Changes, ConfigError>> {
        file.check_with(|config| self.replace(config))
    }
}
