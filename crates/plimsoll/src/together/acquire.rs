//! Asking a group and waiting for it.

use std::future::poll_fn;

use super::asks::Ask;
use super::{
    Left, List, Permits, Refused, Refuser, Request, Taken, Wait, Waiting, attempt, refuse,
    too_large, unexplained,
};
use crate::Denied;

impl<'a, U, C> Request<'a, U, C>
where
    U: Copy + PartialEq,
    C: Fn(U) -> Option<u64> + Copy,
{
    /// Takes from all members, and waits where one refuses. It holds nothing while it waits for members in this
    /// process. Members in stores are asked last, one at a time, and the other grants are held meanwhile.
    ///
    /// # Errors
    ///
    /// Returns the refusal of a member without a queue, or with a wait that is known to exceed the deadline.
    pub async fn acquire(self, refuser: Refuser, held: &mut Permits<'a>) -> Result<(), Denied> {
        if self.group.has_others() {
            self.wait_by_name(held).await?;
        } else if self.local() == self.len() {
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

    /// Waits for members that may be names: the limiters behind them are resolved now, and followed.
    async fn wait_by_name(self, held: &mut Permits<'a>) -> Result<(), Denied> {
        let asked = (0..self.len()).filter(|&index| self.cost(index).is_some());
        let asked: Vec<usize> = asked.collect();
        let Some(first) = self.first() else {
            return Ok(());
        };
        if let Some((index, denied)) = too_large(self) {
            return Err(refuse(self, index, denied));
        }
        let left = Left::at(self.like(), self.member(first).clock().precise_now());
        let ask = |&index: &usize| {
            let (limiter, demand) = (self.member(index).limiter(), self.demand(index)?);
            let demand = match demand.is_at_once() {
                true => demand,
                false => left.of(demand, limiter.clock().precise_now()),
            };
            Some(Ask {
                of: limiter,
                demand,
            })
        };
        let asks: Vec<Ask<'_>> = asked.iter().filter_map(ask).collect();
        let refused = |Refused { index, denied }| {
            self.count_denied(asked[index]);
            self.name_refusal(asked[index], denied)
        };
        let mut waiting = Waiting::start(&asks).map_err(refused)?;
        let permits = poll_fn(|cx| waiting.poll(&asks, cx)).await;
        let permits = permits.map_err(refused)?.into_iter().flatten();
        permits.for_each(|permit| held.push(permit));
        Ok(())
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
}

/// The grants so far, undone unless the rest is granted.
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
