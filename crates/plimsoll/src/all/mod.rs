mod elsewhere;
mod limiter;
mod reserved;

use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use self::elsewhere::Gathering;
use crate::name::Name;
use crate::together::{Leaves, List, One, Part, Taken, Wait, attempt, unexplained};
use crate::totals::Totals;
use crate::{
    Acquire, Clock, Demand, Denied, Grant, InvalidLimit, Limiter, Outcome, Permit, Source,
};

/// Several limiters that must all grant: all or none.
///
/// They are asked in order. When one refuses, it is as if none had been asked, rates and penalties too, and the refusal is
/// that of the first that refuses, until the moment at which all would grant. A limiter that is there several times, also as a member of a member, is
/// asked for the sum. The members stay limiters of their own and can be shared with others.
///
/// ```
/// use plimsoll::{All, Concurrency, Demand, Gate, Limiter, Quota, TokenBucket};
/// use std::sync::Arc;
///
/// let tenant = Arc::new(Gate::new(TokenBucket::per_second(100)));
/// let disk = Arc::new(Gate::builder(Concurrency::new(1)).name("disk").build());
/// let both = All::new([tenant.clone() as Arc<dyn Limiter>, disk.clone()]);
///
/// let permit = both.try_acquire(1)?;
/// let denied = both.try_acquire(1).unwrap_err();
/// assert_eq!(denied.limiter(), Some("disk"));
/// assert_eq!(tenant.snapshot().available(), 99); // charged once
/// # Ok::<(), plimsoll::Denied>(())
/// ```
///
/// # Waiting
///
/// [`acquire`](Limiter::acquire) waits in the queue of the member that refuses, and holds nothing while it waits. When its
/// turn has come it asks the others again; if one of them refuses by then, it keeps its place and joins that queue too, by
/// its age: before those who came later. In fifo queues room is kept free for the oldest who waits for several, so
/// that it is not passed for ever. A timeout or deadline is one for all members, as long on the clock of each. Limiters
/// that are [asked elsewhere](Limiter::is_remote) are asked when all others have granted, and those are held meanwhile.
#[derive(Clone)]
pub struct All {
    members: Arc<Members>,
}

pub(crate) struct Members {
    /// As they were given.
    given: Box<[Arc<dyn Limiter>]>,
    /// Taken apart. Those that are asked elsewhere are the last.
    leaves: Leaves<u32>,
    /// How many times each of them is asked for.
    times: Box<[u32]>,
    totals: Totals,
    /// Of what was granted, how often it was undone.
    undone: AtomicU64,
    name: Option<Name>,
    me: Weak<Self>,
}

impl All {
    /// All of `members`.
    ///
    /// # Panics
    ///
    /// If there are none.
    #[track_caller]
    pub fn new(members: impl IntoIterator<Item = Arc<dyn Limiter>>) -> Self {
        match Self::try_new(members) {
            Ok(all) => all,
            Err(invalid) => panic!("{invalid}"),
        }
    }

    /// All of `members`.
    ///
    /// # Errors
    ///
    /// If there are none.
    pub fn try_new(
        members: impl IntoIterator<Item = Arc<dyn Limiter>>,
    ) -> Result<Self, InvalidLimit> {
        let members: Box<[_]> = members.into_iter().collect();
        if members.is_empty() {
            return Err(InvalidLimit::new("of", "empty", "at least 1 limiter"));
        }
        Ok(Self::with(members, None))
    }

    fn with(given: Box<[Arc<dyn Limiter>]>, name: Option<Name>) -> Self {
        let once = given.iter().map(|limiter| (limiter, None, 1));
        let leaves = Leaves::new(once, |once: &u32, times| once.saturating_mul(times));
        let sum = |times: &[u32]| {
            times
                .iter()
                .fold(0, |sum: u32, more| sum.saturating_add(*more))
        };
        let times = leaves.uses.iter().map(|(_, times)| sum(times)).collect();
        let members = Arc::new_cyclic(|me| Members {
            given,
            leaves,
            times,
            totals: Totals::new(true),
            undone: AtomicU64::new(0),
            name,
            me: Weak::clone(me),
        });
        Self { members }
    }

    /// Gives it a name. Refusals name the member that refused if it has a name, otherwise this one.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self::with(self.members.given.clone(), Some(Name::new(name)))
    }

    /// Takes from all now, or from none. See [`Limiter::try_acquire`].
    ///
    /// # Errors
    ///
    /// The refusal of the first member that refuses, with the moment at which all would grant.
    pub fn try_acquire(&self, demand: impl Into<Demand>) -> Result<Permit<'_>, Denied> {
        self.members.try_acquire(demand.into())
    }

    /// Takes from all, waiting where one refuses. See [`Limiter::acquire`].
    pub fn acquire(&self, demand: impl Into<Demand>) -> Acquire<'_> {
        Acquire::all(&self.members, demand.into())
    }
}

/// What is asked of all.
#[derive(Clone, Copy)]
struct Asked<'a> {
    members: &'a Members,
    demand: Demand,
}

impl<'a> List<'a> for Asked<'a> {
    #[inline]
    fn len(self) -> usize {
        self.members.leaves.members.len()
    }

    #[inline]
    fn member(self, index: usize) -> One<'a> {
        self.members.leaves.members[index].one()
    }

    #[inline]
    fn local(self) -> usize {
        self.members.leaves.local
    }

    #[inline]
    fn precise(self) -> bool {
        self.members.leaves.precise
    }

    #[inline]
    fn one_clock(self) -> bool {
        self.members.leaves.one_clock
    }

    #[inline]
    fn cost(self, index: usize) -> Option<u64> {
        let times = *self.members.times.get(index)?;
        Some(u64::from(self.demand.cost) * u64::from(times))
    }

    #[inline]
    fn like(self) -> Demand {
        self.demand
    }

    fn count_denied(self, refuser: usize) {
        self.members.leaves.count_denied(refuser);
    }

    fn name_refusal(self, index: usize, denied: Denied) -> Denied {
        let (name, _) = self.members.leaves.uses[index];
        match name.or(self.members.name) {
            Some(name) if denied.limiter().is_none() => denied.with_limiter(name.as_str()),
            _ => denied,
        }
    }
}

impl Members {
    fn clock(&self) -> &Clock {
        self.given[0].clock()
    }

    pub(crate) fn shared(&self) -> Arc<Self> {
        match self.me.upgrade() {
            Some(me) => me,
            None => unreachable!("members live in an Arc"),
        }
    }

    /// Those of its members that consist of others.
    pub(crate) fn nested(&self) -> impl Iterator<Item = &Arc<Self>> {
        self.leaves.nested.iter().map(|(members, _)| members)
    }

    /// What it consists of.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Part<u32>> {
        let named = self.leaves.uses.iter().map(|(name, _)| name.or(self.name));
        let members = self.leaves.members.iter().cloned();
        let parts = members.zip(named).zip(&*self.times);
        parts.map(|((member, name), &of)| Part { member, name, of })
    }

    fn asked(&self, demand: Demand) -> Asked<'_> {
        Asked {
            members: self,
            demand,
        }
    }

    fn is_remote(&self) -> bool {
        self.leaves.local < self.leaves.members.len()
    }

    /// Counts a grant, by those too that were taken apart.
    fn count_granted(&self) {
        self.totals.granted();
        for nested in self.nested() {
            nested.totals.granted();
        }
    }

    /// Counts a grant that was undone, by those too that were taken apart.
    fn count_undone(&self) {
        self.undone.fetch_add(1, Ordering::Relaxed);
        for nested in self.nested() {
            nested.undone.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a grant to those that this is a part of.
    pub(crate) fn count_granted_alone(&self) {
        self.totals.granted();
    }

    /// Counts a refusal by a member of a list that this is a part of, if it is its own.
    pub(crate) fn count_denied_by(&self, member: usize) {
        let mut own = self.leaves.members.iter();
        if own.any(|own| own.one().address() == member) {
            self.totals.denied();
        }
    }

    /// The permit for what was taken from all that are not asked elsewhere.
    fn permit<'a>(&'a self, demand: Demand, mut taken: Taken<'a>) -> Permit<'a> {
        let asked = self.asked(demand);
        if self.is_remote() || !taken.is_of_one_moment() {
            let mut permits = Vec::with_capacity(self.leaves.local);
            let each = (0..self.leaves.local).filter_map(|index| taken.permit(asked, index));
            permits.extend(each.map(Permit::into_owned));
            return self.gathered(Gathering::of(permits), demand, None);
        }
        self.count_granted();
        for index in 0..self.leaves.local {
            if let Some(permit) = taken.held.take(index) {
                permit.forget();
            }
        }
        let grant = Grant {
            timed: taken.untimed.is_empty(),
            ..demand.granted(taken.moments.of(0))
        };
        Permit::new(self, grant, true)
    }

    pub(crate) fn try_acquire(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        let answer = if self.is_remote() {
            self.gather_known(demand, true)
        } else {
            match attempt(self.asked(demand), true) {
                Ok(taken) => return Ok(self.permit(demand, taken)),
                Err((_, denied)) => Err(denied.unwrap_or_else(unexplained)),
            }
        };
        if answer.is_err() {
            self.totals.denied();
        }
        answer
    }

    /// [`try_acquire`](Self::try_acquire), by one who waits if it is refused: then it says who refused.
    #[inline]
    pub(crate) fn attempt(&self, demand: Demand) -> Result<Permit<'_>, usize> {
        if self.is_remote() {
            return self.gather_known(demand, false).map_err(|_| 0);
        }
        match attempt(self.asked(demand), false) {
            Ok(taken) => Ok(self.permit(demand, taken)),
            Err((refuser, _)) => Err(refuser),
        }
    }

    /// Waits for all, for one that was refused by `refuser`.
    pub(crate) async fn acquire(
        &self,
        demand: Demand,
        refuser: usize,
    ) -> Result<Permit<'_>, Denied> {
        let answer = if self.is_remote() {
            self.gather(demand).await
        } else if demand.is_at_once() {
            return self.try_acquire(demand);
        } else {
            let taken = self.wait(demand, refuser).await;
            taken.map(|taken| self.permit(demand, taken))
        };
        if answer.is_err() {
            self.totals.denied();
        }
        answer
    }

    /// Waits for all that are not asked elsewhere.
    async fn wait(&self, demand: Demand, refuser: usize) -> Result<Taken<'_>, Denied> {
        let mut wait = Wait::start(self.asked(demand), refuser)?;
        poll_fn(|cx| wait.poll(cx)).await
    }

    /// What of a grant goes back to each of those that are not asked elsewhere.
    fn each(&self, grant: Grant, back: impl Fn(&dyn Source, Grant, u32)) {
        let members = self.leaves.members[..self.leaves.local].iter();
        for (member, &times) in members.zip(&*self.times).rev() {
            match grant.cost.checked_mul(times) {
                Some(cost) => back(member.one().source(), Grant { cost, ..grant }, 1),
                // Permits that were merged may be more than one number can say.
                None => back(member.one().source(), grant, times),
            }
        }
    }
}

/// Of what is not asked elsewhere and goes by one clock: other permits have sources of their own.
impl Source for Members {
    fn give_back(&self, grant: Grant, outcome: Outcome) {
        self.each(grant, |source, grant, times| {
            (0..times).for_each(|_| source.give_back(grant, outcome));
        });
    }

    fn undo(&self, grant: Grant, whole: bool) {
        if whole {
            self.count_undone();
        }
        self.each(grant, |source, grant, times| {
            (0..times).for_each(|_| source.undo(grant, whole));
        });
    }

    fn to_shared(&self) -> Arc<dyn Source> {
        self.shared()
    }
}

impl fmt::Debug for All {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self
            .members
            .given
            .iter()
            .map(|member| member.name())
            .collect();
        f.debug_struct("All")
            .field("name", &self.members.name)
            .field("members", &names)
            .finish()
    }
}
