//! One request of a metered limiter, from the call to the answer.

use std::sync::Arc;

use plimsoll::{Demand, Denied, Moment, Permit};

use crate::cells::Cell;
use crate::meter::Meter;
use crate::span::RequestSpan;
use crate::{MeteredPermit, Method};

/// A request without an answer yet.
pub(crate) struct PendingRequest<'a> {
    meter: &'a Arc<Meter>,
    method: Method,
    demand: Demand,
    waiting: Option<Waiting<'a>>,
    /// Opened with the first poll.
    span: Option<RequestSpan>,
    answered: bool,
}

impl<'a> PendingRequest<'a> {
    pub(crate) fn new(meter: &'a Arc<Meter>, method: Method, demand: Demand) -> Self {
        Self {
            meter,
            method,
            demand,
            waiting: None,
            span: None,
            answered: false,
        }
    }

    /// Calls the limiter inside the span of the request.
    pub(crate) fn inside<T>(&mut self, ask: impl FnOnce(Demand) -> T) -> T {
        let (meter, method, demand) = (self.meter, self.method, self.demand);
        let span = self
            .span
            .get_or_insert_with(|| RequestSpan::new(&meter.name, method, demand));
        span.inside(|| ask(demand))
    }

    /// Records that the request has to wait.
    pub(crate) fn waits(&mut self) {
        if self.waiting.is_none() && !self.answered {
            let cell = self.meter.cells.of(self.method, self.demand.priority);
            self.waiting = Some(Waiting::new(self.meter, cell));
        }
    }

    /// Records the answer to the request.
    pub(crate) fn answered(
        &mut self,
        answer: Result<Permit<'a>, Denied>,
    ) -> Result<MeteredPermit<'a>, Denied> {
        let first = !std::mem::replace(&mut self.answered, true);
        let waiting = self.waiting.take();
        let span = self.span.take().unwrap_or_default();
        match answer {
            Ok(permit) => {
                let waited = waiting.map(|waiting| waiting.until(permit.granted_at()));
                span.granted(waited);
                Ok(MeteredPermit::new(self.meter, self.method, permit, span))
            }
            Err(denied) => {
                let waited = waiting.map(|waiting| waiting.until(self.meter.clock.precise_now()));
                span.refused(denied.reason(), waited);
                // A future that is polled again after its answer is not refused again.
                if first {
                    let cell = self.meter.cells.of(self.method, self.demand.priority);
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

    /// Ends the wait at `moment`, and returns its nanoseconds.
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
