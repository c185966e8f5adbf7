//! The limiters behind the keys and names of a request, other than gates.

use std::sync::Arc;
use std::task::Waker;

use super::asks::Ask;
use crate::joint::WatchReplaced;
use crate::limiter::Several;
use crate::{Demand, Permit};

/// The relations between the limiters of a group.
#[derive(Default)]
pub(super) struct Behind {
    pub(super) watches: Vec<Arc<dyn WatchReplaced>>,
    /// Limiters that consist of others, each after the one that it is a member of.
    nodes: Vec<Node>,
    /// The number of asks. Indices from here on are nodes.
    pub(super) asks: usize,
}

/// A limiter that is asked by its members.
struct Node {
    several: Arc<dyn Several>,
    /// The ask or node of which it is a part.
    parent: usize,
    /// The ask that it is a part of, and the factor of its cost.
    root: usize,
    times: u64,
}

impl Behind {
    /// Whether another limiter is behind a name by now. If not, `waker` is woken when it is.
    pub(super) fn is_outdated(&self, waker: &Waker) -> bool {
        // All of them are asked, so that each stores the waker.
        let replaced = self.watches.iter().filter(|it| it.is_replaced(waker));
        replaced.count() > 0
    }

    /// The ask that an ask or node is a part of.
    pub(super) fn root(&self, of: usize) -> usize {
        self.node(of).map_or(of, |node| node.root)
    }

    /// The demand of an ask or node.
    pub(super) fn demand(&self, asks: &[Ask<'_>], of: usize) -> Demand {
        let demand = asks[self.root(of)].demand;
        let times = self.node(of).map_or(1, |node| node.times);
        demand.cost(demand.cost.saturating_mul(times))
    }

    /// Adds a limiter that is a part of an ask or node, `times` times. Returns its index.
    pub(super) fn add(&mut self, several: &Arc<dyn Several>, parent: usize, times: u64) -> usize {
        let before = self.node(parent).map_or(1, |node| node.times);
        self.nodes.push(Node {
            several: Arc::clone(several),
            parent,
            root: self.root(parent),
            times: before.saturating_mul(times),
        });
        self.asks + self.nodes.len() - 1
    }

    fn node(&self, of: usize) -> Option<&Node> {
        self.nodes.get(of.checked_sub(self.asks)?)
    }

    /// Combines the permits of asks and nodes into one permit for each ask.
    pub(super) fn gather(
        &self,
        asks: &[Ask<'_>],
        permits: impl Iterator<Item = (usize, Permit<'static>)>,
    ) -> Vec<Option<Permit<'static>>> {
        let mut parts: Vec<Vec<Permit<'static>>> = Vec::new();
        parts.resize_with(self.asks + self.nodes.len(), Vec::new);
        permits.for_each(|(of, permit)| parts[of].push(permit));
        for (at, node) in self.nodes.iter().enumerate().rev() {
            let of = self.asks + at;
            let permits = std::mem::take(&mut parts[of]);
            let gathered = node.several.gather(permits, self.demand(asks, of));
            parts[node.parent].push(gathered);
        }
        parts.truncate(self.asks);
        parts.into_iter().map(|mut part| part.pop()).collect()
    }
}
