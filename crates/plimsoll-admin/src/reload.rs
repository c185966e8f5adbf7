//! Reloads the file of limits when it changes or the process receives SIGHUP.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plimsoll_engine::{Changes, Config, ConfigError, FileWatch, Limits};
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval};

use crate::systemd;

/// The results of reloads. Clones share one state.
#[derive(Clone, Debug, Default)]
pub struct Reloads(Arc<Mutex<Counted>>);

#[derive(Debug, Default)]
struct Counted {
    done: u64,
    refused: u64,
    /// The changes of the last reload, or its errors, as JSON.
    last: Option<Value>,
}

impl Reloads {
    fn note(&self, result: &Result<Changes, ConfigError>) {
        let mut counted = self.lock();
        match result {
            Ok(changes) => {
                counted.done += 1;
                // After a reload by signal the file is polled once more without a difference: keeps the last result.
                let is_right = counted
                    .last
                    .as_ref()
                    .is_some_and(|it| it["errors"].is_null());
                if !(changes.is_empty() && is_right) {
                    let text = changes.to_string();
                    counted.last = Some(
                        json!({ "changes": changes.details, "settings": changes.settings, "text": text }),
                    );
                }
            }
            Err(error) => {
                counted.refused += 1;
                let errors: Vec<String> = error.lines().collect();
                counted.last = Some(json!({ "errors": errors }));
            }
        }
    }

    /// The number of successful reloads, the number of failed ones, and the result of the last reload that changed something or failed.
    #[must_use]
    pub fn seen(&self) -> (u64, u64, Option<Value>) {
        let counted = self.lock();
        (counted.done, counted.refused, counted.last.clone())
    }

    /// Polls the file for changes, forever, and reloads it at once on SIGHUP. `replace` applies a file and returns the changes; an invalid
    /// file changes nothing. Reports the number of `limits` to systemd.
    pub async fn watch(
        self,
        file: PathBuf,
        mut hangup: Hangup,
        limits: Limits,
        mut replace: impl FnMut(&Config) -> Result<Changes, ConfigError>,
    ) {
        let mut ticks = interval(Hangup::EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut watched = FileWatch::new(&file);
        loop {
            let changed = tokio::select! {
                _ = ticks.tick() => watched.check_with(&mut replace),
                () = hangup.next() => {
                    systemd::reloading();
                    let changed = Config::from_file(&file).and_then(|config| replace(&config));
                    systemd::ready(limits.names().len());
                    Some(changed)
                }
            };
            let Some(changed) = changed else {
                continue;
            };
            self.note(&changed);
            match changed {
                Ok(changes) if changes.is_empty() => {
                    tracing::info!("the file was read again: nothing changed");
                }
                Ok(changes) => {
                    for line in changes.to_string().lines() {
                        tracing::info!("the file was read again: {line}");
                    }
                }
                Err(error) => {
                    tracing::error!(%error, "the file is wrong: what was in place stays");
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A listener for SIGHUP, on Unix. Once it is created, the signal no longer ends the process.
#[derive(Debug)]
pub struct Hangup {
    #[cfg(unix)]
    signal: Option<tokio::signal::unix::Signal>,
}

impl Hangup {
    /// Interval at which files are polled for changes.
    pub const EVERY: Duration = Duration::from_millis(500);

    /// Installs the signal handler.
    #[must_use]
    #[expect(
        clippy::new_without_default,
        reason = "it changes what the signal does"
    )]
    pub fn new() -> Self {
        Self {
            #[cfg(unix)]
            signal: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()).ok(),
        }
    }

    /// Ignores the signal, forever: for programs without a file.
    pub async fn ignore(mut self) {
        loop {
            self.next().await;
            tracing::warn!("no file of limits was given, so there is nothing to be read again");
        }
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) {
        #[cfg(unix)]
        if let Some(signal) = &mut self.signal
            && signal.recv().await.is_some()
        {
            return;
        }
        std::future::pending().await
    }
}
