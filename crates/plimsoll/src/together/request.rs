//! What is asked of a group, and the verbs.

use std::future::poll_fn;
use std::sync::Arc;

use super::asks::{Ask, Asked};
use super::{
    Group, Left, List, One, Permits, Reserved, Taken, Wait, attempt, estimate, refuse, reserve,
    unexplained,
};
use crate::limiter::Several;
use crate::name::Name;
use crate::{Demand, Denied, Moment};

/// What is asked of a [`Group`].
#[derive(Clone, Copy)]
#[must_use = "nothing is asked before one of its methods is called"]
pub struct Request<'a, U, C> {
    pub(super) group: &'a Group<U>,
    /// Limiters that are not in the group itself.
    pub(super) asks: &'a [Ask<'a>],
    /// What a use asks, where each says for itself how long it waits.
    pub(super) demand_of: Option<fn(&[Ask<'_>], U) -> Demand>,
    pub(super) like: Demand,
    pub(super) cost: C,
}

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
    C: Fn(U) -> Option<u32> + Copy,
{
    /// The same request with another priority and deadline.
    pub(crate) fn with(self, like: Demand) -> Self {
        Self { like, ..self }
    }

    /// The first member that is asked, in the order in which the limiters were given.
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
    C: Fn(U) -> Option<u32> + Copy,
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
    fn cost(self, index: usize) -> Option<u64> {
        let uses = self.group.uses.get(index)?;
        let cost = |(of, times)| Some(u64::from((self.cost)(of)?) * u64::from(times));
        if uses.more.is_empty() {
            return cost(uses.first);
        }
        uses.iter().filter_map(cost).reduce(u64::saturating_add)
    }

    #[inline]
    fn like(self) -> Demand {
        self.like
    }

    fn own_left(self, index: usize, now: Moment) -> Option<Left> {
        let demand_of = self.demand_of?;
        let left = |of| Left::at(demand_of(self.asks, of), now);
        let least = self.group.uses.get(index)?.iter().map(|(of, _)| left(of));
        least.reduce(Left::min)
    }

    fn sheds(self, index: usize) -> bool {
        match (self.demand_of, self.group.uses.get(index)) {
            (Some(demand_of), Some(uses)) => uses
                .iter()
                .any(|(of, _)| demand_of(self.asks, of).is_at_once()),
            _ => self.like.is_at_once(),
        }
    }

    #[cold]
    fn count_denied(self, refuser: usize) {
        if self.group.several.is_empty() {
            return;
        }
        let address = self.member(refuser).address();
        for (several, _) in &self.group.several {
            several.count_denied_by(address);
        }
    }

    fn name_refusal(self, index: usize, denied: Denied) -> Denied {
        // A limit of which a gate was made for a key may be called otherwise by now.
        if let Asked::Key(key) = self.member(index).limiter()
            && self.member(index).gate().is_some()
            && let Some(name) = key.name().filter(|name| denied.limiter() != Some(*name))
        {
            return denied.with_limiter(name);
        }
        let name = self.group.uses.get(index).and_then(|uses| uses.name);
        match name.or(self.group.name).and_then(Name::as_str) {
            Some(name) if denied.limiter().is_none() => denied.with_limiter(name),
            _ => denied,
        }
    }
}

/// The member that refused one who will wait.
#[derive(Clone, Copy, Debug)]
pub struct Refuser(pub(crate) usize);

impl Refuser {
    /// A member in a store, of which nothing is known yet.
    pub const STORE: Self = Self(usize::MAX);
}

impl<'a, U, C> Request<'a, U, C>
where
    U: Copy + PartialEq,
    C: Fn(U) -> Option<u32> + Copy,
{
    /// Takes from all members now, or from none. Members in stores answer by what is known here.
    ///
    /// `held` must be empty: it is filled in place, because to move it takes longer than to ask a limiter.
    ///
    /// # Errors
    ///
    /// The refusal of the first member that refuses, with the moment at which all would grant.
    #[inline]
    pub fn try_acquire(self, held: &mut Permits<'a>) -> Result<(), Denied> {
        let mut taken = Taken::default();
        match attempt(self, true, &mut taken) {
            Ok(()) => self.hold(&mut taken, held),
            Err((_, denied)) => return Err(denied.unwrap_or_else(unexplained)),
        }
        self.ask_stores(held, true)
    }

    /// [`try_acquire`](Self::try_acquire) by a caller that waits if it is refused: a refusal is not counted.
    ///
    /// # Errors
    ///
    /// The member that refused, to [wait](Self::acquire) for.
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

    /// Asks the members in stores by what is known here, when all others have granted.
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

    /// Takes from all members, waiting where one refuses. It holds nothing while it waits for members in this process.
    /// Members in stores are asked last, one after the other, and the rest is held meanwhile.
    ///
    /// # Errors
    ///
    /// The refusal of a member that does not let it wait: at once, if it is known that the wait takes longer than the
    /// deadline allows.
    pub async fn acquire(self, refuser: Refuser, held: &mut Permits<'a>) -> Result<(), Denied> {
        if self.local() == self.len() {
            let mut taken = self.wait(refuser.0).await?;
            self.hold(&mut taken, held);
        } else {
            self.acquire_from_stores(held).await?;
        }
        self.count_granted(held);
        Ok(())
    }

    pub(crate) async fn wait(self, refuser: usize) -> Result<Taken<'a>, Denied> {
        let mut wait = Wait::start(self, refuser)?;
        let taken = poll_fn(|cx| wait.poll(self, cx)).await;
        taken.map_err(|(_, denied)| denied)
    }

    async fn acquire_from_stores(self, held: &mut Permits<'a>) -> Result<(), Denied> {
        let Some(first) = self.first() else {
            return Ok(());
        };
        let at_once = self.like().is_at_once();
        let left = Left::at(self.like(), self.member(first).clock().precise_now());
        let stores = self.local()..self.len();
        let likes: Vec<_> = stores
            .clone()
            .map(|index| match at_once {
                true => self.like(),
                false => left.of(self.like(), self.member(index).clock().precise_now()),
            })
            .collect();
        let mut taken = Taken::default();
        match attempt(self, at_once, &mut taken) {
            Ok(()) => {}
            Err((_, denied)) if at_once => return Err(denied.unwrap_or_else(unexplained)),
            Err((refuser, _)) => {
                let now = self.member(0).clock().precise_now();
                let waiting = self.with(left.of(self.like(), now));
                taken = waiting.wait(refuser).await?;
            }
        }
        let so_far = SoFar(held);
        self.hold(&mut taken, so_far.0);
        for (index, like) in stores.zip(likes) {
            let Some(cost) = self.demand(index).map(|demand| demand.cost) else {
                continue;
            };
            let demand = like.cost(cost);
            match self.member(index).limiter().acquire(demand).await {
                Ok(permit) => so_far.0.push(permit),
                Err(denied) => return Err(refuse(self, index, denied)),
            }
        }
        so_far.complete();
        Ok(())
    }

    /// Takes now from all members what may be used later, and says when; or takes nothing.
    ///
    /// # Errors
    ///
    /// The refusal of a member, or if it would have to be waited for longer than the deadline allows.
    pub fn reserve(self) -> Result<Reserved<'a>, Denied> {
        reserve(self)
    }

    /// What [`try_acquire`](Self::try_acquire) would answer. Takes nothing and counts nothing.
    ///
    /// # Errors
    ///
    /// The refusal it would answer.
    pub fn estimate(self) -> Result<(), Denied> {
        estimate(self)
    }

    /// Makes permits of what was taken.
    #[inline]
    pub(crate) fn hold(self, taken: &mut Taken<'a>, held: &mut Permits<'a>) {
        for index in 0..self.local() {
            if let Some(permit) = taken.permit(self, index) {
                held.push(permit);
            }
        }
    }

    /// Counts the grant where a limiter was replaced by its members.
    #[inline]
    fn count_granted(self, held: &mut Permits<'a>) {
        for several in self.several() {
            several.count_granted();
            held.counted_by(several);
        }
    }
}

/// What was granted so far, undone unless the rest is granted.
struct SoFar<'h, 'a>(&'h mut Permits<'a>);

impl SoFar<'_, '_> {
    fn complete(self) {
        let _complete = std::mem::ManuallyDrop::new(self);
    }
}

impl Drop for SoFar<'_, '_> {
    fn drop(&mut self) {
        self.0.undo_all();
    }
}
