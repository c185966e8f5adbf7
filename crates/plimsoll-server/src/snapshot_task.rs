//! Writes snapshots, periodically and at shutdown.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::state::State;

/// Writes a snapshot at each interval, forever.
pub(crate) async fn write_periodically(state: Arc<State>, every: Duration) {
    let mut ticks = interval(every.max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick completes immediately.
    ticks.tick().await;
    loop {
        ticks.tick().await;
        write(&state).await;
    }
}

/// Writes a snapshot if a directory for snapshots is set.
pub(crate) async fn write(state: &Arc<State>) {
    let state = Arc::clone(state);
    let written = tokio::task::spawn_blocking(move || {
        if let Some(snapshots) = &state.snapshots {
            let State {
                limits,
                envoy,
                parametric,
                clock,
                ..
            } = &*state;
            snapshots.write(limits, envoy, parametric, clock);
        }
    });
    // The panic hook has reported a panic.
    let _ = written.await;
}
