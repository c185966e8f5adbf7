//! What one decision asks: limits, keys and costs, resolved against one plan.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use plimsoll::together::{Ask, Key};
use plimsoll::{Demand, Standing};
use plimsoll_config::KeyedLimiter;
use smallvec::SmallVec;

use crate::handle::{Handle, Subject};
use crate::key_buffer::KeyBuffer;
use crate::plan::{Limit, Plan};

/// How many members a decision has without an allocation. A request seldom has more limits.
pub(crate) const FEW: usize = 4;

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

/// The limits of a decision, in the order in which they are asked. It owns the keys, so that it can wait.
#[derive(Clone)]
pub(crate) struct Members {
    pub(crate) plan: Arc<Plan>,
    /// The route that names them, if one does.
    pub(crate) route: Option<usize>,
    pub(crate) list: SmallVec<[Member; FEW]>,
    pub(crate) keys: KeyBuffer,
    /// The priority and the deadline of the decision.
    pub(crate) like: Demand,
}

impl Members {
    pub(crate) fn new(plan: Arc<Plan>, like: Demand) -> Self {
        Self {
            plan,
            route: None,
            list: SmallVec::new(),
            keys: KeyBuffer::default(),
            like,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn limit(&self, member: &Member) -> &Limit {
        &self.plan.limits[member.limit]
    }

    pub(crate) fn handle(&self, member: &Member) -> &Handle {
        self.limit(member).terms(member.terms)
    }

    pub(crate) fn key(&self, member: &Member) -> &str {
        self.keys.text(member.key.clone())
    }

    pub(crate) fn subject(&self, member: &Member) -> Subject<'_> {
        self.handle(member).of(self.key(member))
    }

    pub(crate) fn demand(&self, member: &Member) -> Demand {
        self.like.cost(member.cost)
    }

    /// Makes a time that is left a deadline: what is waited for in memory and in stores has one together.
    pub(crate) fn fix_deadline(&mut self) {
        let Some(member) = self.list.first() else {
            return;
        };
        let is_remote = |member: &Member| self.handle(member).is_remote();
        if self.like.is_at_once() || !self.list.iter().any(is_remote) {
            return;
        }
        let now = self.handle(member).now();
        if let Some(deadline) = now.and_then(|now| self.like.deadline(now)) {
            self.like = self.like.until(deadline);
        }
    }

    pub(crate) fn standing(&self, member: &Member) -> Option<Standing> {
        self.subject(member).standing()
    }

    /// The cost of the subject of a member in the whole decision: the same subject twice is asked for the sum.
    pub(crate) fn whole_cost(&self, of: &Member) -> u64 {
        let same = |member: &&Member| {
            (member.limit, member.terms) == (of.limit, of.terms) && self.key(member) == self.key(of)
        };
        let costs = self.list.iter().filter(same).map(|member| member.cost);
        costs.fold(0, u64::saturating_add)
    }

    /// Whether a member is asked with the others: it is enforced, and something can refuse.
    pub(crate) fn is_asked(&self, member: &Member) -> bool {
        !self.limit(member).shadow && !matches!(self.handle(member), Handle::Unlimited)
    }

    /// Calls `with` with what is asked of which limiters and keys, and for each its position in the list.
    pub(crate) fn with_asks<T>(
        &self,
        select: impl Fn(&Member) -> bool,
        with: impl FnOnce(&[Ask<'_>], &[usize]) -> T,
    ) -> T {
        let mut keys: SmallVec<[Key<'_, KeyedLimiter, str>; FEW]> = SmallVec::new();
        let mut selected: SmallVec<[usize; FEW]> = SmallVec::new();
        for (index, member) in self.list.iter().enumerate() {
            if select(member) {
                selected.push(index);
                keys.extend(self.subject(member).key());
            }
        }
        let mut keys = keys.iter();
        let mut asks: SmallVec<[Ask<'_>; FEW]> = SmallVec::new();
        let mut positions: SmallVec<[usize; FEW]> = SmallVec::new();
        for index in selected {
            let member = &self.list[index];
            let demand = self.demand(member);
            match self.subject(member) {
                Subject::One(limiter) => asks.push(Ask::limiter(limiter, demand)),
                Subject::Keyed(..) => {
                    asks.extend(keys.next().map(|key| Ask::key(key, demand)));
                }
                Subject::Unlimited | Subject::Blocked => continue,
            }
            positions.push(index);
        }
        with(&asks, &positions)
    }
}

impl fmt::Debug for Members {
    /// Without keys: they may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = self.list.iter().map(|member| &*self.limit(member).name);
        f.debug_list().entries(limits).finish()
    }
}
