//! The pools of the `gateway` section of a file.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use plimsoll_config::gateway::GatewaySpec;
use plimsoll_config::{Config, Network};
use tokio::time::Instant;

use crate::pool::{Pool, ServerView};
use crate::tls::TlsError;

/// Pools by name, and settings for all of them. A reload of the file replaces the table.
#[derive(Debug)]
pub(crate) struct Table {
    pools: HashMap<String, Arc<Pool>>,
    first: Option<Arc<Pool>>,
    trusted: Vec<Network>,
    pub(crate) max_body: u64,
}

impl Table {
    /// The table of `config`. Servers that `before` also has keep their health and counters.
    pub(crate) fn new(
        spec: &GatewaySpec,
        config: &Config,
        before: Option<&Self>,
    ) -> Result<Self, TlsError> {
        let mut pools = HashMap::new();
        let mut first = None;
        for (name, upstream) in spec.upstreams.iter() {
            let known = before.and_then(|table| table.pools.get(name));
            let pool = Arc::new(Pool::new(name, upstream, known.map(|pool| &**pool))?);
            first.get_or_insert_with(|| Arc::clone(&pool));
            pools.insert(name.to_owned(), pool);
        }
        Ok(Self {
            pools,
            first,
            trusted: config.client().proxies,
            max_body: spec.max_body.map_or(u64::MAX, |bytes| bytes.0),
        })
    }

    /// The pool of this name; the first pool if there is no name.
    pub(crate) fn pool(&self, name: Option<&str>) -> Option<&Arc<Pool>> {
        match name {
            Some(name) => self.pools.get(name),
            None => self.first.as_ref(),
        }
    }

    /// The state of all servers, sorted by pool.
    pub(crate) fn servers(&self, now: Instant) -> Vec<ServerView> {
        let mut pools: Vec<&Arc<Pool>> = self.pools.values().collect();
        pools.sort_by(|a, b| a.name.cmp(&b.name));
        pools.iter().flat_map(|pool| pool.servers(now)).collect()
    }

    /// Whether a peer is a trusted proxy, whose `Forwarded` fields count.
    pub(crate) fn trusts(&self, peer: IpAddr) -> bool {
        self.trusted.iter().any(|network| network.contains(peer))
    }

    /// Whether one of the pools has the server with this id.
    pub(crate) fn knows(&self, id: usize) -> bool {
        let mut endpoints = self.pools.values().flat_map(|pool| &pool.endpoints);
        endpoints.any(|endpoint| endpoint.id == id)
    }
}
