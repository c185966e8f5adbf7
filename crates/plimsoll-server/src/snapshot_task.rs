//! Snapshots at their time: now and then, and at the end.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::state::State;

/// Writes a snapshot now and then, for ever.
pub(crate) async fn now_and_then(state: Arc<State>, every: Duration) {
    let mut ticks = interval(every.max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first is now.
    ticks.tick().await;
    loop {
        ticks.tick().await;
        write(&state).await;
    }
}

/// Writes a snapshot, where states are kept.
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
    // If it panicked, that was said.
    let _ = written.await;
}
