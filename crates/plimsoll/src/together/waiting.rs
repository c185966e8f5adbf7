//! Limiters and keys that are known only when a request arrives, asked together.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use super::asks::{Ask, Asked};
use super::each::Granted;
use super::left::{Left, Progress};
use super::refusal::look;
use super::{Group, List, Permits, Request, Taken, Wait, attempt, refuse, unexplained};
use crate::{Acquire, Demand, Denied, Permit, Reason};

/// The ask that was refused, and its refusal.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Refused {
    /// The position in the list.
    pub index: usize,
    /// The refusal, with the moment at which all would grant.
    pub denied: Denied,
}

impl<'a> Ask<'a> {
    /// Takes for all of `asks` now, or for none. Fills `held` with one permit for each, in their order, and allocates
    /// nothing while they grant.
    ///
    /// # Errors
    ///
    /// Returns the refusal of the first limiter that refuses.
    pub fn try_all(asks: &[Self], held: &mut Permits<'a>) -> Result<(), Refused> {
        if Self::attempt_all(asks, held) {
            return Ok(());
        }
        Self::decide(asks, held)
    }

    /// Takes for all of `asks` now if each can be asked on its own and undone exactly, and allocates nothing. `false`
    /// decides and counts nothing: call [`try_all`](Self::try_all) or [`Waiting::start`] then.
    pub fn attempt_all(asks: &[Self], held: &mut Permits<'a>) -> bool {
        if asks.len() > 1 && !asks.iter().all(Self::is_plain) {
            return false;
        }
        for ask in asks {
            let Ok(permit) = ask.attempt() else {
                Self::undo_all(asks, std::mem::take(held));
                return false;
            };
            held.push(permit);
        }
        true
    }

    /// Decides with all locks held, and counts a refusal.
    #[cold]
    fn decide(asks: &[Self], held: &mut Permits<'a>) -> Result<(), Refused> {
        let permits = in_group(asks, |group| {
            let request = group.ask_each(asks);
            let mut taken = Taken::default();
            attempt(request, true, &mut taken).map_err(|(leaf, denied)| Refused {
                index: request.ask_of(leaf),
                denied: denied.unwrap_or_else(unexplained),
            })?;
            let mut granted = request.permits(taken);
            for leaf in request.local()..request.len() {
                let Some(demand) = request.demand(leaf) else {
                    continue;
                };
                match request.member(leaf).limiter().try_acquire(demand) {
                    Ok(permit) => granted.push((leaf, permit.into_owned())),
                    Err(denied) => {
                        request.undo(granted);
                        return Err(Refused {
                            index: request.ask_of(leaf),
                            denied: refuse(request, leaf, denied),
                        });
                    }
                }
            }
            Ok(request.gather(granted))
        })?;
        permits
            .into_iter()
            .flatten()
            .for_each(|permit| held.push(permit));
        Ok(())
    }

    /// Returns the answer of [`try_all`](Self::try_all). It takes nothing and counts nothing.
    ///
    /// # Errors
    ///
    /// Returns the refusal that `try_all` would return.
    pub fn estimate_all(asks: &[Self]) -> Result<(), Denied> {
        in_group(asks, |group| {
            let (index, answer) = (0, group.ask_each(asks).estimate());
            answer.map_err(|denied| Refused { index, denied })
        })
        .map_err(|refused| refused.denied)
    }

    /// Returns the refusal of a limiter or key whose limit is below the sum of several of `asks`. It takes nothing and
    /// counts nothing.
    #[must_use]
    pub fn too_large_together(asks: &[Self]) -> Option<Refused> {
        let is_key = |ask: &&Self| matches!(ask.of, Asked::Key(_));
        let keys = asks.iter().filter(is_key).count();
        if keys.max(asks.len() - keys) < 2 {
            return None;
        }
        let group = Group::of_asks(asks).ok()?;
        let request = group.ask_each(asks);
        let mut shared = (0..request.local()).filter(|&leaf| group.uses_of(leaf).nth(1).is_some());
        shared.find_map(|leaf| {
            let denied = look(request.member(leaf), request.demand(leaf)?).err()?;
            let denied = request.name_refusal(leaf, denied);
            let index = request.ask_of(leaf);
            (denied.reason() == Reason::TooLarge).then_some(Refused { index, denied })
        })
    }

    /// Undoes permits that [`try_all`](Self::try_all) or [`Waiting`] granted for these.
    pub fn undo_all(asks: &[Self], permits: Permits<'_>) {
        let permits: Vec<_> = permits.into_each().collect();
        for (ask, permit) in asks.iter().zip(permits).rev() {
            ask.undo(permit);
        }
    }
}

/// Asks the limiters behind keys and names; and again, if another limiter replaced one of them meanwhile.
fn in_group<T>(
    asks: &[Ask<'_>],
    ask: impl Fn(&Group<usize>) -> Result<T, Refused>,
) -> Result<T, Refused> {
    loop {
        let group = Group::of_asks(asks);
        let group = group.map_err(|(index, denied)| Refused { index, denied })?;
        match ask(&group) {
            Err(_) if group.behind.is_outdated(Waker::noop()) => {}
            answer => return answer,
        }
    }
}

/// A request that waits for all of several limiters and keys.
///
/// It does not borrow them: each poll takes the same list, in the same order. It waits in the queue of each member that
/// has refused it, with one age, from one moment on; each member bounds the wait by its own demand. Dropping it leaves
/// all queues. Members in stores are asked when all others have granted.
pub struct Waiting {
    // Before the group: a place is released before the lease of its key ends.
    wait: Option<(Wait, usize)>,
    group: Group<usize>,
    /// The permits of the members, when only stores are left to be asked.
    granted: Granted,
    /// The demands to members in stores, and the one that is asked.
    stores: Vec<Demand>,
    asking: Option<Acquire<'static>>,
    next: usize,
}

impl Waiting {
    /// Takes from all, or begins to wait.
    ///
    /// # Errors
    ///
    /// Returns the refusal of a member that does not let it wait.
    pub fn start(asks: &[Ask<'_>]) -> Result<Self, Refused> {
        Self::start_after(None, asks)
    }

    /// Takes from all, or waits: after another wait, with the start of that wait.
    fn start_after(before: Option<&Self>, asks: &[Ask<'_>]) -> Result<Self, Refused> {
        loop {
            let group = Group::of_asks(asks);
            let group = group.map_err(|(index, denied)| Refused { index, denied })?;
            match Self::wait_in(&group, asks, before) {
                // Another limiter has replaced the one behind a name meanwhile.
                Err(_) if group.behind.is_outdated(Waker::noop()) => {}
                started => {
                    let (wait, granted) = started?;
                    let next = group.local();
                    return Ok(Self {
                        wait,
                        granted,
                        stores: group.ask_each(asks).store_demands(before),
                        group,
                        asking: None,
                        next,
                    });
                }
            }
        }
    }

    fn wait_in(
        group: &Group<usize>,
        asks: &[Ask<'_>],
        before: Option<&Self>,
    ) -> Result<(Option<(Wait, usize)>, Granted), Refused> {
        let request = group.ask_each(asks);
        let mut taken = Taken::default();
        let leaf = match attempt(request, false, &mut taken) {
            Ok(()) => return Ok((None, request.permits(taken))),
            Err((leaf, _)) => leaf,
        };
        let progress = |leaf| before?.progress(asks, request.ask_of(leaf));
        let wait = match before.and_then(|before| before.wait.as_ref()) {
            Some((wait, _)) => wait.continue_in(request, leaf, progress),
            None => Wait::start(request, leaf),
        };
        let wait = wait.map_err(|denied| Refused {
            index: request.ask_of(leaf),
            denied,
        })?;
        Ok((Some((wait, leaf)), Vec::new()))
    }

    /// The progress of the wait for one of `asks`, which may consist of several members.
    fn progress(&self, asks: &[Ask<'_>], index: usize) -> Option<Progress> {
        let ((wait, _), request) = (self.wait.as_ref()?, self.group.ask_each(asks));
        let leaves = self.leaves_of(index).filter(|leaf| *leaf < self.next);
        let progress = leaves.map(|leaf| wait.progress(request, leaf));
        progress.reduce(Progress::and)
    }

    /// The demand on a member in a store.
    fn store_demand(&self, index: usize) -> Option<Demand> {
        let mut stores = self.leaves_of(index);
        let store = stores.find_map(|leaf| leaf.checked_sub(self.group.local()))?;
        self.stores.get(store).copied()
    }

    fn leaves_of(&self, index: usize) -> impl Iterator<Item = usize> {
        let group = &self.group;
        let is_of = move |leaf: &usize| {
            let mut uses = group.uses_of(*leaf);
            uses.any(|(of, _)| group.behind.root(of) == index)
        };
        (0..group.uses.len()).filter(is_of)
    }

    /// Returns whether it waits in a queue; if not, it waits only for a store.
    #[must_use]
    pub fn is_queued(&self) -> bool {
        self.wait.is_some()
    }

    /// Returns the time that it has spent in queues, on the clock of the first member that it waited for.
    #[must_use]
    pub fn waited(&self, asks: &[Ask<'_>]) -> Duration {
        let wait = self.wait.as_ref();
        wait.map_or(Duration::ZERO, |(wait, leaf)| {
            wait.waited(self.group.ask_each(asks), *leaf)
        })
    }

    /// Polls for one permit for each of `asks`, once all have granted.
    ///
    /// # Errors
    ///
    /// Returns the refusal of a member. The grants of the others have been undone.
    pub fn poll(
        &mut self,
        asks: &[Ask<'_>],
        cx: &mut Context<'_>,
    ) -> Poll<Result<Vec<Option<Permit<'static>>>, Refused>> {
        while self.wait.is_some() {
            if self.group.behind.is_outdated(cx.waker()) {
                // The old places are released when the new ones are taken.
                *self = Self::start_after(Some(self), asks)?;
                continue;
            }
            let request = self.group.ask_each(asks);
            let Some((waiting, _)) = &mut self.wait else {
                break;
            };
            match ready!(waiting.poll(request, cx)) {
                Ok(taken) => {
                    self.granted = request.permits(taken);
                    self.wait = None;
                }
                // It was asked while another limiter was replacing it.
                Err(_) if self.group.behind.is_outdated(cx.waker()) => {}
                Err((leaf, denied)) => {
                    let index = request.ask_of(leaf);
                    return Poll::Ready(Err(Refused { index, denied }));
                }
            }
        }
        let Self {
            group,
            granted,
            stores,
            asking,
            next,
            ..
        } = self;
        let request = group.ask_each(asks);
        while *next < request.len() {
            let leaf = *next;
            let like = stores[leaf - request.local()];
            let limiter = request.member(leaf).limiter();
            let demand = request
                .demand(leaf)
                .map_or(like, |demand| like.cost(demand.cost));
            let acquire = asking.get_or_insert_with(|| limiter.acquire(demand));
            let answer = ready!(Pin::new(acquire).poll(cx));
            *asking = None;
            *next += 1;
            match answer {
                Ok(permit) => granted.push((leaf, permit)),
                Err(denied) => {
                    request.undo(std::mem::take(granted));
                    let index = request.ask_of(leaf);
                    let denied = refuse(request, leaf, denied);
                    return Poll::Ready(Err(Refused { index, denied }));
                }
            }
        }
        Poll::Ready(Ok(request.gather(std::mem::take(granted))))
    }

    /// Cancels the wait, and undoes the grants made while a store was asked. Dropping it undoes only permits that know
    /// their limiter.
    pub fn cancel(mut self, asks: &[Ask<'_>]) {
        let granted = std::mem::take(&mut self.granted);
        self.group.ask_each(asks).undo(granted);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        for (_, permit) in self.granted.drain(..).rev() {
            permit.undo();
        }
    }
}

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiting")
            .field("is_queued", &self.is_queued())
            .finish_non_exhaustive()
    }
}

impl<C: Fn(usize) -> Option<u64> + Copy> Request<'_, usize, C> {
    /// The demands on members in stores, by their own clocks from now on; after a wait in `before`, with its remaining
    /// time.
    fn store_demands(self, before: Option<&Waiting>) -> Vec<Demand> {
        let demand = |leaf: usize| {
            let index = self.ask_of(leaf);
            let demand = self.asks[index].demand;
            if let Some(known) = before.and_then(|before| before.store_demand(index)) {
                return known;
            }
            if demand.is_at_once() {
                return demand;
            }
            let now = self.member(leaf).clock().precise_now();
            let progress = before.and_then(|before| before.progress(self.asks, index));
            let left = progress.map_or_else(|| Left::at(demand, now), |progress| progress.left);
            left.of(demand, now)
        };
        (self.local()..self.len()).map(demand).collect()
    }
}
