//! Reservations: decisions that are made now and used later.

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
use crate::decide::{admitted_by_stores, refused_by_stores, store_permits};
use crate::decide::{blocked_at, is_local, refuse};
use crate::decision::{Answer, Hold, Refusal, answers};
use crate::handle::blocked;
use crate::limits::Limits;
use crate::members::Members;
use crate::report::report_refused;
use crate::resolve::resolve;
#[cfg(feature = "redis")]
use crate::state::StoreStandings;
use crate::state::{Denials, Member};
#[cfg(feature = "redis")]
use crate::stores;

impl Limits {
    /// Reserves all of `asks` now for later use, or none. Never waits. [`Reserved::wait`] is the time until the
    /// reservation can be used. Limits in stores answer from the state of this process: use [`reserve`](Self::reserve)
    /// if there are any.
    ///
    /// `like` carries the longest wait that is accepted, and the priority among waiters for slots. Its cost is ignored.
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
    /// Returns the refusal, with the answer of each limit, if a limit refuses or its wait would exceed the time-out of
    /// `like`.
    pub fn try_reserve(
        &self,
        asks: &[Ask<'_>],
        like: impl Into<Demand>,
    ) -> Result<Reserved, Refusal> {
        let members = self.members(asks, like.into());
        reserve(members.inspect_err(report_refused)?, Members::is_asked)
    }

    /// Like [`try_reserve`](Self::try_reserve), but asks stores too. Stores have no reservations: a limit in a store
    /// grants now, and the grant is held until the other limits are ready. Dropping the future cancels the reservation.
    ///
    /// # Errors
    ///
    /// Returns the refusal, with the answer of each limit. A store that would grant only later refuses, with its
    /// `retry_after`.
    pub async fn reserve(
        &self,
        asks: &[Ask<'_>],
        like: impl Into<Demand>,
    ) -> Result<Reserved, Refusal> {
        let members = self.members(asks, like.into());
        reserve_all(members.inspect_err(report_refused)?).await
    }

    /// Like [`reserve`](Self::reserve), for the limits of a request's route. `None` if no route matches the request.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`reserve`](Self::reserve).
    pub async fn reserve_request(
        &self,
        head: &Head<'_>,
        like: impl Into<Demand>,
    ) -> Option<Result<Reserved, Refusal>> {
        match resolve(&self.plan(), head, like.into(), false).inspect_err(report_refused) {
            Ok(None) => None,
            Ok(Some(members)) => Some(reserve_all(members).await),
            Err(refusal) => Some(Err(refusal)),
        }
    }
}

/// A reservation of several limits. [`Limits::try_reserve`] and [`Limits::reserve`] return one.
///
/// It is a future: awaiting it waits until all limits are ready, and yields the [`Hold`]. Dropping it before that cancels it and
/// refunds everything. Until then its tokens count as used, so other callers cannot take them.
#[must_use = "a reservation that is dropped is cancelled"]
pub struct Reserved {
    /// `None` after it has become a hold.
    members: Option<Members>,
    /// One for each subject, in the order in which they were taken.
    taken: Vec<Taken>,
    wait: Option<Duration>,
    /// The denials and standings of stores, if any were asked.
    #[cfg(feature = "redis")]
    stores: Option<(Denials, StoreStandings)>,
}

/// The reservation of one subject.
struct Taken {
    /// The position of the first member with this subject. The others share its reservation.
    first: usize,
    wait: Option<Duration>,
    state: State,
}

enum State {
    Reserved(Reservation<'static>),
    Ready(Permit<'static>),
    Ended,
}

/// Reserves in memory, and takes from stores now.
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

/// Takes from the stores of a reservation. If this future is dropped, so is the reservation, which refunds it.
#[cfg(feature = "redis")]
async fn take_from_stores(mut reserved: Reserved) -> Result<Reserved, Refusal> {
    let Some(mut members) = reserved.members.take() else {
        return Ok(reserved);
    };
    let asking = stores::ask(&members, members.like.at_once());
    reserved.members = Some(members);
    let mut decision = asking.await;
    let permits = decision.permits.take();
    members = match reserved.members.take() {
        Some(members) => members,
        None => return Ok(reserved),
    };
    let Some(permits) = permits else {
        reserved.cancel(&members);
        return Err(refused_by_stores(members, &decision));
    };
    store_permits(&mut members, permits);
    reserved.stores = Some((decision.denials(members.list.len()), decision.standings()));
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
    // Members that cannot be undone exactly come last.
    let is_selected = |index: &usize| {
        let member = &members.list[*index];
        select(&members, member) && members.first_of_subject(member) == *index
    };
    let mut order: Vec<usize> = (0..members.list.len()).filter(is_selected).collect();
    order.sort_by_key(|&index| {
        let member = &members.list[index];
        !members.limit(member).is_undoable(member.terms)
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
                // Cancelled before the answers of the other members are estimated.
                reserved.cancel(&members);
                return Err(refused(members, first, denied));
            }
        }
    }
    members.denials = shadow_denials(&members);
    reserved.members = Some(members);
    Ok(reserved)
}

/// The denials of members in shadow mode.
fn shadow_denials(members: &Members) -> Denials {
    let denial = |member: &Member| {
        let asked = members.limit(member).shadow && !members.handle(member).is_remote();
        asked.then(|| members.estimate(member).err()).flatten()
    };
    members.list.iter().map(denial).collect()
}

/// The refusal of a reservation. Other members count as refusing only if they would not grant before the deadline either.
#[cold]
fn refused(members: Members, first: usize, denied: Denied) -> Refusal {
    let exceeds_deadline = |member: &Member, denied: &Denied| {
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
            denials[index] = alone.filter(|alone| exceeds_deadline(member, alone));
        }
    }
    denials[first] = Some(denied);
    let refusal = Refusal::new(members, denials, first);
    report_refused(&refusal);
    refusal
}

impl Reserved {
    /// Returns the wait until the last of its limits is ready, at the time of the reservation. `None` if it is unknown, because it
    /// depends on the return of permits.
    #[must_use]
    pub fn wait(&self) -> Option<Duration> {
        self.wait
    }

    /// Returns the name of each limit and its wait at the time of the reservation, in the order of the asks.
    pub fn waits(&self) -> impl Iterator<Item = (&str, Option<Duration>)> {
        let members = self.members.as_ref();
        members.into_iter().flat_map(|members| {
            members.list.iter().map(|member| {
                let first = members.first_of_subject(member);
                let taken = self.taken.iter().find(|taken| taken.first == first);
                // A limit without a reservation has granted already.
                let wait = taken.map_or(Some(Duration::ZERO), |taken| taken.wait);
                (&*members.limit(member).name, wait)
            })
        })
    }

    /// Returns the answer of each limit, in the order of the asks. The standings include the reservation.
    pub fn answers(&self) -> impl Iterator<Item = Answer<'_>> {
        self.members.iter().flat_map(answers)
    }

    /// Cancels all reservations in memory, in the opposite order.
    fn cancel(&mut self, members: &Members) {
        while let Some(taken) = self.taken.pop() {
            let subject = members.subject(&members.list[taken.first]);
            match taken.state {
                // A pending reservation undoes itself; a permit is undone by the subject, which has its key.
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

    /// The hold, when all reservations are ready.
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
                    members.store_permit(index, part);
                }
            }
            members.store_permit(taken.first, permit);
        }
        // Limits in shadow mode are asked again now.
        members.denials.clear();
        #[cfg(feature = "redis")]
        if let Some((denials, standings)) = self.stores.take() {
            return admitted_by_stores(members, denials, standings);
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
            // The grants of stores.
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
