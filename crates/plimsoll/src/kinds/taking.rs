//! Asking for several weights at once: all or none.

use std::time::Duration;

use super::provider::Limited;
use super::{Demands, Permits, Provider};
use crate::demand::Patience;
use crate::{Clock, Demand, Denied, Limiter, Moment, Permit, Reason};

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
        self.take_each(&demands, None, &mut held, |limiter, demand| {
            limiter.try_acquire(demand)
        })
        .map_err(|(refuser, denied)| self.explain(refuser, denied, &demands))?;
        Ok(held)
    }

    /// Takes for all weights, waiting in the queue of the limiter that refuses. It holds nothing of the others while it
    /// waits; when its turn has come it asks them again.
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
            self.wait_for_all(refuser, &demands, &mut held).await?;
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
            Some(refuser) => crate::blocking::wait(self.wait_for_all(refuser, demands, held)),
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
        let demand = Demand {
            cost,
            ..demands.like
        };
        Some((limited, demand))
    }

    /// Takes for all now; or says who refused, for one who waits then.
    #[inline]
    pub(super) fn attempt<'a>(
        &'a self,
        demands: &Demands<'_>,
        held: &mut Permits<'a>,
    ) -> Result<Option<usize>, Denied> {
        self.check_saturation()?;
        let ask = |limiter: &'a dyn Limiter, demand| limiter.attempt(demand);
        let taken = self.take_each(demands, None, held, ask);
        Ok(taken.err().map(|(refuser, _)| refuser))
    }

    /// Takes from each limiter whose weight is asked for, or from none; the index is that of the one that refused.
    #[inline]
    fn take_each<'a>(
        &'a self,
        demands: &Demands<'_>,
        except: Option<usize>,
        held: &mut Permits<'a>,
        ask: impl Fn(&'a dyn Limiter, Demand) -> Result<Permit<'a>, Denied>,
    ) -> Result<(), (usize, Denied)> {
        for (index, limited) in self.limits.iter().enumerate() {
            let Some(demand) = demands.demand(limited.weight) else {
                continue;
            };
            if except == Some(index) {
                continue;
            }
            match ask(&*limited.limiter, demand) {
                Ok(permit) => held.push(permit),
                Err(denied) => {
                    held.undo_all();
                    return Err((index, denied));
                }
            }
        }
        Ok(())
    }

    pub(super) async fn wait_for_all<'a>(
        &'a self,
        mut refuser: usize,
        demands: &Demands<'_>,
        held: &mut Permits<'a>,
    ) -> Result<(), Denied> {
        let started = Started::at(self.limits[refuser].limiter.clock(), demands);
        self.refuse_what_is_in_vain(demands, &started)?;
        loop {
            let limited = &self.limits[refuser];
            let Some(demand) = demands.demand(limited.weight) else {
                return Ok(());
            };
            let demand = started.rest_of(demand);
            let permit = match limited.limiter.acquire(demand).await {
                Ok(permit) => permit,
                Err(denied) => return Err(self.explain(refuser, denied, demands)),
            };
            let ask = |limiter: &'a dyn Limiter, demand| limiter.attempt(demand);
            match self.take_each(demands, Some(refuser), held, ask) {
                Ok(()) => {
                    held.push(permit);
                    return Ok(());
                }
                Err((index, _)) => {
                    permit.undo();
                    refuser = index;
                }
            }
        }
    }

    /// What can never be granted, or not in time, is not waited for.
    fn refuse_what_is_in_vain(
        &self,
        demands: &Demands<'_>,
        started: &Started<'_>,
    ) -> Result<(), Denied> {
        for (index, limited) in self.limits.iter().enumerate() {
            let Some(demand) = demands.demand(limited.weight) else {
                continue;
            };
            let Err(denied) = limited.limiter.estimate(demand) else {
                continue;
            };
            if !denied.reason().is_passing() {
                return Err(self.explain(index, denied, demands));
            }
            let left = started.left(limited.limiter.clock());
            let wait = denied.retry_after();
            if left.zip(wait).is_some_and(|(left, wait)| wait > left) {
                let late = Denied::new(Reason::TimedOut)
                    .with_limit(denied.limit(), denied.remaining())
                    .with_retry_after(wait);
                let late = match denied.limiter() {
                    Some(name) => late.with_limiter(name),
                    None => late,
                };
                return Err(self.explain(index, late, demands));
            }
        }
        Ok(())
    }

    /// Completes the refusal of one: all would grant when the last of those would that refuse.
    #[cold]
    pub(super) fn explain(&self, refuser: usize, denied: Denied, demands: &Demands<'_>) -> Denied {
        let mut latest = denied.retry_after();
        for later in &self.limits[refuser + 1..] {
            if let Some(demand) = demands.demand(later.weight)
                && let Err(denied) = later.limiter.estimate(demand)
            {
                latest = latest.zip(denied.retry_after()).map(|(a, b)| a.max(b));
            }
        }
        self.limits[refuser].name_refusal(denied.with_retry_after(latest))
    }
}

/// How long a demand may still wait. Limiters may go by different clocks; a timeout runs by one of them.
struct Started<'a> {
    patience: Patience,
    clock: &'a Clock,
    at: Moment,
}

impl<'a> Started<'a> {
    fn at(clock: &'a Clock, demands: &Demands<'_>) -> Self {
        Self {
            patience: demands.like.patience,
            clock,
            at: clock.precise_now(),
        }
    }

    /// What is left of the time, for one who waits by `clock`.
    fn left(&self, clock: &Clock) -> Option<Duration> {
        match self.patience {
            Patience::Unlimited => None,
            Patience::AtOnce => Some(Duration::ZERO),
            Patience::Within(span) => {
                let gone = self.clock.precise_now().since(self.at);
                Some(span.saturating_sub(gone))
            }
            Patience::Until(deadline) => Some(deadline.since(clock.precise_now())),
        }
    }

    /// The demand, with what is left of its time.
    fn rest_of(&self, demand: Demand) -> Demand {
        match self.patience {
            Patience::Within(_) => match self.left(self.clock) {
                Some(left) => demand.within(left),
                None => demand,
            },
            Patience::Unlimited | Patience::AtOnce | Patience::Until(_) => demand,
        }
    }
}
