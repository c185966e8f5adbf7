use std::sync::Arc;

use super::Gate;
use super::core::{Core, Shortly};
use crate::{
    Acquire, Clock, Demand, Denied, Grant, Limiter, Moment, Permit, Reservation, Rule, Snapshot,
    Source, Standing, Terms,
};

impl<R: Rule> Limiter for Gate<R> {
    fn try_acquire(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        Self::try_acquire(self, demand)
    }

    #[inline]
    fn attempt(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        self.core.attempt(demand).map(|grant| self.permit(grant))
    }

    #[inline]
    fn attempt_owned(&self, demand: Demand) -> Result<Permit<'static>, Denied> {
        let grant = self.core.attempt(demand)?;
        Ok(Permit::shared(
            Arc::clone(&self.core) as _,
            grant,
            R::GIVES_BACK,
        ))
    }

    fn acquire(&self, demand: Demand) -> Acquire<'_> {
        Self::acquire(self, demand)
    }

    fn acquire_owned(&self, demand: Demand) -> Acquire<'static> {
        Self::acquire_owned(self, demand)
    }

    fn charge(&self, cost: u32) {
        Self::charge(self, cost);
    }

    fn standing(&self) -> Option<Standing> {
        Some(Self::standing(self))
    }

    fn terms(&self) -> Terms {
        Self::terms(self)
    }

    fn reserve(&self, demand: Demand) -> Result<Reservation<'_>, Denied> {
        Self::reserve(self, demand)
    }

    fn estimate(&self, demand: Demand) -> Result<(), Denied> {
        Self::estimate(self, demand)
    }

    fn snapshot(&self) -> Snapshot {
        Self::snapshot(self)
    }

    fn check_saturation(&self) -> Result<(), Denied> {
        Self::check_saturation(self)
    }

    fn close(&self) {
        Self::close(self);
    }

    fn name(&self) -> Option<&str> {
        Self::name(self)
    }

    fn clock(&self) -> &Clock {
        &self.core.clock
    }

    fn source(&self) -> &dyn Source {
        &*self.core
    }
}

impl<R: Rule> Core<R> {
    /// Takes now, by one who will wait if that is refused.
    #[inline]
    fn attempt(&self, demand: Demand) -> Result<Grant, Denied> {
        let (now, timed) = self.start();
        if demand.cost > 0 && matches!(self.take_short(now, demand.cost), Shortly::Granted) {
            self.totals.granted();
            return Ok(Grant {
                timed,
                ..demand.granted(now)
            });
        }
        self.attempt_inside(now, demand)
    }

    #[inline(never)]
    fn attempt_inside(&self, now: Moment, demand: Demand) -> Result<Grant, Denied> {
        self.enter(now, |turn| match turn.take(demand) {
            Ok(()) => {
                turn.inside.counts.granted += 1;
                Ok(demand.granted(now))
            }
            Err(refusal) => Err(self.denied(turn.rule, refusal, turn.state, turn.now)),
        })
    }
}
