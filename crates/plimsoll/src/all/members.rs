//! Asking the members of an [`All`](super::All), and returning permits to them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use super::events::Queued;
use crate::acquire::{BoxAcquire, Start};
use crate::limiter::{Part, Several};
use crate::name::Name;
use crate::together::{
    ByWords, Group, Open, Permits, Refuser, Request, Taken, attempt_open, take_words, unexplained,
};
use crate::totals::Totals;
use crate::{
    Clock, Demand, Denied, Event, Grant, Limiter, Listeners, Moment, Outcome, Permit, Shareable,
    Source,
};

pub(crate) struct Members {
    /// The members as they were passed.
    pub(super) limiters: Box<[Arc<dyn Limiter>]>,
    /// The limiters that are asked: the members, with nested groups flattened.
    pub(super) group: Group<()>,
    pub(super) totals: Totals,
    /// The number of grants that were undone.
    pub(super) undone: AtomicU64,
    pub(super) listeners: Listeners<Event>,
    pub(super) name: Option<Name>,
    pub(super) me: Weak<Self>,
}

impl Members {
    pub(super) fn clock(&self) -> &Clock {
        self.limiters[0].clock()
    }

    pub(super) fn shared(&self) -> Arc<Self> {
        match self.me.upgrade() {
            Some(me) => me,
            None => unreachable!("members live in an Arc"),
        }
    }

    pub(super) fn asked(
        &self,
        demand: Demand,
    ) -> Request<'_, (), impl Fn(()) -> Option<u64> + Copy + use<>> {
        self.group.ask(demand, move |()| Some(demand.cost))
    }

    /// Counts a grant, also in members that were replaced by their own members.
    fn count_granted_by_all(&self) {
        self.totals.granted();
        self.group.several().for_each(|it| it.count_granted());
    }

    /// The permit for the grants of the members.
    pub(super) fn permit<'a>(&'a self, demand: Demand, taken: &mut Taken<'a>) -> Permit<'a> {
        // A limiter that is not a gate may not identify its grant by the moment: its own permit is held.
        if !taken.is_of_one_moment() || !taken.held.is_empty() {
            let mut permits = Permits::new();
            self.asked(demand).hold(taken, &mut permits);
            self.group.several().for_each(|it| it.count_granted());
            return self.gathered(permits, demand, None);
        }
        self.permit_at(demand, taken.moments.of(0), taken.untimed.is_empty())
    }

    /// The permit for a grant of all members at one moment.
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

    /// Takes by the words of the members alone.
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

    /// Like [`try_acquire`](Self::try_acquire), for a caller that waits if it is refused: returns the member that
    /// refused.
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

    /// Waits for all members, after `refuser` has refused.
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

    /// Calls `back` with the part of a grant that each member gets back.
    fn each(&self, grant: Grant, back: impl Fn(&dyn Source, Grant, u64)) {
        for (member, times) in self.group.iter().rev() {
            let Some(source) = member.source() else {
                continue;
            };
            match grant.cost.checked_mul(times) {
                Some(cost) => back(source, Grant { cost, ..grant }, 1),
                // The sum of merged permits may exceed `u64::MAX`.
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
