//! A request to a group, and the operations that do not wait.

use std::sync::Arc;

use super::asks::Ask;
use super::{
    Group, Left, List, One, Permits, Reserved, Taken, attempt, estimate, refuse, reserve,
    unexplained,
};
use crate::limiter::Several;
use crate::name::Name;
use crate::{Demand, Denied, Moment};

/// A request to a [`Group`].
#[derive(Clone, Copy)]
#[must_use = "nothing is asked before one of its methods is called"]
pub struct Request<'a, U, C> {
    pub(super) group: &'a Group<U>,
    /// Limiters that are not in the group itself.
    pub(super) asks: &'a [Ask<'a>],
    /// The demand of a use, if each has its own time-out.
    pub(super) demand_of: Option<DemandOf<U>>,
    pub(super) like: Demand,
    pub(super) cost: C,
}

/// The demand of a use of a group.
type DemandOf<U> = fn(&Group<U>, &[Ask<'_>], U) -> Demand;

impl<U, C> std::fmt::Debug for Request<'_, U, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request")
            .field("group", self.group)
            .field("like", &self.like)
            .finish_non_exhaustive()
    }
}

impl<'a, U, C> Request<'a, U, C>
where
    U: Copy + PartialEq,
    C: Fn(U) -> Option<u64> + Copy,
{
    /// The same request with another priority and deadline.
    pub(crate) fn with(self, like: Demand) -> Self {
        Self { like, ..self }
    }

    /// The first member that is asked, in the order of the list of limiters.
    pub(crate) fn first(self) -> Option<usize> {
        let asked = (0..self.len()).filter(|&index| self.cost(index).is_some());
        asked.min_by_key(|&index| self.group.uses[index].position)
    }

    /// The limiters that are asked and consist of others.
    #[inline]
    pub(crate) fn several(self) -> impl Iterator<Item = &'a Arc<dyn Several>> {
        let several = self.group.several.iter();
        several.filter_map(move |(several, of)| (self.cost)(*of).map(|_| several))
    }
}

impl<'a, U, C> List<'a> for Request<'a, U, C>
where
    U: Copy + PartialEq,
    C: Fn(U) -> Option<u64> + Copy,
{
    #[inline]
    fn len(self) -> usize {
        self.group.members.len()
    }

    #[inline]
    fn member(self, index: usize) -> One<'a> {
        self.group.members[index].one(self.asks)
    }

    #[inline]
    fn local(self) -> usize {
        self.group.local
    }

    #[inline]
    fn precise(self) -> bool {
        self.group.precise
    }

    #[inline]
    fn one_clock(self) -> bool {
        self.group.one_clock
    }

    #[inline]
    fn is_few_words(self) -> bool {
        self.group.few_words
    }

    #[inline]
    fn cost(self, index: usize) -> Option<u128> {
        let uses = self.group.uses.get(index)?;
        let cost = |(of, times)| Some(u128::from((self.cost)(of)?) * u128::from(times));
        if uses.more.is_empty() {
            return cost(uses.first);
        }
        uses.iter().filter_map(cost).reduce(u128::saturating_add)
    }

    #[inline]
    fn like(self) -> Demand {
        self.like
    }

    fn own_left(self, index: usize, now: Moment) -> Option<Left> {
        let demand_of = self.demand_of?;
        let left = |of| Left::at(demand_of(self.group, self.asks, of), now);
        let least = self.group.uses.get(index)?.iter().map(|(of, _)| left(of));
        least.reduce(Left::min)
    }

    fn sheds(self, index: usize) -> bool {
        match (self.demand_of, self.group.uses.get(index)) {
            (Some(demand_of), Some(uses)) => uses
                .iter()
                .any(|(of, _)| demand_of(self.group, self.asks, of).is_at_once()),
            _ => self.like.is_at_once(),
        }
    }

    #[cold]
    fn count_denied(self, refuser: usize) {
        if self.group.several.is_empty() {
            return;
        }
        let address = self.member(refuser).known_address();
        for (several, _) in &self.group.several {
            several.count_denied_by(address);
        }
    }

    fn name_refusal(self, index: usize, denied: Denied) -> Denied {
        // The gate of a key, or behind a name, may have been created under another name of the limit.
        let member = self.member(index);
        if let Some(name) = member.limiter().name().filter(|_| member.is_leased()) {
            return denied.with_limiter(name);
        }
        let name = self.group.uses.get(index).and_then(|uses| uses.name);
        match name.or(self.group.name).and_then(Name::as_str) {
            Some(name) if denied.limiter().is_none() => denied.with_limiter(name),
            _ => denied,
        }
    }
}

/// The member that refused a request that will wait.
#[derive(Clone, Copy, Debug)]
pub struct Refuser(pub(crate) usize);

impl Refuser {
    /// A member in a store, which has not been asked yet.
    pub const STORE: Self = Self(usize::MAX);
}

impl<'a, U, C> Request<'a, U, C>
where
    U: Copy + PartialEq,
    C: Fn(U) -> Option<u64> + Copy,
{
    /// Takes from all members now, or from none. Members in stores answer by their local state.
    ///
    /// `held` must be empty: it is filled in place, because moving it takes longer than asking a limiter.
    ///
    /// # Errors
    ///
    /// Returns the refusal of the first member that refuses, with the moment at which all would grant.
    #[inline]
    pub fn try_acquire(self, held: &mut Permits<'a>) -> Result<(), Denied> {
        let mut taken = Taken::default();
        match attempt(self, true, &mut taken) {
            Ok(()) => self.hold(&mut taken, held),
            Err((_, denied)) => return Err(denied.unwrap_or_else(unexplained)),
        }
        self.ask_stores(held, true)
    }

    /// Like [`try_acquire`](Self::try_acquire), for a caller that waits if it is refused: a refusal is not counted.
    ///
    /// # Errors
    ///
    /// Returns the member that refused, to [wait](Self::acquire) for.
    #[inline]
    pub fn attempt(self, held: &mut Permits<'a>) -> Result<(), Refuser> {
        let mut taken = Taken::default();
        match attempt(self, false, &mut taken) {
            Ok(()) => self.hold(&mut taken, held),
            Err((refuser, _)) => return Err(Refuser(refuser)),
        }
        self.ask_stores(held, false)
            .map_err(|_| Refuser(self.local()))
    }

    /// Asks the members in stores by their local state, when all others have granted.
    #[inline]
    fn ask_stores(self, held: &mut Permits<'a>, note: bool) -> Result<(), Denied> {
        for index in self.local()..self.len() {
            let Some(demand) = self.demand(index) else {
                continue;
            };
            let limiter = self.member(index).limiter();
            let answer = if note {
                limiter.try_acquire(demand)
            } else {
                limiter.attempt(demand)
            };
            match answer {
                Ok(permit) => held.push(permit),
                Err(denied) => {
                    held.undo_all();
                    return Err(if note {
                        refuse(self, index, denied)
                    } else {
                        denied
                    });
                }
            }
        }
        self.count_granted(held);
        Ok(())
    }

    /// Takes permits of all members for later use, or none. The result says when they may be used.
    ///
    /// # Errors
    ///
    /// Returns the refusal of a member, or a refusal because the wait would exceed the deadline.
    pub fn reserve(self) -> Result<Reserved<'a>, Denied> {
        reserve(self)
    }

    /// Returns the answer of [`try_acquire`](Self::try_acquire). It takes nothing and counts nothing.
    ///
    /// # Errors
    ///
    /// Returns the refusal that `try_acquire` would return.
    pub fn estimate(self) -> Result<(), Denied> {
        estimate(self)
    }

    /// Converts the grants into permits.
    #[inline]
    pub(crate) fn hold(self, taken: &mut Taken<'a>, held: &mut Permits<'a>) {
        for index in 0..self.local() {
            if let Some(permit) = taken.permit(self, index) {
                held.push(permit);
            }
        }
    }

    /// Counts the grant in limiters that were replaced by their members.
    #[inline]
    pub(super) fn count_granted(self, held: &mut Permits<'a>) {
        for several in self.several() {
            several.count_granted();
            held.counted_by(several);
        }
    }
}
