//! The file of limits, read again when it changes or the process receives a signal.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plimsoll_engine::{Changes, Config, ConfigError, FileWatch, Limits};
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval};

use crate::systemd;

/// What came of reading the file again. A clone is the same.
#[derive(Clone, Debug, Default)]
pub struct Reloads(Arc<Mutex<Counted>>);

#[derive(Debug, Default)]
struct Counted {
    done: u64,
    refused: u64,
    /// What the last time changed, or why it was refused, as JSON.
    last: Option<Value>,
}

impl Reloads {
    fn note(&self, result: &Result<Changes, ConfigError>) {
        let mut counted = self.lock();
        match result {
            Ok(changes) => {
                counted.done += 1;
                // What a signal had read is looked at once more: the last difference stays.
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

    /// How often the file was put in place and refused, and what came of the last time that changed something or was refused.
    #[must_use]
    pub fn seen(&self) -> (u64, u64, Option<Value>) {
        let counted = self.lock();
        (counted.done, counted.refused, counted.last.clone())
    }

    /// Looks at the file for ever, and reads it at once when the process gets SIGHUP. `replace` puts it in place and says what
    /// changed; a bad file changes nothing. systemd is told how many `limits` there are.
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

/// SIGHUP, where there is such a thing. From when it is made the signal no longer ends the process.
#[derive(Debug)]
pub struct Hangup {
    #[cfg(unix)]
    signal: Option<tokio::signal::unix::Signal>,
}

impl Hangup {
    /// How often files are looked at, beside the signal.
    pub const EVERY: Duration = Duration::from_millis(500);

    /// Waits for signals from now on.
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

    /// Lives through every signal, where there is no file to be read again.
    pub async fn ignore(mut self) {
        loop {
            self.next().await;
            tracing::warn!("no file of limits was given, so there is nothing to be read again");
        }
    }

    /// Returns when the process has got one.
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
