//! Asking for several weights at once: all or none.

use super::provider::Limited;
use super::{Demands, Permits, Provider, Weight};
use crate::together::{Refuser, Request, block_on};
use crate::{Demand, Denied};

impl Provider {
    /// Takes for all weights now, or for none. Never waits.
    ///
    /// # Errors
    ///
    /// The refusal of the first limiter that refuses, with the moment at which all would grant.
    #[inline]
    pub fn try_acquire<'d>(&self, demands: impl Into<Demands<'d>>) -> Result<Permits<'_>, Denied> {
        let demands = demands.into();
        self.check_saturation()?;
        let mut held = Permits::new();
        self.asked(&demands).try_acquire(&mut held)?;
        Ok(held)
    }

    /// Takes for all weights, waiting in the queue of the limiter that refuses. It holds nothing while it waits; when its
    /// turn has come it asks the others again. See [`All`](crate::All#waiting).
    ///
    /// A limiter without a queue is not waited for. What it can promise for later is to be had by
    /// [`reserve`](Self::reserve), and waited for with [`Reserved::wait_blocking`](super::Reserved::wait_blocking).
    ///
    /// Nothing happens before the first poll. Dropping the future leaves the queue at once.
    ///
    /// # Errors
    ///
    /// The refusal of one that does not let it wait: at once, if it is known that the wait takes longer than the demand
    /// is willing to.
    pub async fn acquire<'d>(
        &self,
        demands: impl Into<Demands<'d>>,
    ) -> Result<Permits<'_>, Denied> {
        let demands = demands.into();
        let mut held = Permits::new();
        if let Some(refuser) = self.attempt(&demands, &mut held)? {
            self.asked(&demands).acquire(refuser, &mut held).await?;
        }
        Ok(held)
    }

    /// [`acquire`](Self::acquire), blocking the thread while it waits. For threads outside of async runtimes; bound the
    /// wait with [`Demands::within`].
    ///
    /// # Errors
    ///
    /// See [`acquire`](Self::acquire).
    pub fn acquire_blocking<'d>(
        &self,
        demands: impl Into<Demands<'d>>,
    ) -> Result<Permits<'_>, Denied> {
        let mut held = Permits::new();
        self.take_blocking(&demands.into(), &mut held)?;
        Ok(held)
    }

    /// [`acquire_blocking`](Self::acquire_blocking), into a place that is there already.
    #[inline]
    pub(super) fn take_blocking<'a>(
        &'a self,
        demands: &Demands<'_>,
        held: &mut Permits<'a>,
    ) -> Result<(), Denied> {
        match self.attempt(demands, held)? {
            Some(refuser) => block_on(self.asked(demands).acquire(refuser, held)),
            None => Ok(()),
        }
    }

    /// The limiter that is asked, if it is the only one: the common case, and permits need no list then.
    #[inline]
    pub(super) fn only(&self, demands: &Demands<'_>) -> Option<(&Limited, Demand)> {
        let mut asked = self.limits.iter().filter_map(|limited| {
            let cost = demands.cost(limited.weight)?;
            Some((limited, cost))
        });
        let (limited, cost) = asked.next()?;
        if asked.next().is_some() {
            return None;
        }
        Some((limited, demands.like.for_cost(cost)))
    }

    /// Takes for all now; or says who refused, for a caller that waits then.
    #[inline]
    fn attempt<'a>(
        &'a self,
        demands: &Demands<'_>,
        held: &mut Permits<'a>,
    ) -> Result<Option<Refuser>, Denied> {
        self.check_saturation()?;
        let asked = self.asked(demands);
        if demands.like.is_at_once() {
            return asked.try_acquire(held).map(|()| None);
        }
        if self.group.is_remote() {
            // A member in a store is asked when all others have granted.
            return Ok(Some(Refuser::STORE));
        }
        Ok(asked.attempt(held).err())
    }

    /// What is asked of the limiters.
    #[inline]
    pub(super) fn asked<'a, 'd>(
        &'a self,
        demands: &'d Demands<'_>,
    ) -> Request<'a, Weight, impl Fn(Weight) -> Option<u32> + Copy + use<'d>> {
        let costs = *demands;
        self.group
            .ask(demands.like, move |weight| costs.cost(weight))
    }
}
