//! The state of a decision: its limits, keys, costs and permits.

use std::ops::Range;

use plimsoll::{Demand, Denied, Permit, Standing};

use crate::limit::Limit;
use crate::stats::ShadowExcess;

/// One limit of a decision.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// The position of the limit in the plan.
    pub(crate) limit: usize,
    /// The number of its terms: 0 for the limit's own, others for those of a tier or an override.
    pub(crate) terms: usize,
    /// The range of its key in [`DecisionState::keys`]; empty if it has none.
    pub(crate) key: Range<usize>,
    pub(crate) cost: u64,
    /// The position of the limit in its route.
    pub(crate) used: usize,
}

/// The refusal of each member, by position.
pub(crate) type Denials = Vec<Option<Denied>>;

/// The standings that stores reported, by the position of the member.
pub(crate) type StoreStandings = Vec<(usize, Standing)>;

/// The state of a decision. It comes from a [pool](crate::pool): a decision that is granted allocates nothing.
#[derive(Debug)]
pub(crate) struct DecisionState {
    /// The priority and the deadline of the decision.
    pub(crate) like: Demand,
    /// The route that named the limits, if one did.
    pub(crate) route: Option<usize>,
    /// Whether a limit did not grant on the fast path. Nothing is held then.
    pub(crate) failed: bool,
    /// The limits, in the order in which they are asked.
    pub(crate) list: Vec<Member>,
    /// Their keys, concatenated.
    pub(crate) keys: String,
    /// Whether the decision is sampled for the top keys.
    pub(crate) sampled: bool,
    /// The permits, by position. The list may be shorter than the list of members.
    pub(crate) permits: Vec<Option<Permit<'static>>>,
    /// The refusals, by position. The list may be shorter than the list of members. In an admitted decision only limits in
    /// shadow mode have one.
    pub(crate) denials: Denials,
    pub(crate) beyond: Vec<ShadowExcess>,
    pub(crate) store_standings: StoreStandings,
}

impl Default for DecisionState {
    fn default() -> Self {
        Self {
            like: Demand::ONE,
            route: None,
            failed: false,
            list: Vec::new(),
            keys: String::new(),
            sampled: false,
            permits: Vec::new(),
            denials: Denials::new(),
            beyond: Vec::new(),
            store_standings: StoreStandings::new(),
        }
    }
}

impl DecisionState {
    /// Takes from a limit by its own terms, and returns whether it has granted.
    #[inline]
    pub(crate) fn take(&mut self, limit: &Limit, key: Range<usize>, cost: u64) -> bool {
        let permit = limit.own().attempt(&self.keys[key], self.like.cost(cost));
        self.failed = permit.is_none();
        if !self.failed {
            self.permits.push(permit);
        }
        !self.failed
    }

    /// Returns all permits, and clears everything else.
    pub(crate) fn clear(&mut self) {
        self.route = None;
        self.failed = false;
        self.list.clear();
        self.keys.clear();
        self.permits.clear();
        self.denials.clear();
        self.beyond.clear();
        self.store_standings.clear();
    }
}
