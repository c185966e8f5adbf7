//! Limits that change when their file does.

use std::io;
use std::path::Path;
use std::time::Duration;

use plimsoll_config::{Changes, Config, ConfigError, FileWatch, FileWatcher};

use crate::limits::Limits;

impl Limits {
    /// Reads a file and [puts it in place](Self::replace).
    ///
    /// # Errors
    ///
    /// If something is wrong with it; then nothing has changed.
    pub fn replace_file(&self, path: impl AsRef<Path>) -> Result<Changes, ConfigError> {
        self.replace(&Config::from_file(path)?)
    }

    /// Looks at a file every so often, in a thread of its own, [puts it in place](Self::replace) when it has changed, and
    /// reports what changed. It ends when the returned guard is dropped.
    ///
    /// What the file says is compared, so links are followed: a `ConfigMap` that swaps its `..data` is a changed file. While a
    /// file is deleted, replaced by a directory, half written or wrong, the limits stay as they are, and the error is reported
    /// once.
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
    /// If the operating system has no thread to give.
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

    /// Looks at a file now and then: see [`FileWatch::look`](plimsoll_config::FileWatch::look).
    ///
    /// # Errors
    ///
    /// If something is wrong with it; then nothing has changed.
    pub fn look(&self, file: &mut FileWatch) -> Option<Result<Changes, ConfigError>> {
        file.look_with(|config| self.replace(config))
    }
}
