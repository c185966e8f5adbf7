//! The configuration, read again when it changes or the process receives a signal.

use std::sync::Arc;

use tokio::time::{MissedTickBehavior, interval};

use super::Envoy;
use plimsoll_admin::Hangup;

/// Looks at the configuration of Envoy's reference server for ever, and reads it at once when the process gets SIGHUP. A bad
/// one changes nothing.
pub(crate) async fn watch(envoy: Arc<Envoy>) {
    let mut ticks = interval(Hangup::EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut hangup = Hangup::new();
    loop {
        let in_any_case = tokio::select! {
            _ = ticks.tick() => false,
            () = hangup.next() => true,
        };
        let envoy = Arc::clone(&envoy);
        // It reads files, and may have much to read.
        let read = tokio::task::spawn_blocking(move || envoy.reload(in_any_case));
        match read.await.ok().flatten() {
            None => {}
            Some(Ok(domains)) => tracing::info!(domains, "the configuration of Envoy read again"),
            Some(Err(error)) => {
                tracing::error!(%error, "the configuration of Envoy is wrong: the old one stays");
            }
        }
    }
}
