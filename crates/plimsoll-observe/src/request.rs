//! What is counted about one request from asking to the answer.

use std::sync::Arc;

use plimsoll::{Demand, Denied, Moment, Permit};

use crate::cells::Cell;
use crate::metrics::Meter;
use crate::span::Trail;
use crate::{MeteredPermit, Method};

/// A request that asks for a permit.
pub(crate) struct Asking<'a> {
    meter: &'a Arc<Meter>,
    method: Method,
    demand: Demand,
    waiting: Option<Waiting<'a>>,
    /// From the first moment on: nothing happens before.
    trail: Option<Trail>,
    answered: bool,
}

impl<'a> Asking<'a> {
    pub(crate) fn new(meter: &'a Arc<Meter>, method: Method, demand: Demand) -> Self {
        Self {
            meter,
            method,
            demand,
            waiting: None,
            trail: None,
            answered: false,
        }
    }

    /// Asks, inside the span of the request.
    pub(crate) fn inside<T>(&mut self, ask: impl FnOnce(Demand) -> T) -> T {
        let (meter, method, demand) = (self.meter, self.method, self.demand);
        let trail = self
            .trail
            .get_or_insert_with(|| Trail::new(&meter.name, method, demand));
        trail.inside(|| ask(demand))
    }

    /// It has to wait.
    pub(crate) fn waits(&mut self) {
        if self.waiting.is_none() && !self.answered {
            let cell = self.meter.cells.of(self.method, self.demand.class());
            self.waiting = Some(Waiting::new(self.meter, cell));
        }
    }

    /// It has its answer.
    pub(crate) fn answered(
        &mut self,
        answer: Result<Permit<'a>, Denied>,
    ) -> Result<MeteredPermit<'a>, Denied> {
        let first = !std::mem::replace(&mut self.answered, true);
        let waiting = self.waiting.take();
        let trail = self.trail.take().unwrap_or_default();
        match answer {
            Ok(permit) => {
                let waited = waiting.map(|waiting| waiting.until(permit.granted_at()));
                trail.granted(waited);
                Ok(MeteredPermit::new(self.meter, self.method, permit, trail))
            }
            Err(denied) => {
                let waited = waiting.map(|waiting| waiting.until(self.meter.clock.precise_now()));
                trail.refused(denied.reason(), waited);
                // Whoever asks a future again that is done is refused by nobody.
                if first {
                    let cell = self.meter.cells.of(self.method, self.demand.class());
                    cell.refused(denied.reason());
                }
                Err(denied)
            }
        }
    }
}

/// A request in the queue, until it is dropped.
struct Waiting<'a> {
    meter: &'a Meter,
    cell: &'a Cell,
    since: Moment,
    until: Option<Moment>,
}

impl<'a> Waiting<'a> {
    fn new(meter: &'a Meter, cell: &'a Cell) -> Self {
        cell.joins();
        Self {
            meter,
            cell,
            since: meter.clock.precise_now(),
            until: None,
        }
    }

    /// It waited until `moment`; says for how many nanoseconds.
    fn until(mut self, moment: Moment) -> u64 {
        self.until = Some(moment);
        moment.nanos_since(self.since)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let until = self.until.unwrap_or_else(|| self.meter.clock.precise_now());
        self.cell.leaves(until.nanos_since(self.since));
    }
}
