//! Clients that leave at their deadline, for servers that then drop their work.

use plimsoll::Outcome;

use super::World;
use crate::job::{Event, Job, Request};

impl<'s> World<'s> {
    /// The time at which the client of a request leaves.
    fn leaves_at(&self, request: &Request) -> u64 {
        let deadline = self.simulation.deadline.saturating_add(1);
        request.arrived.saturating_add(deadline)
    }

    /// Schedules the moment at which the client of an admitted request leaves.
    pub(super) fn may_leave(&mut self, request: &Request) {
        if self.simulation.drops_late {
            let at = self.leaves_at(request).max(self.now);
            self.events.push(at, Event::Leave);
        }
    }

    pub(super) fn has_left(&self, job: &Job<'s>) -> bool {
        self.simulation.drops_late && self.leaves_at(&job.request) <= self.now
    }

    /// The time at which a worker is done with a job that would end at `end`.
    pub(super) fn last_moment(&self, job: &Job<'s>, end: u64) -> u64 {
        if self.simulation.drops_late {
            end.min(self.leaves_at(&job.request).max(self.now))
        } else {
            end
        }
    }

    /// Drops the queued jobs of clients that have left. Running jobs end by themselves at that moment.
    pub(super) fn leave(&mut self) {
        let (now, deadline) = (self.now, self.simulation.deadline);
        for index in 0..self.stations.len() {
            let late = |job: &Job<'s>| now - job.request.arrived > deadline;
            for mut job in self.stations[index].station.drop_waiting(late) {
                drop(job.inner.take());
                self.left(job);
            }
        }
    }

    /// Ends a job whose client has left and that holds no worker of its station. The limit gets no sample.
    pub(super) fn left(&mut self, mut job: Job<'s>) {
        for (station, permit) in std::mem::take(&mut job.held) {
            self.free(station, permit, Outcome::Ignore);
        }
        self.in_flight -= 1;
        job.permit.finish(Outcome::Ignore);
        let request = job.request;
        self.recorder
            .answered(request.kind, self.now - request.arrived);
        if let Some(turn) = request.turn {
            self.next_turn(turn);
        }
    }
}
