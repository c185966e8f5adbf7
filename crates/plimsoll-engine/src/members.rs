//! What one decision asks, resolved against one plan.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use plimsoll::together::{Ask, Key};
use plimsoll::{Demand, Denied, Permit, Standing};
use plimsoll_kinds::TextKeys;
use smallvec::SmallVec;

use crate::handle::{Handle, Subject};
use crate::limit::Limit;
use crate::parts::{Member, Parts};
use crate::plan::Plan;
use crate::pool;

/// How many limits are asked together without an allocation where they cannot be asked one by one.
const FEW: usize = 4;

/// The limits of a decision, with everything that is theirs. It owns the keys, so that it can wait.
pub(crate) struct Members {
    pub(crate) plan: Arc<Plan>,
    /// `None` only while it is dropped.
    parts: Option<Box<Parts>>,
}

impl Members {
    #[inline]
    pub(crate) fn new(plan: Arc<Plan>, like: Demand) -> Self {
        let mut parts = pool::take();
        parts.like = like;
        Self {
            plan,
            parts: Some(parts),
        }
    }

    /// What it was resolved against, and the rest.
    #[inline]
    pub(crate) fn split(&mut self) -> (&Plan, &mut Parts) {
        match &mut self.parts {
            Some(parts) => (&self.plan, parts),
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

    /// Notes by which terms each key is asked.
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

    /// What a member would be answered now, if it were asked alone. Takes nothing, counts nothing and leaves no key behind.
    pub(crate) fn estimate(&self, member: &Member) -> Result<(), Denied> {
        let carried = self.limit(member).carried(self.key(member), member.terms);
        let demand = self.like.cost(self.whole_cost(member)).at_once();
        self.subject(member).estimate(carried, demand)
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
        let standing = self.subject(member).standing()?;
        // Of a decision that was only looked at.
        let carried = self.limit(member).carried(self.key(member), member.terms);
        let remaining = standing.remaining.map(|it| it.saturating_sub(carried));
        Some(standing.remaining(remaining))
    }

    /// The cost of the subject of a member in the whole decision: the same subject twice is asked for the sum.
    pub(crate) fn whole_cost(&self, of: &Member) -> u64 {
        let same = self.list.iter().filter(|it| self.is_same_subject(it, of));
        let costs = same.map(|member| member.cost);
        costs.fold(0, u64::saturating_add)
    }

    /// The position of the first member that asks the subject of this one.
    pub(crate) fn first_of_subject(&self, of: &Member) -> usize {
        let first = self.list.iter().position(|it| self.is_same_subject(it, of));
        first.unwrap_or_default()
    }

    fn is_same_subject(&self, one: &Member, other: &Member) -> bool {
        (one.limit, one.terms) == (other.limit, other.terms) && self.key(one) == self.key(other)
    }

    /// Whether a member is asked with the others: it is enforced, and something can refuse.
    pub(crate) fn is_asked(&self, member: &Member) -> bool {
        !self.limit(member).shadow && !matches!(self.handle(member), Handle::Unlimited)
    }

    /// Keeps the permit of a member.
    pub(crate) fn keep_permit(&mut self, index: usize, permit: Permit<'static>) {
        let permits = &mut self.permits;
        if permits.len() <= index {
            permits.resize_with(index + 1, || None);
        }
        permits[index] = Some(permit);
    }

    /// Undoes what was taken, also from rates, in the opposite order.
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

    /// Calls `with` with what is asked of which limiters and keys, and for each its position in the list.
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
    type Target = Parts;

    #[inline]
    fn deref(&self) -> &Parts {
        match &self.parts {
            Some(parts) => parts,
            None => unreachable!("it is not dropped yet"),
        }
    }
}

impl DerefMut for Members {
    #[inline]
    fn deref_mut(&mut self) -> &mut Parts {
        match &mut self.parts {
            Some(parts) => parts,
            None => unreachable!("it is not dropped yet"),
        }
    }
}

impl Drop for Members {
    #[inline]
    fn drop(&mut self) {
        if let Some(parts) = self.parts.take() {
            pool::give_back(parts);
        }
    }
}

/// A clone holds nothing.
impl Clone for Members {
    fn clone(&self) -> Self {
        let mut clone = Self::new(Arc::clone(&self.plan), self.like);
        clone.route = self.route;
        clone.list.clone_from(&self.list);
        clone.keys.clone_from(&self.keys);
        clone.denials.clone_from(&self.denials);
        clone.told.clone_from(&self.told);
        clone
    }
}

impl fmt::Debug for Members {
    /// Without keys: they may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = self.list.iter().map(|member| &*self.limit(member).name);
        f.debug_list().entries(limits).finish()
    }
}
