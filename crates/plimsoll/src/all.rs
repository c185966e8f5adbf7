use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use crate::name::Name;
use crate::totals::Totals;
use crate::{
    Acquire, Clock, Demand, Denied, InvalidLimit, Limiter, Moment, Outcome, Permit, Reservation,
    Snapshot, Source,
};

/// Several limiters that must all grant: all or none.
///
/// They are asked in order. When one refuses, what was taken from those before it is given back, by
/// rates too, and the refusal says which one it was. The members stay limiters of their own and can be
/// shared with others.
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
/// [`acquire`](Limiter::acquire) waits in the queue of the member that refuses, and holds nothing of the
/// others while it waits. When its turn has come it asks the others again; if one of them refuses by
/// then, it gives back what it got and waits there.
#[derive(Clone)]
pub struct All {
    members: Arc<Members>,
}

pub(crate) struct Members {
    members: Box<[Arc<dyn Limiter>]>,
    totals: Totals,
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

    fn with(members: Box<[Arc<dyn Limiter>]>, name: Option<Name>) -> Self {
        let members = Arc::new_cyclic(|me| Members {
            members,
            totals: Totals::new(true),
            name,
            me: Weak::clone(me),
        });
        Self { members }
    }

    /// Gives it a name. Refusals name the member that refused if it has a name, otherwise this one.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self::with(self.members.members.clone(), Some(Name::new(name)))
    }

    /// Takes from all now, or from none. See [`Limiter::try_acquire`].
    ///
    /// # Errors
    ///
    /// The refusal of the first that refuses, with the moment at which all would grant.
    pub fn try_acquire(&self, demand: impl Into<Demand>) -> Result<Permit<'_>, Denied> {
        let answer = self.members.try_acquire(demand.into());
        if answer.is_err() {
            self.members.totals.denied();
        }
        answer
    }

    /// Takes from all, waiting where one refuses. See [`Limiter::acquire`].
    pub fn acquire(&self, demand: impl Into<Demand>) -> Acquire<'_> {
        Acquire::all(&self.members, demand.into())
    }
}

impl Members {
    fn clock(&self) -> &Clock {
        self.members[0].clock()
    }

    fn permit(&self, cost: u32, taken: Moment) -> Permit<'_> {
        self.totals.granted();
        Permit::new(self, cost, taken, true)
    }

    pub(crate) fn try_acquire(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        match take_each(&self.members, demand) {
            Ok(taken) => Ok(self.permit(demand.cost, taken)),
            Err((refuser, denied)) => Err(self.explain(refuser, denied, demand)),
        }
    }

    /// Completes the refusal of one: all would grant when the last of those would that refuse.
    fn explain(&self, refuser: usize, denied: Denied, demand: Demand) -> Denied {
        let mut latest = denied.retry_after();
        for later in &self.members[refuser + 1..] {
            if let Err(denied) = later.estimate(demand) {
                latest = latest.zip(denied.retry_after()).map(|(a, b)| a.max(b));
            }
        }
        let denied = denied.with_retry_after(latest);
        match self.name {
            Some(name) if denied.limiter().is_none() => denied.with_limiter(name.as_str()),
            _ => denied,
        }
    }

    pub(crate) async fn acquire(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        let demand = demand.started(self.clock().now());
        let answer = self.wait_for_all(demand).await;
        if answer.is_err() {
            self.totals.denied();
        }
        answer
    }

    async fn wait_for_all(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        let (mut refuser, _) = match take_each(&self.members, demand) {
            Ok(taken) => return Ok(self.permit(demand.cost, taken)),
            Err(refused) => refused,
        };
        loop {
            let permit = self.members[refuser].acquire(demand).await?;
            let (before, after) = self.members.split_at(refuser);
            let refused = match take_each(before, demand) {
                Ok(taken) => match take_each(&after[1..], demand) {
                    Ok(_) => {
                        permit.forget();
                        return Ok(self.permit(demand.cost, taken));
                    }
                    Err((index, _)) => {
                        undo_each(before, demand.cost, taken);
                        refuser + 1 + index
                    }
                },
                Err((index, _)) => index,
            };
            permit.undo();
            refuser = refused;
        }
    }
}

/// Takes from each, or from none; the index is that of the one that refused.
fn take_each(members: &[Arc<dyn Limiter>], demand: Demand) -> Result<Moment, (usize, Denied)> {
    let Some((first, rest)) = members.split_first() else {
        return Ok(Moment::ORIGIN);
    };
    let permit = first.try_acquire(demand).map_err(|denied| (0, denied))?;
    match take_each(rest, demand) {
        Ok(_) => {
            let taken = permit.granted_at();
            permit.forget();
            Ok(taken)
        }
        Err((index, denied)) => {
            permit.undo();
            Err((index + 1, denied))
        }
    }
}

fn undo_each(members: &[Arc<dyn Limiter>], cost: u32, taken: Moment) {
    for member in members.iter().rev() {
        member.source().undo(cost, taken);
    }
}

impl Source for Members {
    fn give_back(&self, cost: u32, taken: Moment, outcome: Outcome) {
        for member in self.members.iter().rev() {
            member.source().give_back(cost, taken, outcome);
        }
    }

    fn undo(&self, cost: u32, taken: Moment) {
        undo_each(&self.members, cost, taken);
    }

    fn to_shared(&self) -> Arc<dyn Source> {
        match self.me.upgrade() {
            Some(me) => me,
            None => unreachable!("members live in an Arc"),
        }
    }
}

impl Limiter for All {
    fn try_acquire(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        Self::try_acquire(self, demand)
    }

    fn acquire(&self, demand: Demand) -> Acquire<'_> {
        Self::acquire(self, demand)
    }

    fn reserve(&self, demand: Demand) -> Result<Reservation<'_>, Denied> {
        let members = &*self.members;
        let made_at = members.clock().precise_now();
        let mut held = Vec::with_capacity(members.members.len());
        for member in &members.members {
            // Dropping those already held cancels them.
            held.push(member.reserve(demand)?);
        }
        let waits = held.iter().map(Reservation::wait);
        let wait = waits
            .reduce(|a, b| a.zip(b).map(|(a, b)| a.max(b)))
            .flatten();
        let ready_at = wait.map(|wait: Duration| made_at.plus(wait));
        let mut permits: Vec<Permit<'_>> = Vec::with_capacity(held.len());
        let permit = poll_fn(move |cx| {
            while let Some(next) = held.get_mut(permits.len()) {
                match Pin::new(next).poll(cx) {
                    Poll::Ready(Ok(permit)) => permits.push(permit),
                    Poll::Ready(Err(denied)) => return Poll::Ready(Err(denied)),
                    Poll::Pending => return Poll::Pending,
                }
            }
            permits.drain(..).for_each(Permit::forget);
            Poll::Ready(Ok(members.permit(demand.cost, members.clock().now())))
        });
        Ok(Reservation::from_future(made_at, ready_at, permit))
    }

    fn estimate(&self, demand: Demand) -> Result<(), Denied> {
        let members = &self.members.members;
        let refused = members.iter().enumerate().find_map(|(index, member)| {
            member.estimate(demand).err().map(|denied| (index, denied))
        });
        match refused {
            Some((index, denied)) => Err(self.members.explain(index, denied, demand)),
            None => Ok(()),
        }
    }

    /// The least of what the members have available, and the greatest of what is in use; the totals
    /// are of demands to all of them.
    fn snapshot(&self) -> Snapshot {
        let (granted, denied) = self.members.totals.sum();
        let members = self.members.members.iter().map(|member| member.snapshot());
        let sum = members.reduce(|a, b| Snapshot {
            limit: a.limit.min(b.limit),
            available: a.available.min(b.available),
            in_use: a.in_use.max(b.in_use),
            queued: a.queued + b.queued,
            waiters: a.waiters + b.waiters,
            evicted: a.evicted + b.evicted,
            cancelled: a.cancelled + b.cancelled,
            ..a
        });
        Snapshot {
            granted,
            denied,
            ..sum.unwrap_or_default()
        }
    }

    /// Closes every member.
    fn close(&self) {
        for member in &self.members.members {
            member.close();
        }
    }

    fn name(&self) -> Option<&str> {
        self.members.name.map(Name::as_str)
    }

    fn clock(&self) -> &Clock {
        self.members.clock()
    }

    fn source(&self) -> &dyn Source {
        &*self.members
    }
}

impl fmt::Debug for All {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self
            .members
            .members
            .iter()
            .map(|member| member.name())
            .collect();
        f.debug_struct("All")
            .field("name", &self.members.name)
            .field("members", &names)
            .finish()
    }
}
