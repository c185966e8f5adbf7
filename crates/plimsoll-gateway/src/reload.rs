//! Applies a changed file to limits and pools.

use std::sync::Arc;

use arc_swap::ArcSwap;
use plimsoll_engine::{Changes, Config, ConfigError, Limits};

use crate::connection::Idle;
use crate::table::Table;

pub(crate) struct Reload {
    pub(crate) limits: Limits,
    pub(crate) table: Arc<ArcSwap<Table>>,
    pub(crate) idle: Vec<Arc<Idle>>,
    /// Whether the pools come from the file.
    pub(crate) pools: bool,
}

impl Reload {
    /// Replaces limits and pools. An invalid configuration changes nothing.
    pub(crate) fn replace(&self, config: &Config) -> Result<Changes, ConfigError> {
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
