//! The file of limits, read again when it changes or the process receives a signal.

use std::path::PathBuf;
use std::time::Duration;

use plimsoll_engine::{FileWatch, Limits};
use tokio::time::{MissedTickBehavior, interval};

/// How often the file is looked at.
const EVERY: Duration = Duration::from_millis(500);

/// Looks at the file for ever, and reads it at once when the process gets SIGHUP. A bad file changes nothing.
pub(crate) async fn watch(limits: Limits, file: PathBuf) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut watched = FileWatch::new(&file);
    let mut hangup = Hangup::new();
    loop {
        let changed = tokio::select! {
            _ = ticks.tick() => limits.look(&mut watched),
            () = hangup.next() => Some(limits.replace_file(&file)),
        };
        match changed {
            None => {}
            Some(Ok(changes)) => tracing::info!(?changes, "limits read again"),
            Some(Err(error)) => {
                tracing::error!(%error, "the file of limits is wrong: the old limits stay")
            }
        }
    }
}

/// SIGHUP, where there is such a thing.
struct Hangup {
    #[cfg(unix)]
    signal: Option<tokio::signal::unix::Signal>,
}

impl Hangup {
    fn new() -> Self {
        Self {
            #[cfg(unix)]
            signal: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()).ok(),
        }
    }

    async fn next(&mut self) {
        #[cfg(unix)]
        if let Some(signal) = &mut self.signal
            && signal.recv().await.is_some()
        {
            return;
        }
        std::future::pending().await
    }
}
