//! The verbs of a request.

use std::future::poll_fn;

use super::{
    Left, List, Permits, Request, Reserved, Taken, Wait, attempt, estimate, refuse, reserve,
    unexplained,
};
use crate::{Demand, Denied};

/// The member that refused one who will wait.
#[derive(Clone, Copy, Debug)]
pub struct Refuser(pub(crate) usize);

impl Refuser {
    /// A member in a store, of which nothing is known yet.
    pub const STORE: Self = Self(usize::MAX);
}

impl<'a, U, C> Request<'a, U, C>
where
    U: Copy + PartialEq,
    C: Fn(U) -> Option<u32> + Copy,
{
    /// Takes from all members now, or from none. Members in stores answer by what is known here.
    ///
    /// `held` must be empty: it is filled in place, because to move it takes longer than to ask a limiter.
    ///
    /// # Errors
    ///
    /// The refusal of the first member that refuses, with the moment at which all would grant.
    #[inline]
    pub fn try_acquire(self, held: &mut Permits<'a>) -> Result<(), Denied> {
        match attempt(self, true) {
            Ok(taken) => self.hold(taken, held),
            Err((_, denied)) => return Err(denied.unwrap_or_else(unexplained)),
        }
        self.ask_stores(held, true)
    }

    /// [`try_acquire`](Self::try_acquire) by a caller that waits if it is refused: a refusal is not counted.
    ///
    /// # Errors
    ///
    /// The member that refused, to [wait](Self::acquire) for.
    #[inline]
    pub fn attempt(self, held: &mut Permits<'a>) -> Result<(), Refuser> {
        match attempt(self, false) {
            Ok(taken) => self.hold(taken, held),
            Err((refuser, _)) => return Err(Refuser(refuser)),
        }
        self.ask_stores(held, false)
            .map_err(|_| Refuser(self.local()))
    }

    /// Asks the members in stores by what is known here, when all others have granted.
    #[inline]
    fn ask_stores(self, held: &mut Permits<'a>, note: bool) -> Result<(), Denied> {
        for index in self.local()..self.len() {
            let Some(demand) = self.demand(index) else {
                continue;
            };
            let limiter = self.member(index).limiter();
            let answer = if note {
                limiter.try_acquire(demand)
            } else {
                limiter.attempt(demand)
            };
            match answer {
                Ok(permit) => held.push(permit),
                Err(denied) => {
                    held.undo_all();
                    return Err(if note {
                        refuse(self, index, denied)
                    } else {
                        denied
                    });
                }
            }
        }
        self.count_granted(held);
        Ok(())
    }

    /// Takes from all members, waiting where one refuses. It holds nothing while it waits for members in this process.
    /// Members in stores are asked last, one after the other, and the rest is held meanwhile.
    ///
    /// # Errors
    ///
    /// The refusal of a member that does not let it wait: at once, if it is known that the wait takes longer than the
    /// deadline allows.
    pub async fn acquire(self, refuser: Refuser, held: &mut Permits<'a>) -> Result<(), Denied> {
        if self.local() == self.len() {
            let taken = self.wait(refuser.0).await?;
            self.hold(taken, held);
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
        let taken = match attempt(self, at_once) {
            Ok(taken) => taken,
            Err((_, denied)) if at_once => return Err(denied.unwrap_or_else(unexplained)),
            Err((refuser, _)) => {
                let now = self.member(0).clock().precise_now();
                self.with(left.of(self.like(), now)).wait(refuser).await?
            }
        };
        let so_far = SoFar(held);
        self.hold(taken, so_far.0);
        for (index, like) in stores.zip(likes) {
            let Some(cost) = self.demand(index).map(Demand::cost) else {
                continue;
            };
            let demand = like.for_cost(cost);
            match self.member(index).limiter().acquire(demand).await {
                Ok(permit) => so_far.0.push(permit),
                Err(denied) => return Err(refuse(self, index, denied)),
            }
        }
        so_far.complete();
        Ok(())
    }

    /// Takes now from all members what may be used later, and says when; or takes nothing.
    ///
    /// # Errors
    ///
    /// The refusal of a member, or if it would have to be waited for longer than the deadline allows.
    pub fn reserve(self) -> Result<Reserved<'a>, Denied> {
        reserve(self)
    }

    /// What [`try_acquire`](Self::try_acquire) would answer. Takes nothing and counts nothing.
    ///
    /// # Errors
    ///
    /// The refusal it would answer.
    pub fn estimate(self) -> Result<(), Denied> {
        estimate(self)
    }

    /// Makes permits of what was taken.
    #[inline]
    pub(crate) fn hold(self, mut taken: Taken<'a>, held: &mut Permits<'a>) {
        for index in 0..self.local() {
            if let Some(permit) = taken.permit(self, index) {
                held.push(permit);
            }
        }
    }

    /// Counts the grant where a limiter was replaced by its members.
    #[inline]
    fn count_granted(self, held: &mut Permits<'a>) {
        for several in self.several() {
            several.count_granted();
            held.counted_by(several);
        }
    }
}

/// What was granted so far, undone unless the rest is granted.
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
