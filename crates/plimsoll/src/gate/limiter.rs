use super::Gate;
use super::core::Shortly;
use crate::{
    Acquire, Clock, Demand, Denied, Grant, Limiter, Permit, Reservation, Rule, Snapshot, Source,
    Standing, Terms,
};

impl<R: Rule> Limiter for Gate<R> {
    fn try_acquire(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        Self::try_acquire(self, demand)
    }

    fn attempt(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        let core = &*self.core;
        let (now, timed) = core.start();
        if demand.cost > 0 && matches!(core.take_short(now, demand.cost), Shortly::Granted) {
            core.totals.granted();
            let grant = Grant {
                timed,
                ..demand.granted(now)
            };
            return Ok(self.permit(grant));
        }
        core.enter(now, |turn| {
            turn.take(demand)
                .map(|()| turn.inside.counts.granted += 1)
                .map_err(|refusal| core.denied(turn.rule, refusal, turn.state, turn.now))
        })?;
        Ok(self.permit(demand.granted(now)))
    }

    fn acquire(&self, demand: Demand) -> Acquire<'_> {
        Self::acquire(self, demand)
    }

    fn acquire_owned(&self, demand: Demand) -> Acquire<'static> {
        Self::acquire_owned(self, demand)
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
