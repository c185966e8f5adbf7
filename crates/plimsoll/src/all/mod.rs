mod events;
mod gathered;
mod limiter;
#[cfg(all(test, loom))]
mod model;
mod reserved;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use self::events::Queued;
use crate::acquire::{BoxAcquire, Stage, Start};
use crate::limiter::{Part, Several};
use crate::name::Name;
use crate::together::{
    ByWords, Group, Open, Permits, Refuser, Request, Taken, attempt_open, take_words, unexplained,
};
use crate::totals::Totals;
use crate::{
    Acquire, Clock, Demand, Denied, Event, Grant, InvalidLimit, Limiter, Listeners, Moment,
    Outcome, Permit, Shareable, Source,
};

/// Several limiters that must all grant: all or none.
///
/// The members are asked in order. When one refuses, the others are as if they had not been asked, rates and penalties
/// included. The refusal is that of the first member that refuses, with the time after which all would grant. A limiter
/// that is a member several times, also as a member of a member, is asked for the sum. The members remain limiters and
/// can be used and shared by themselves.
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
/// [`acquire`](Limiter::acquire) waits in the queue of the member that refuses, and holds no permit while it waits. When
/// that member has room it asks the others again. If another refuses, it keeps its place and joins the queue of that one
/// too, ordered by its age. Fifo queues keep room free for the oldest demand that waits for several limiters, so that it
/// is not passed for ever. A time-out or deadline holds for all members together, measured on the clock of each. Limiters
/// in stores are asked when all others have granted, and the grants of the others are held meanwhile.
#[derive(Clone)]
pub struct All {
    members: Arc<Members>,
}

pub(crate) struct Members {
    /// The members as they were passed.
    limiters: Box<[Arc<dyn Limiter>]>,
    /// Those that are asked.
    group: Group<()>,
    totals: Totals,
    /// Of what was granted, how often it was undone.
    undone: AtomicU64,
    listeners: Listeners<Event>,
    name: Option<Name>,
    me: Weak<Self>,
}

impl All {
    /// A limiter that takes from all of `members`.
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

    /// A limiter that takes from all of `members`.
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

    fn with(limiters: Box<[Arc<dyn Limiter>]>, name: Option<Name>) -> Self {
        let group = Group::new(limiters.iter().map(|limiter| (limiter, None, ()))).named(name);
        let members = Arc::new_cyclic(|me| Members {
            limiters,
            group,
            totals: Totals::new(true),
            undone: AtomicU64::new(0),
            listeners: Listeners::new(),
            name,
            me: Weak::clone(me),
        });
        Self { members }
    }

    fn of(members: Arc<Members>) -> Self {
        Self { members }
    }

    /// Sets the name. A refusal carries the name of the member that refused if it has one, otherwise this name.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self::with(self.members.limiters.clone(), Some(Name::new(name)))
    }

    /// Takes from all members now, or from none. See [`Limiter::try_acquire`].
    ///
    /// # Errors
    ///
    /// The refusal of the first member that refuses, with the moment at which all would grant.
    pub fn try_acquire(&self, demand: impl Into<Demand>) -> Result<Permit<'_>, Denied> {
        self.members.try_acquire(demand.into())
    }

    /// Takes from all members, and waits in the queue of a member that refuses. See [`Limiter::acquire`].
    pub fn acquire(&self, demand: impl Into<Demand>) -> Acquire<'_> {
        Acquire(Stage::Start(&*self.members, demand.into()))
    }
}

impl Members {
    fn clock(&self) -> &Clock {
        self.limiters[0].clock()
    }

    fn shared(&self) -> Arc<Self> {
        match self.me.upgrade() {
            Some(me) => me,
            None => unreachable!("members live in an Arc"),
        }
    }

    fn asked(&self, demand: Demand) -> Request<'_, (), impl Fn(()) -> Option<u64> + Copy + use<>> {
        self.group.ask(demand, move |()| Some(demand.cost))
    }

    /// Counts a grant, also by members that were replaced by theirs.
    fn count_granted_by_all(&self) {
        self.totals.granted();
        self.group.several().for_each(|it| it.count_granted());
    }

    /// The permit for what was taken.
    fn permit<'a>(&'a self, demand: Demand, taken: &mut Taken<'a>) -> Permit<'a> {
        // A limiter that is not a gate may not know what it granted by the moment: its own permit is held.
        if !taken.is_of_one_moment() || !taken.held.is_empty() {
            let mut permits = Permits::new();
            self.asked(demand).hold(taken, &mut permits);
            self.group.several().for_each(|it| it.count_granted());
            return self.gathered(permits, demand, None);
        }
        self.permit_at(demand, taken.moments.of(0), taken.untimed.is_empty())
    }

    /// The permit for what all members have granted at one moment.
    #[inline]
    fn permit_at(&self, demand: Demand, now: Moment, timed: bool) -> Permit<'_> {
        self.count_granted_by_all();
        self.tell_granted(demand);
        let grant = Grant {
            timed,
            ..demand.granted(now)
        };
        Permit::new(self, grant, true)
    }

    /// What is granted by the words of the members alone.
    #[inline]
    fn take_words(&self, demand: Demand) -> Result<Permit<'_>, Open> {
        let ByWords { now, untimed } = take_words(self.asked(demand))?;
        Ok(self.permit_at(demand, now, untimed == 0))
    }

    #[inline]
    pub(crate) fn try_acquire(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        match self.take_words(demand) {
            Ok(permit) => Ok(permit),
            Err(open) => self.try_acquire_open(demand, open),
        }
    }

    #[inline(never)]
    fn try_acquire_open(&self, demand: Demand, open: Open) -> Result<Permit<'_>, Denied> {
        let asked = self.asked(demand);
        let answer = if let Open::Refused(refused) = open {
            Err(refused.note(asked))
        } else if self.group.is_remote() {
            let mut permits = Permits::new();
            let answer = asked.try_acquire(&mut permits);
            answer.map(|()| self.gathered(permits, demand, None))
        } else {
            let mut taken = Taken::default();
            match attempt_open(asked, open, true, &mut taken) {
                Ok(()) => return Ok(self.permit(demand, &mut taken)),
                Err((_, denied)) => Err(denied.unwrap_or_else(unexplained)),
            }
        };
        answer.inspect_err(|denied| self.count_denied(demand, denied))
    }

    /// [`try_acquire`](Self::try_acquire), by a caller that waits if it is refused: then it says who refused.
    #[inline]
    pub(crate) fn attempt(&self, demand: Demand) -> Result<Permit<'_>, Refuser> {
        match self.take_words(demand) {
            Ok(permit) => Ok(permit),
            Err(open) => self.attempt_open(demand, open),
        }
    }

    #[inline(never)]
    fn attempt_open(&self, demand: Demand, open: Open) -> Result<Permit<'_>, Refuser> {
        if let Open::Refused(refused) = open {
            return Err(Refuser(refused.index));
        }
        let asked = self.asked(demand);
        if self.group.is_remote() {
            let mut permits = Permits::new();
            asked.attempt(&mut permits)?;
            return Ok(self.gathered(permits, demand, None));
        }
        let mut taken = Taken::default();
        match attempt_open(asked, open, false, &mut taken) {
            Ok(()) => Ok(self.permit(demand, &mut taken)),
            Err((refuser, _)) => Err(Refuser(refuser)),
        }
    }

    /// Waits for all, for a caller that was refused by `refuser`.
    pub(crate) async fn acquire(
        &self,
        demand: Demand,
        refuser: Refuser,
    ) -> Result<Permit<'_>, Denied> {
        let asked = self.asked(demand);
        let remote = self.group.is_remote();
        if demand.is_at_once() && !remote {
            return self.try_acquire(demand);
        }
        let answer = if remote || self.group.has_others() {
            let mut permits = Permits::new();
            let queued = Queued::new(self, demand);
            let answer = asked.acquire(refuser, &mut permits).await;
            drop(queued);
            answer.map(|()| self.gathered(permits, demand, None))
        } else {
            let queued = Queued::new(self, demand);
            let taken = asked.wait(refuser.0).await;
            drop(queued);
            taken.map(|mut taken| self.permit(demand, &mut taken))
        };
        answer.inspect_err(|denied| self.count_denied(demand, denied))
    }

    /// The part of a grant that goes back to each member.
    fn each(&self, grant: Grant, back: impl Fn(&dyn Source, Grant, u64)) {
        for (member, times) in self.group.iter().rev() {
            let Some(source) = member.source() else {
                continue;
            };
            match grant.cost.checked_mul(times) {
                Some(cost) => back(source, Grant { cost, ..grant }, 1),
                // Permits that were merged may be more than one number can say.
                None => back(source, grant, times),
            }
        }
    }
}

impl<'a> Start<'a> for Members {
    fn start(&'a self, demand: Demand) -> Result<Permit<'a>, BoxAcquire<'a>> {
        let granted = self.attempt(demand);
        granted.map_err(|refuser| Box::pin(self.acquire(demand, refuser)) as _)
    }
}

impl Several for Members {
    fn parts(&self) -> Vec<Part> {
        self.group.parts()
    }

    fn all_several(&self) -> Vec<Arc<dyn Several>> {
        let mut all = vec![self.shared() as Arc<dyn Several>];
        all.extend(self.group.several().cloned());
        all
    }

    fn gather(&self, permits: Vec<Permit<'static>>, demand: Demand) -> Permit<'static> {
        self.group.several().for_each(|it| it.count_granted());
        self.gathered_owned(permits, demand, None)
    }

    fn count_granted(&self) {
        self.totals.granted();
    }

    fn count_undone(&self) {
        self.undone.fetch_add(1, Ordering::Relaxed);
    }

    fn count_denied_by(&self, address: usize) {
        if self.group.iter().any(|(own, _)| own.address() == address) {
            self.totals.denied();
        }
    }
}

/// The source of permits whose members are all in this process and were taken from at one moment. Other permits have
/// [sources of their own](gathered).
impl Source for Members {
    fn give_back(&self, grant: Grant, outcome: Outcome) {
        self.each(grant, |source, grant, times| {
            (0..times).for_each(|_| source.give_back(grant, outcome));
        });
        self.tell_processed(grant, outcome);
    }

    fn undo(&self, grant: Grant, whole: bool) {
        if whole {
            self.count_undone();
            self.group.several().for_each(|it| it.count_undone());
        }
        self.each(grant, |source, grant, times| {
            (0..times).for_each(|_| source.undo(grant, whole));
        });
        self.tell_processed(grant, Outcome::Ignore);
    }
}

impl Shareable for Members {
    fn to_shared(&self) -> Arc<dyn Source> {
        self.shared()
    }
}

impl fmt::Debug for All {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self
            .members
            .limiters
            .iter()
            .map(|member| member.name())
            .collect();
        f.debug_struct("All")
            .field("name", &self.members.name)
            .field("members", &names)
            .finish()
    }
}
