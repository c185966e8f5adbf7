mod elsewhere;
mod limiter;
mod reserved;

use std::fmt;
use std::sync::{Arc, Weak};

use crate::name::Name;
use crate::totals::Totals;
use crate::{
    Acquire, Clock, Demand, Denied, Grant, InvalidLimit, Limiter, Moment, Outcome, Permit, Source,
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
/// then, it gives back what it got and waits there. Limiters that are [asked elsewhere](Limiter::is_remote) are asked
/// when all others have granted, and those are held meanwhile.
#[derive(Clone)]
pub struct All {
    members: Arc<Members>,
}

pub(crate) struct Members {
    /// Those that are asked elsewhere are the last.
    members: Box<[Arc<dyn Limiter>]>,
    /// How many are not asked elsewhere.
    here: usize,
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

    fn with(mut members: Box<[Arc<dyn Limiter>]>, name: Option<Name>) -> Self {
        members.sort_by_key(|member| member.is_remote());
        let here = members.partition_point(|member| !member.is_remote());
        let members = Arc::new_cyclic(|me| Members {
            members,
            here,
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

    fn permit(&self, grant: Grant) -> Permit<'_> {
        self.totals.granted();
        Permit::new(self, grant, true)
    }

    pub(crate) fn try_acquire(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        self.take_all(demand, |member, demand| member.try_acquire(demand))
    }

    /// [`try_acquire`](Self::try_acquire), by one who waits if it is refused.
    pub(crate) fn attempt(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        self.take_all(demand, |member, demand| member.attempt(demand))
    }

    fn take_all<'a>(&'a self, demand: Demand, ask: Ask<'a>) -> Result<Permit<'a>, Denied> {
        if self.here < self.members.len() {
            return self.gather_known(demand, ask);
        }
        match take_each(&self.members, demand, ask) {
            Ok(taken) => Ok(self.permit(demand.granted(taken))),
            Err((refuser, denied)) => Err(self.explain(refuser, denied, demand)),
        }
    }

    /// Completes the refusal of one: all would grant when the last of those would that refuse.
    fn explain(&self, refuser: usize, denied: Denied, demand: Demand) -> Denied {
        let mut latest = denied.retry_after();
        for later in &self.members[refuser + 1..] {
            // What is elsewhere is not known here.
            if !later.is_remote()
                && let Err(denied) = later.estimate(demand)
            {
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
        let answer = if self.here < self.members.len() {
            self.gather(demand).await
        } else {
            self.wait_here(demand).await
        };
        if answer.is_err() {
            self.totals.denied();
        }
        answer
    }

    /// Takes from all that are not asked elsewhere.
    async fn wait_here(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        let here = &self.members[..self.here];
        let ask: Ask<'_> = |member, demand| member.attempt(demand);
        let (mut refuser, _) = match take_each(here, demand, ask) {
            Ok(taken) => return Ok(self.permit(demand.granted(taken))),
            Err(refused) => refused,
        };
        // What can never be granted is not waited for.
        for (index, member) in here.iter().enumerate() {
            match member.estimate(demand) {
                Err(denied) if !denied.reason().is_passing() => {
                    return Err(self.explain(index, denied, demand));
                }
                _ => {}
            }
        }
        loop {
            let permit = match here[refuser].acquire(demand).await {
                Ok(permit) => permit,
                Err(denied) => return Err(self.explain(refuser, denied, demand)),
            };
            let (before, after) = here.split_at(refuser);
            let refused = match take_each(before, demand, ask) {
                Ok(taken) => match take_each(&after[1..], demand, ask) {
                    Ok(_) => {
                        let taken = if refuser == 0 {
                            permit.granted_at()
                        } else {
                            taken
                        };
                        permit.forget();
                        return Ok(self.permit(demand.granted(taken)));
                    }
                    Err((index, _)) => {
                        self.undo_each(before, demand.granted(taken), true);
                        refuser + 1 + index
                    }
                },
                Err((index, _)) => index,
            };
            permit.undo();
            refuser = refused;
        }
    }

    /// Takes back from each what was taken at `taken` by the clock of the first.
    fn undo_each(&self, members: &[Arc<dyn Limiter>], grant: Grant, whole: bool) {
        for member in members.iter().rev() {
            // Each goes by its own clock. Read before the first one's, so that it is never too late a moment.
            let now = member.clock().precise_now().as_nanos();
            let ago = self.clock().precise_now().nanos_since(grant.taken);
            let taken = Moment::from_nanos(now.saturating_sub(ago));
            member.source().undo(Grant { taken, ..grant }, whole);
        }
    }
}

/// How a member is asked: so that its refusal counts, or not.
type Ask<'a> = fn(&'a dyn Limiter, Demand) -> Result<Permit<'a>, Denied>;

/// Takes from each, or from none; the index is that of the one that refused.
fn take_each<'a>(
    members: &'a [Arc<dyn Limiter>],
    demand: Demand,
    ask: Ask<'a>,
) -> Result<Moment, (usize, Denied)> {
    let Some((first, rest)) = members.split_first() else {
        return Ok(Moment::ORIGIN);
    };
    let permit = ask(&**first, demand).map_err(|denied| (0, denied))?;
    match take_each(rest, demand, ask) {
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

/// Of what is not asked elsewhere: there permits have sources of their own.
impl Source for Members {
    fn give_back(&self, grant: Grant, outcome: Outcome) {
        for member in self.members[..self.here].iter().rev() {
            member.source().give_back(grant, outcome);
        }
    }

    fn undo(&self, grant: Grant, whole: bool) {
        self.undo_each(&self.members[..self.here], grant, whole);
    }

    fn to_shared(&self) -> Arc<dyn Source> {
        match self.me.upgrade() {
            Some(me) => me,
            None => unreachable!("members live in an Arc"),
        }
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
