//! Decisions that are made now, to be used later.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use plimsoll::together;
use plimsoll::{Demand, Denied, Permit, Reason, Reservation};
use plimsoll_tower::Head;

use crate::admit::admitted;
use crate::ask::Ask;
#[cfg(feature = "redis")]
use crate::decide::{admitted_by_stores, keep, refused_by_stores};
use crate::decide::{blocked_at, is_local, refuse};
use crate::decision::{Answer, Hold, Refusal, answers};
use crate::handle::blocked;
use crate::limits::Limits;
use crate::members::Members;
#[cfg(feature = "redis")]
use crate::parts::Told;
use crate::parts::{Denials, Member};
use crate::resolve::resolve;
#[cfg(feature = "redis")]
use crate::stores;
use crate::tell::note_refused;

impl Limits {
    /// Takes for all of `asks` now what may be used later, and says when; or takes nothing. It never waits. Limits in stores
    /// answer what is known in this process: use [`reserve`](Self::reserve) where there are any.
    ///
    /// `like` says how long a wait is accepted, and the priority of those that wait for slots.
    ///
    /// ```
    /// use plimsoll::ManualClock;
    /// use plimsoll_engine::{Ask, Config, Limits};
    /// use std::time::Duration;
    ///
    /// let text = "limits: { tokens: { rate: 10/s, key: header:x-account }, calls: { rate: 1/s } }";
    /// let config = Config::from_str("limits.yaml", text, plimsoll_config::Format::Yaml)?;
    /// let time = ManualClock::new();
    /// let limits = Limits::new(&config, &time.clock())?;
    ///
    /// let asks = [Ask::new("tokens").key("anna").cost(6), Ask::new("calls")];
    /// let now = limits.try_reserve(&asks, 1).unwrap();
    /// let later = limits.try_reserve(&asks, 1).unwrap();
    /// assert_eq!(later.wait(), Some(Duration::from_secs(1)));
    /// let waits: Vec<_> = later.waits().collect();
    /// assert_eq!(waits[0], ("tokens", Some(Duration::from_millis(200))));
    ///
    /// drop(now); // cancelled, and refunded
    /// time.advance(Duration::from_secs(1));
    /// let hold = plimsoll::together::block_on(later).unwrap();
    /// # drop(hold);
    /// # Ok::<(), plimsoll_engine::ConfigError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The refusal, with the answer of each limit: if one of them refuses, or the wait for it would be longer than `like` allows.
    pub fn try_reserve(
        &self,
        asks: &[Ask<'_>],
        like: impl Into<Demand>,
    ) -> Result<Reserved, Refusal> {
        let members = self.members(asks, like.into());
        reserve(members.inspect_err(note_refused)?, Members::is_asked)
    }

    /// [`try_reserve`](Self::try_reserve), and asks stores. A store takes nothing ahead of time that could be cancelled: a limit
    /// in a store is taken now, and held until the others are ready.
    ///
    /// # Errors
    ///
    /// The refusal, with the answer of each limit. A store that grants only later refuses, and says when.
    pub async fn reserve(
        &self,
        asks: &[Ask<'_>],
        like: impl Into<Demand>,
    ) -> Result<Reserved, Refusal> {
        let members = self.members(asks, like.into());
        reserve_all(members.inspect_err(note_refused)?).await
    }

    /// [`reserve`](Self::reserve) by the routes of the file. `None` if no route is for this request.
    pub async fn reserve_request(
        &self,
        head: &Head<'_>,
        like: impl Into<Demand>,
    ) -> Option<Result<Reserved, Refusal>> {
        match resolve(&self.plan(), head, like.into(), false).inspect_err(note_refused) {
            Ok(None) => None,
            Ok(Some(members)) => Some(reserve_all(members).await),
            Err(refusal) => Some(Err(refusal)),
        }
    }
}

/// Limits that were taken from together, to be used later.
///
/// Awaiting it waits until all can be used, and yields what [`decide`](Limits::decide) does. Dropping it before that gives
/// everything back.
#[must_use = "a reservation that is dropped is cancelled"]
pub struct Reserved {
    /// `None` when it has become a hold.
    members: Option<Members>,
    /// In the order in which they were taken.
    taken: Vec<Taken>,
    wait: Option<Duration>,
    /// What stores said, where any were asked.
    #[cfg(feature = "redis")]
    stores: Option<(Denials, Told)>,
}

/// What is taken from one subject.
struct Taken {
    /// The first member that asks it. The others share what it takes.
    first: usize,
    wait: Option<Duration>,
    state: State,
}

enum State {
    Reserved(Reservation<'static>),
    Ready(Permit<'static>),
    Ended,
}

/// Reserves in memory, and takes what stores have now.
#[cfg_attr(
    not(feature = "redis"),
    expect(clippy::unused_async, reason = "without stores nothing is asked")
)]
async fn reserve_all(members: Members) -> Result<Reserved, Refusal> {
    let reserved = reserve(members, is_local)?;
    #[cfg(feature = "redis")]
    if reserved.members.as_ref().is_some_and(stores::has_any) {
        return take_from_stores(reserved).await;
    }
    Ok(reserved)
}

/// Whoever gives up meanwhile gives back what is reserved.
#[cfg(feature = "redis")]
async fn take_from_stores(mut reserved: Reserved) -> Result<Reserved, Refusal> {
    let Some(mut members) = reserved.members.take() else {
        return Ok(reserved);
    };
    let asking = stores::ask(&members, members.like.at_once());
    reserved.members = Some(members);
    let mut said = asking.await;
    let permits = said.permits.take();
    members = match reserved.members.take() {
        Some(members) => members,
        None => return Ok(reserved),
    };
    let Some(permits) = permits else {
        reserved.cancel(&members);
        return Err(refused_by_stores(members, &said));
    };
    keep(&mut members, permits);
    reserved.stores = Some((said.denials(members.list.len()), said.told()));
    reserved.members = Some(members);
    Ok(reserved)
}

/// Reserves for all selected members, or for none.
fn reserve(
    mut members: Members,
    select: fn(&Members, &Member) -> bool,
) -> Result<Reserved, Refusal> {
    if let Some(index) = blocked_at(&members) {
        return Err(refuse(members, index, &blocked()));
    }
    let too_large = members.with_asks(
        |member| select(&members, member),
        |asks, positions| {
            let refused = together::Ask::too_large_together(asks)?;
            Some((positions[refused.index], refused.denied))
        },
    );
    if let Some((index, denied)) = too_large {
        return Err(refuse(members, index, &denied));
    }
    let mut reserved = Reserved {
        members: None,
        taken: Vec::new(),
        wait: Some(Duration::ZERO),
        #[cfg(feature = "redis")]
        stores: None,
    };
    // Those of which undoing may leave a trace are the last.
    let is_selected = |index: &usize| {
        let member = &members.list[*index];
        select(&members, member) && members.first_of_subject(member) == *index
    };
    let mut order: Vec<usize> = (0..members.list.len()).filter(is_selected).collect();
    order.sort_by_key(|&index| {
        let member = &members.list[index];
        !members.limit(member).is_plain(member.terms)
    });
    for first in order {
        let member = &members.list[first];
        let demand = members.like.cost(members.whole_cost(member));
        match members.subject(member).reserve(demand) {
            Ok(reservation) => {
                let wait = reservation.wait();
                let longest = reserved.wait.zip(wait);
                reserved.wait = longest.map(|(longest, wait)| longest.max(wait));
                let state = State::Reserved(reservation);
                reserved.taken.push(Taken { first, wait, state });
            }
            Err(denied) => {
                // Before the others are asked what they say.
                reserved.cancel(&members);
                return Err(refused(members, first, denied));
            }
        }
    }
    members.denials = shadow_denials(&members);
    reserved.members = Some(members);
    Ok(reserved)
}

/// What limits in shadow mode would refuse now.
fn shadow_denials(members: &Members) -> Denials {
    let denial = |member: &Member| {
        let asked = members.limit(member).shadow && !members.handle(member).is_remote();
        asked.then(|| members.estimate(member).err()).flatten()
    };
    members.list.iter().map(denial).collect()
}

/// A refused reservation. The others say something against it only if they would not grant it in time either.
#[cold]
fn refused(members: Members, first: usize, denied: Denied) -> Refusal {
    let in_vain = |member: &Member, denied: &Denied| {
        let deadline = members.handle(member).now().and_then(|now| {
            let deadline = members.like.deadline(now)?;
            Some(deadline.since(now))
        });
        let never = matches!(
            denied.reason(),
            Reason::TooLarge | Reason::Closed | Reason::KeysFull | Reason::NoKey
        );
        never
            || deadline
                .zip(denied.retry_after())
                .is_some_and(|(left, wait)| wait > left)
    };
    let mut denials: Denials = members.list.iter().map(|_| None).collect();
    for (index, member) in members.list.iter().enumerate() {
        if index != first && !members.handle(member).is_remote() {
            let alone = members.estimate(member).err();
            denials[index] = alone.filter(|alone| in_vain(member, alone));
        }
    }
    denials[first] = Some(denied);
    let refusal = Refusal::new(members, denials, first);
    note_refused(&refusal);
    refusal
}

impl Reserved {
    /// How long the wait was when it was made: that for the last of them. `None` if it depends on others returning what they
    /// hold.
    #[must_use]
    pub fn wait(&self) -> Option<Duration> {
        self.wait
    }

    /// Each limit by its name, and how long the wait for it was when it was made, in the order in which they were asked.
    pub fn waits(&self) -> impl Iterator<Item = (&str, Option<Duration>)> {
        let members = self.members.as_ref();
        members.into_iter().flat_map(|members| {
            members.list.iter().map(|member| {
                let first = members.first_of_subject(member);
                let taken = self.taken.iter().find(|taken| taken.first == first);
                // What is not taken ahead of time is there.
                let wait = taken.map_or(Some(Duration::ZERO), |taken| taken.wait);
                (&*members.limit(member).name, wait)
            })
        })
    }

    /// What each limit says, in the order in which they were asked: how it stands now that it was taken from.
    pub fn answers(&self) -> impl Iterator<Item = Answer<'_>> {
        self.members.iter().flat_map(answers)
    }

    /// Gives everything back that was reserved in memory, in the opposite order.
    fn cancel(&mut self, members: &Members) {
        while let Some(taken) = self.taken.pop() {
            let subject = members.subject(&members.list[taken.first]);
            match taken.state {
                // Before its time it knows best what is to be given back; then the key of a permit has to be told.
                State::Reserved(mut reservation) => {
                    let cx = &mut Context::from_waker(Waker::noop());
                    match Pin::new(&mut reservation).poll(cx) {
                        Poll::Ready(Ok(permit)) => subject.undo(permit),
                        Poll::Ready(Err(_)) => {}
                        Poll::Pending => reservation.undo(),
                    }
                }
                State::Ready(permit) => subject.undo(permit),
                State::Ended => {}
            }
        }
    }

    /// All are ready: they are held from now on.
    fn hold(&mut self, mut members: Members) -> Hold {
        for taken in self.taken.drain(..) {
            let State::Ready(mut permit) = taken.state else {
                continue;
            };
            let subject = |index: &usize| members.first_of_subject(&members.list[*index]);
            let same = (taken.first + 1..members.list.len()).rev();
            let same: Vec<usize> = same.filter(|at| subject(at) == taken.first).collect();
            for index in same {
                if let Some(part) = permit.split(members.list[index].cost) {
                    members.keep_permit(index, part);
                }
            }
            members.keep_permit(taken.first, permit);
        }
        // Limits in shadow mode are asked now.
        members.denials.clear();
        #[cfg(feature = "redis")]
        if let Some((denials, told)) = self.stores.take() {
            return admitted_by_stores(members, denials, told);
        }
        admitted(members)
    }
}

impl Future for Reserved {
    type Output = Result<Hold, Refusal>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let mut lost = None;
        for taken in &mut this.taken {
            let State::Reserved(reservation) = &mut taken.state else {
                continue;
            };
            match Pin::new(reservation).poll(cx) {
                Poll::Ready(Ok(permit)) => taken.state = State::Ready(permit),
                Poll::Ready(Err(denied)) => {
                    taken.state = State::Ended;
                    lost = Some((taken.first, denied));
                    break;
                }
                Poll::Pending => return Poll::Pending,
            }
        }
        let Some(mut members) = this.members.take() else {
            unreachable!("a future is not polled after it is done")
        };
        Poll::Ready(match lost {
            Some((first, denied)) => {
                this.cancel(&members);
                members.undo();
                Err(refused(members, first, denied))
            }
            None => Ok(this.hold(members)),
        })
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if let Some(mut members) = self.members.take() {
            self.cancel(&members);
            // What stores granted.
            members.undo();
        }
    }
}

impl fmt::Debug for Reserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reserved")
            .field("limits", &self.members)
            .field("wait", &self.wait)
            .finish_non_exhaustive()
    }
}
