//! Reloads the configuration when it changes or the process receives SIGHUP.

use std::sync::Arc;

use tokio::time::{MissedTickBehavior, interval};

use super::Envoy;
use plimsoll_admin::Hangup;

/// Polls the configuration of Envoy's reference server for changes, forever, and reloads it at once on SIGHUP. An invalid
/// configuration changes nothing.
pub(crate) async fn reload_on_change(envoy: Arc<Envoy>) {
    let mut ticks = interval(Hangup::EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut hangup = Hangup::new();
    loop {
        let in_any_case = tokio::select! {
            _ = ticks.tick() => false,
            () = hangup.next() => true,
        };
        let envoy = Arc::clone(&envoy);
        // Reading many files blocks.
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
