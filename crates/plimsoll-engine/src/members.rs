//! The members of one decision: limits with keys and costs, resolved against one plan.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use plimsoll::together::{Ask, Key};
use plimsoll::{Demand, Denied, Permit, Standing};
use plimsoll_kinds::TextKeys;
use smallvec::SmallVec;

use crate::handle::{Handle, Subject};
use crate::limit::Limit;
use crate::plan::Plan;
use crate::pool;
use crate::state::{DecisionState, Member};

/// The number of limits that the slow path asks together without an allocation.
const FEW: usize = 4;

/// The members of a decision and its [state](DecisionState). It owns the keys, so that the decision can wait.
pub(crate) struct Members {
    pub(crate) plan: Arc<Plan>,
    /// `None` only while it is dropped.
    state: Option<Box<DecisionState>>,
}

impl Members {
    #[inline]
    pub(crate) fn new(plan: Arc<Plan>, like: Demand) -> Self {
        let mut state = pool::take();
        state.like = like;
        Self {
            plan,
            state: Some(state),
        }
    }

    /// The plan, and the state to change.
    #[inline]
    pub(crate) fn split(&mut self) -> (&Plan, &mut DecisionState) {
        match &mut self.state {
            Some(state) => (&self.plan, state),
            None => unreachable!("it is not dropped yet"),
        }
    }

    #[inline]
    pub(crate) fn limit(&self, member: &Member) -> &Limit {
        &self.plan.limits[member.limit]
    }

    #[inline]
    pub(crate) fn handle(&self, member: &Member) -> &Handle {
        self.limit(member).terms(member.terms)
    }

    #[inline]
    pub(crate) fn key(&self, member: &Member) -> &str {
        &self.keys[member.key.clone()]
    }

    #[inline]
    pub(crate) fn subject(&self, member: &Member) -> Subject<'_> {
        self.handle(member).of(self.key(member))
    }

    #[inline]
    pub(crate) fn demand(&self, member: &Member) -> Demand {
        self.like.cost(member.cost)
    }

    /// Stores the terms of each key, for limits with tiers.
    #[inline]
    pub(crate) fn note_terms(&self) {
        if self.plan.has_tiers {
            self.note_tiers();
        }
    }

    #[inline(never)]
    fn note_tiers(&self) {
        for member in &self.list {
            self.limit(member)
                .note_terms(self.key(member), member.terms);
        }
    }

    /// The answer of a member now, if it were asked alone. Takes nothing, counts nothing and creates no key.
    pub(crate) fn estimate(&self, member: &Member) -> Result<(), Denied> {
        let carried = self.limit(member).carried(self.key(member), member.terms);
        let demand = self.like.cost(self.whole_cost(member)).at_once();
        self.subject(member).estimate(carried, demand)
    }

    /// Turns a time-out into a deadline, if members are in stores: the waits in memory and for stores share it.
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
        let standing = self.subject(member).standing()?;
        // In a decision that was only peeked, usage under former terms is not charged yet.
        let carried = self.limit(member).carried(self.key(member), member.terms);
        let remaining = standing.remaining.map(|it| it.saturating_sub(carried));
        Some(standing.remaining(remaining))
    }

    /// The cost of the subject of a member in the whole decision: the sum over all members with the same subject.
    pub(crate) fn whole_cost(&self, of: &Member) -> u64 {
        let same = self.list.iter().filter(|it| self.is_same_subject(it, of));
        let costs = same.map(|member| member.cost);
        costs.fold(0, u64::saturating_add)
    }

    /// The position of the first member with the subject of this one.
    pub(crate) fn first_of_subject(&self, of: &Member) -> usize {
        let first = self.list.iter().position(|it| self.is_same_subject(it, of));
        first.unwrap_or_default()
    }

    fn is_same_subject(&self, one: &Member, other: &Member) -> bool {
        (one.limit, one.terms) == (other.limit, other.terms) && self.key(one) == self.key(other)
    }

    /// Whether a member can refuse the decision: it is enforced, and not unlimited.
    pub(crate) fn is_asked(&self, member: &Member) -> bool {
        !self.limit(member).shadow && !matches!(self.handle(member), Handle::Unlimited)
    }

    /// Stores the permit of a member.
    pub(crate) fn store_permit(&mut self, index: usize, permit: Permit<'static>) {
        let permits = &mut self.permits;
        if permits.len() <= index {
            permits.resize_with(index + 1, || None);
        }
        permits[index] = Some(permit);
    }

    /// Undoes all grants, also of rates, in the opposite order.
    pub(crate) fn undo(&mut self) {
        let mut permits = std::mem::take(&mut self.permits);
        for (member, permit) in self.list.iter().zip(&mut permits).rev() {
            if let Some(permit) = permit.take() {
                self.subject(member).undo(permit);
            }
        }
        permits.clear();
        self.permits = permits;
        self.beyond.clear();
    }

    /// Calls `with` with the asks of the selected members, and the position of each in the list.
    pub(crate) fn with_asks<T>(
        &self,
        select: impl Fn(&Member) -> bool,
        with: impl FnOnce(&[Ask<'_>], &[usize]) -> T,
    ) -> T {
        let mut keys: SmallVec<[Key<'_, dyn TextKeys, str>; FEW]> = SmallVec::new();
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
                Subject::One(limiter) => asks.push(Ask::limiter(&**limiter, demand)),
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

impl Deref for Members {
    type Target = DecisionState;

    #[inline]
    fn deref(&self) -> &DecisionState {
        match &self.state {
            Some(state) => state,
            None => unreachable!("it is not dropped yet"),
        }
    }
}

impl DerefMut for Members {
    #[inline]
    fn deref_mut(&mut self) -> &mut DecisionState {
        match &mut self.state {
            Some(state) => state,
            None => unreachable!("it is not dropped yet"),
        }
    }
}

impl Drop for Members {
    #[inline]
    fn drop(&mut self) {
        if let Some(state) = self.state.take() {
            pool::give_back(state);
        }
    }
}

/// A clone has no permits.
impl Clone for Members {
    fn clone(&self) -> Self {
        let mut clone = Self::new(Arc::clone(&self.plan), self.like);
        clone.route = self.route;
        clone.list.clone_from(&self.list);
        clone.keys.clone_from(&self.keys);
        clone.denials.clone_from(&self.denials);
        clone.store_standings.clone_from(&self.store_standings);
        clone
    }
}

impl fmt::Debug for Members {
    /// Leaves out the keys, because they may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = self.list.iter().map(|member| &*self.limit(member).name);
        f.debug_list().entries(limits).finish()
    }
}
