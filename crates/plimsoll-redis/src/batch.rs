//! Batches of demands on one limiter: see [`batcher`](crate::batcher).

use plimsoll::Moment;

use crate::StoreError;
use crate::answer::{Answer, Decided};
use crate::batcher::{BatchedWork, Waiter};
use crate::lease::Lease;
use crate::rule::{self, RedisRule};
use crate::script::Script;
use crate::store::Store;

/// The demand of one caller.
pub(crate) struct Demand {
    pub(crate) key: Vec<u8>,
    pub(crate) cost: u64,
    /// The id of the lease, if the limit has leases.
    pub(crate) id: String,
    /// The requested lease. If the caller has dropped its future when the reply arrives, the lease is dropped, which
    /// releases it.
    pub(crate) lease: Option<Box<Lease>>,
}

/// Sends batches of demands on one limiter.
pub(crate) struct LimiterBatches {
    script: Script,
    words: Vec<String>,
    limit: u64,
    leases: bool,
}

impl LimiterBatches {
    pub(crate) fn new(rule: &RedisRule, words: Vec<String>) -> Self {
        Self {
            script: Script::batch(rule),
            words,
            limit: rule.limit(),
            leases: rule.lease_length().is_some(),
        }
    }

    /// Writes the demands as arguments: see `lua/list.lua`.
    fn write(&self, demands: &[Demand], command: &mut redis::Cmd) {
        for list in demands.chunk_by(|one, other| one.key == other.key) {
            let runs = || list.chunk_by(|one, other| one.cost == other.cost);
            command.arg(runs().count());
            for run in runs() {
                command.arg(run.len()).arg(rule::amount(run[0].cost));
                if self.leases {
                    for demand in run {
                        command.arg(&demand.id);
                    }
                }
            }
        }
    }
}

impl BatchedWork for LimiterBatches {
    type Demand = Demand;
    type Reply = (Decided, Option<Box<Lease>>);
    type Transport = Store;

    fn keys(demand: &Demand) -> &[Vec<u8>] {
        std::slice::from_ref(&demand.key)
    }

    /// Sorts by key, stably: only the order of the demands on one key matters.
    fn arrange(waiters: &mut [Waiter<Self>]) {
        waiters.sort_by(|one, other| one.demand.key.cmp(&other.demand.key));
    }

    async fn send(
        &self,
        store: &Store,
        demands: Vec<Demand>,
    ) -> Result<Vec<Result<Self::Reply, StoreError>>, StoreError> {
        let groups = || demands.chunk_by(|one, other| one.key == other.key);
        let keys: Vec<&[u8]> = groups().map(|group| group[0].key.as_slice()).collect();
        let now = store.now();
        let first = (4 + self.words.len() + usize::from(self.leases)).to_string();
        let answer = store
            .evaluate(&self.script, &keys, |command| {
                command.arg("batch").arg(&now).arg(&first).arg(&self.words);
                if self.leases {
                    command.arg("");
                }
                self.write(&demands, command);
            })
            .await?;
        let mut answer = Answer::new(answer)?;
        store.health().decided(demands.len());
        let mut last = Moment::ORIGIN;
        let reply = |demand: Demand| {
            let decided = answer.decided_of_list(self.limit, demand.cost, last)?;
            if let Decided::Granted(_, taken) = &decided {
                last = *taken;
            }
            Ok((decided, demand.lease))
        };
        Ok(demands.into_iter().map(reply).collect())
    }
}
