//! Limiters and keys that are known only when a request comes, asked together.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::asks::{Ask, Asked};
use super::left::{Left, Progress};
use super::refusal::look;
use super::{Group, List, Permits, Request, Taken, Wait, attempt, refuse, unexplained};
use crate::limiter::Kind;
use crate::limiter::LimiterExt;
use crate::{Acquire, Demand, Denied, Permit, Reason};

/// Which of several refused, and why.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Refused {
    /// The position in the list.
    pub index: usize,
    /// Its refusal, until the moment at which all would grant.
    pub denied: Denied,
}

impl<'a> Ask<'a> {
    /// Takes for all of `asks` now, or for none. Fills `held` with one permit for each, in their order, and allocates
    /// nothing while they grant.
    ///
    /// # Errors
    ///
    /// The refusal of the first that refuses.
    pub fn try_all(asks: &[Self], held: &mut Permits<'a>) -> Result<(), Refused> {
        if Self::attempt_all(asks, held) {
            return Ok(());
        }
        Self::decide(asks, held)
    }

    /// Takes for all of `asks` now if each can be asked on its own and undone exactly, and allocates nothing. `false`
    /// decides and counts nothing: [`try_all`](Self::try_all) and [`Waiting::start`] do.
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

    /// Decides under the locks of all, and counts a refusal.
    #[cold]
    fn decide(asks: &[Self], held: &mut Permits<'a>) -> Result<(), Refused> {
        let refused = |(index, denied)| Refused { index, denied };
        let group = Group::of_asks(asks).map_err(refused)?;
        let request = group.ask_each(asks);
        let mut taken = Taken::default();
        attempt(request, true, &mut taken).map_err(|(leaf, denied)| Refused {
            index: request.ask_of(leaf),
            denied: denied.unwrap_or_else(unexplained),
        })?;
        let mut permits = request.each(taken);
        for leaf in request.local()..request.len() {
            let Some(demand) = request.demand(leaf) else {
                continue;
            };
            let index = request.ask_of(leaf);
            match request.member(leaf).limiter().try_acquire(demand) {
                Ok(permit) => permits[index] = Some(permit.into_owned()),
                Err(denied) => {
                    undo(asks, permits);
                    let denied = refuse(request, leaf, denied);
                    return Err(Refused { index, denied });
                }
            }
        }
        permits
            .into_iter()
            .flatten()
            .for_each(|permit| held.push(permit));
        Ok(())
    }

    /// What [`try_all`](Self::try_all) would answer. Takes nothing and counts nothing.
    ///
    /// # Errors
    ///
    /// The refusal it would answer.
    pub fn estimate_all(asks: &[Self]) -> Result<(), Denied> {
        let group = Group::of_asks(asks).map_err(|(_, denied)| denied)?;
        group.ask_each(asks).estimate()
    }

    /// The refusal of a limiter or key that several of `asks` ask for more than it ever has together. Takes nothing and
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

fn undo(asks: &[Ask<'_>], permits: Vec<Option<Permit<'static>>>) {
    for (ask, permit) in asks.iter().zip(permits).rev() {
        if let Some(permit) = permit {
            ask.undo(permit);
        }
    }
}

/// A request that waits for all of several limiters and keys.
///
/// It does not borrow them: whoever polls it passes the same list, in the same order, each time. It waits in the queue of
/// each member that has refused it, with one age, from one moment on; each member bounds the wait by its own demand.
/// Dropping it leaves all queues. Members in stores are asked when all others have granted.
pub struct Waiting {
    // Before the group: a place is given up before the lease of its key ends.
    wait: Option<(Wait, usize)>,
    group: Group<usize>,
    /// What was granted, when only stores are left to be asked.
    permits: Vec<Option<Permit<'static>>>,
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
    /// The refusal of a member that does not let it wait.
    pub fn start(asks: &[Ask<'_>]) -> Result<Self, Refused> {
        let refused = |(index, denied)| Refused { index, denied };
        let group = Group::of_asks(asks).map_err(refused)?;
        Self::start_in(group, asks, None)
    }

    /// Takes from all, or waits: after another wait in `before`, as one that has waited since that began.
    fn start_in(
        group: Group<usize>,
        asks: &[Ask<'_>],
        before: Option<&Self>,
    ) -> Result<Self, Refused> {
        let request = group.ask_each(asks);
        let progress = |leaf| before?.progress(asks, request.ask_of(leaf));
        let stores = (request.local()..request.len()).map(|leaf| {
            let before = before.and_then(|before| before.store_demand(request.ask_of(leaf)));
            before.unwrap_or_else(|| request.store_demand(leaf, progress(leaf)))
        });
        let stores = stores.collect();
        let start = |leaf| match before.and_then(|before| before.wait.as_ref()) {
            Some((wait, _)) => wait.continue_in(request, leaf, progress),
            None => Wait::start(request, leaf),
        };
        let mut taken = Taken::default();
        let attempted = attempt(request, false, &mut taken).map(|()| request.each(taken));
        let (wait, permits) = match attempted {
            Ok(permits) => (None, permits),
            Err((leaf, _)) => match start(leaf) {
                Ok(wait) => (Some((wait, leaf)), Vec::new()),
                Err(denied) => {
                    let index = request.ask_of(leaf);
                    return Err(Refused { index, denied });
                }
            },
        };
        let next = group.local();
        Ok(Self {
            wait,
            group,
            permits,
            stores,
            asking: None,
            next,
        })
    }

    /// How far the wait for one of `asks` has come.
    fn progress(&self, asks: &[Ask<'_>], index: usize) -> Option<Progress> {
        let (wait, _) = self.wait.as_ref()?;
        let leaf = self.leaf_of(index).filter(|leaf| *leaf < self.next)?;
        Some(wait.progress(self.group.ask_each(asks), leaf))
    }

    /// How a member in a store is to be asked.
    fn store_demand(&self, index: usize) -> Option<Demand> {
        let store = self.leaf_of(index)?.checked_sub(self.group.local())?;
        self.stores.get(store).copied()
    }

    fn leaf_of(&self, index: usize) -> Option<usize> {
        let mut leaves = 0..self.group.uses.len();
        leaves.find(|&leaf| self.group.uses_of(leaf).any(|(of, _)| of == index))
    }

    /// Whether it waits in a queue, and not only for a store.
    #[must_use]
    pub fn is_queued(&self) -> bool {
        self.wait.is_some()
    }

    /// How long it has been in queues, by the clock of the member that it began to wait for.
    #[must_use]
    pub fn waited(&self, asks: &[Ask<'_>]) -> Duration {
        let wait = self.wait.as_ref();
        wait.map_or(Duration::ZERO, |(wait, leaf)| {
            wait.waited(self.group.ask_each(asks), *leaf)
        })
    }

    /// One permit for each of `asks`, when all have granted.
    ///
    /// # Errors
    ///
    /// The refusal of a member; what others granted has been undone.
    pub fn poll(
        &mut self,
        asks: &[Ask<'_>],
        cx: &mut Context<'_>,
    ) -> Poll<Result<Vec<Option<Permit<'static>>>, Refused>> {
        while self.wait.is_some() && self.group.is_outdated(cx.waker()) {
            // The old places are given up when the new ones are taken.
            *self = match Group::of_asks(asks) {
                Ok(group) => Self::start_in(group, asks, Some(self))?,
                Err((index, denied)) => return Poll::Ready(Err(Refused { index, denied })),
            };
        }
        let Self {
            wait,
            group,
            permits,
            stores,
            asking,
            next,
        } = self;
        let request = group.ask_each(asks);
        if let Some((waiting, _)) = wait {
            match ready!(waiting.poll(request, cx)) {
                Ok(taken) => *permits = request.each(taken),
                Err((leaf, denied)) => {
                    let index = request.ask_of(leaf);
                    return Poll::Ready(Err(Refused { index, denied }));
                }
            }
            *wait = None;
        }
        while *next < request.len() {
            let leaf = *next;
            let like = stores[leaf - request.local()];
            let (limiter, index) = (request.member(leaf).limiter(), request.ask_of(leaf));
            let demand = request
                .demand(leaf)
                .map_or(like, |demand| like.cost(demand.cost));
            let acquire = asking.get_or_insert_with(|| limiter.acquire(demand));
            let answer = ready!(Pin::new(acquire).poll(cx));
            *asking = None;
            *next += 1;
            match answer {
                Ok(permit) => permits[index] = Some(permit),
                Err(denied) => {
                    undo(asks, std::mem::take(permits));
                    let denied = refuse(request, leaf, denied);
                    return Poll::Ready(Err(Refused { index, denied }));
                }
            }
        }
        Poll::Ready(Ok(std::mem::take(permits)))
    }

    /// Gives up, and undoes what was granted while a store was asked. Dropping it undoes what permits know by themselves.
    pub fn cancel(mut self, asks: &[Ask<'_>]) {
        undo(asks, std::mem::take(&mut self.permits));
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        for permit in self.permits.drain(..).rev().flatten() {
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

impl Group<usize> {
    fn ask_each<'a>(
        &'a self,
        asks: &'a [Ask<'a>],
    ) -> Request<'a, usize, impl Fn(usize) -> Option<u32> + Copy + use<'a>> {
        Request {
            group: self,
            asks,
            demand_of: Some(|asks, index| asks[index].demand),
            like: asks.first().map_or(Demand::ONE, |ask| ask.demand),
            cost: move |index: usize| Some(asks.get(index)?.demand.cost),
        }
    }
}

impl<'a, C: Fn(usize) -> Option<u32> + Copy> Request<'a, usize, C> {
    /// The position of the first that asks of a member.
    fn ask_of(self, leaf: usize) -> usize {
        self.group.uses_of(leaf).next().map_or(0, |(of, _)| of)
    }

    /// How a member in a store is asked, by its own clock from now on.
    fn store_demand(self, leaf: usize, progress: Option<Progress>) -> Demand {
        let demand = self.asks[self.ask_of(leaf)].demand;
        if demand.is_at_once() {
            return demand;
        }
        let now = self.member(leaf).clock().precise_now();
        let left = progress.map_or_else(|| Left::at(demand, now), |progress| progress.left);
        left.of(demand, now)
    }

    /// One permit for each that asks, of what was taken.
    fn each(self, mut taken: Taken<'a>) -> Vec<Option<Permit<'static>>> {
        let mut parts: Vec<Vec<Permit<'static>>> = Vec::new();
        parts.resize_with(self.asks.len(), Vec::new);
        for leaf in 0..self.local() {
            let Some(permit) = taken.permit(self, leaf) else {
                continue;
            };
            let mut permit = Some(permit.into_owned());
            let mut uses = self.group.uses_of(leaf).peekable();
            while let Some((of, times)) = uses.next() {
                let cost = self.asks[of].demand.cost.saturating_mul(times);
                let part = match uses.peek() {
                    Some(_) => permit.as_mut().and_then(|permit| permit.split(cost)),
                    None => permit.take(),
                };
                parts[of].extend(part);
            }
        }
        let gather = |(ask, mut permits): (&Ask<'_>, Vec<_>)| match ask.of {
            Asked::Limiter(limiter) => match limiter.parts().kind() {
                Kind::Several(several) => Some(several.gather(permits, ask.demand)),
                _ => permits.pop(),
            },
            Asked::Key(_) => permits.pop(),
        };
        self.asks.iter().zip(parts).map(gather).collect()
    }
}
