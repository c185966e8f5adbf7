//! What a decision asks and holds: limits, keys, costs and permits.

use std::ops::Range;

use plimsoll::{Demand, Denied, Permit, Standing};

use crate::limit::Limit;
use crate::seen::Beyond;

/// One limit of a decision.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// Which limit of the plan.
    pub(crate) limit: usize,
    /// Which of its terms: 0 for its own, others for those of a tier.
    pub(crate) terms: usize,
    /// Where its key stands, if it has one.
    pub(crate) key: Range<usize>,
    pub(crate) cost: u64,
    /// Which limit of its route it is.
    pub(crate) used: usize,
}

/// What each member of a decision says against it.
pub(crate) type Denials = Vec<Option<Denied>>;

/// How limits in stores stood, by their positions.
pub(crate) type Told = Vec<(usize, Standing)>;

/// What a decision consists of. It is used again for others: a decision that is granted allocates nothing.
#[derive(Debug)]
pub(crate) struct Parts {
    /// The priority and the deadline of the decision.
    pub(crate) like: Demand,
    /// The route that names the limits, if one does.
    pub(crate) route: Option<usize>,
    /// Whether one of them was asked, did not grant at once, and nothing is held.
    pub(crate) failed: bool,
    /// The limits, in the order in which they are asked.
    pub(crate) list: Vec<Member>,
    /// Their keys, one after the other.
    pub(crate) keys: String,
    /// Whether it is noted whose it is.
    pub(crate) sampled: bool,
    /// What was taken, by position; members behind the last one have taken nothing.
    pub(crate) permits: Vec<Option<Permit<'static>>>,
    /// What members say against it, by position; those behind the last one say nothing. Of an admitted decision these are
    /// limits in shadow mode.
    pub(crate) denials: Denials,
    pub(crate) beyond: Vec<Beyond>,
    pub(crate) told: Told,
}

impl Default for Parts {
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
            told: Told::new(),
        }
    }
}

impl Parts {
    /// Takes from a limit by its own terms, and says whether it has granted.
    #[inline]
    pub(crate) fn take(&mut self, limit: &Limit, key: Range<usize>, cost: u64) -> bool {
        let permit = limit.own().attempt(&self.keys[key], self.like.cost(cost));
        self.failed = permit.is_none();
        if !self.failed {
            self.permits.push(permit);
        }
        !self.failed
    }

    /// Gives back what is held, and forgets the rest.
    pub(crate) fn clear(&mut self) {
        self.route = None;
        self.failed = false;
        self.list.clear();
        self.keys.clear();
        self.permits.clear();
        self.denials.clear();
        self.beyond.clear();
        self.told.clear();
    }
}
