//! The file of limits, read again when it changes or the process receives a signal.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plimsoll_engine::{Changes, ConfigError, FileWatch, Limits};
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval};

use crate::systemd;

/// How often the file is looked at.
pub(crate) const EVERY: Duration = Duration::from_millis(500);

/// What came of reading the file again.
#[derive(Debug, Default)]
pub(crate) struct Reloads(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    done: u64,
    refused: u64,
    /// The last time, as JSON.
    last: Option<Value>,
}

impl Reloads {
    fn note(&self, result: &Result<Changes, ConfigError>) {
        let mut counted = self.lock();
        counted.last = Some(match result {
            Ok(changes) => {
                counted.done += 1;
                json!({ "changes": changes.details, "settings": changes.settings, "text": changes.to_string() })
            }
            Err(error) => {
                counted.refused += 1;
                let errors: Vec<String> = error.lines().collect();
                json!({ "errors": errors })
            }
        });
    }

    /// How often the file was put in place and refused, and what came of the last time.
    pub(crate) fn seen(&self) -> (u64, u64, Option<Value>) {
        let counted = self.lock();
        (counted.done, counted.refused, counted.last.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks at the file for ever, and reads it at once when the process gets SIGHUP. A bad file changes nothing.
pub(crate) async fn watch(
    limits: Limits,
    reloads: Arc<Reloads>,
    file: PathBuf,
    mut hangup: Hangup,
) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut watched = FileWatch::new(&file);
    loop {
        let changed = tokio::select! {
            _ = ticks.tick() => limits.look(&mut watched),
            () = hangup.next() => {
                systemd::reloading();
                let changed = limits.replace_file(&file);
                systemd::ready(limits.names().len());
                Some(changed)
            }
        };
        let Some(changed) = changed else {
            continue;
        };
        reloads.note(&changed);
        match changed {
            Ok(changes) if changes.is_empty() => {
                tracing::info!("limits read again: nothing changed");
            }
            Ok(changes) => {
                for line in changes.to_string().lines() {
                    tracing::info!("limits read again: {line}");
                }
            }
            Err(error) => {
                tracing::error!(%error, "the file of limits is wrong: the old limits stay");
            }
        }
    }
}

/// Lives through every SIGHUP, where there is no file.
pub(crate) async fn ignore(mut hangup: Hangup) {
    loop {
        hangup.next().await;
        tracing::warn!("no file of limits was given, so there is nothing to be read again");
    }
}

/// SIGHUP, where there is such a thing. From when it is made the signal no longer ends the process.
#[derive(Debug)]
pub(crate) struct Hangup {
    #[cfg(unix)]
    signal: Option<tokio::signal::unix::Signal>,
}

impl Hangup {
    pub(crate) fn new() -> Self {
        Self {
            #[cfg(unix)]
            signal: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()).ok(),
        }
    }

    pub(crate) async fn next(&mut self) {
        #[cfg(unix)]
        if let Some(signal) = &mut self.signal
            && signal.recv().await.is_some()
        {
            return;
        }
        std::future::pending().await
    }
}
