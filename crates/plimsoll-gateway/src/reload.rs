//! The file, read again when it changes or the process receives a signal.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use plimsoll_engine::{Changes, Config, ConfigError, FileWatch, Limits};
use tokio::time::{MissedTickBehavior, interval};

use crate::connection::Idle;
use crate::table::Table;

/// How often the file is looked at.
const EVERY: Duration = Duration::from_millis(500);

pub(crate) struct Reload {
    pub(crate) limits: Limits,
    pub(crate) table: Arc<ArcSwap<Table>>,
    pub(crate) idle: Vec<Arc<Idle>>,
    /// Whether the pools are those of the file.
    pub(crate) pools: bool,
}

impl Reload {
    /// Looks at the file for ever. A bad file changes nothing.
    pub(crate) async fn watch(self, file: PathBuf) {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut watched = FileWatch::new(&file);
        loop {
            ticks.tick().await;
            match watched.look_with(|config| self.replace(config)) {
                None => {}
                Some(Ok(changes)) => tracing::info!(?changes, "the file was read again"),
                Some(Err(error)) => {
                    tracing::error!(%error, "the file is wrong: what was there stays")
                }
            }
        }
    }

    fn replace(&self, config: &Config) -> Result<Changes, ConfigError> {
        let changes = self.limits.replace(config)?;
        let Some(spec) = config.gateway().filter(|_| self.pools) else {
            return Ok(changes);
        };
        match Table::new(spec, config, Some(&self.table.load())) {
            Ok(table) => {
                self.idle
                    .iter()
                    .for_each(|idle| idle.retain(|id| table.knows(id)));
                self.table.store(Arc::new(table));
            }
            Err(error) => tracing::error!(%error, "the pools stay as they were"),
        }
        Ok(changes)
    }
}
