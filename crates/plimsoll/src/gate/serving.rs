//! Serving those who wait.

use super::inside::{Turn, take};
use super::refused::is_for_want_of_room;
use crate::queue::{Status, Ticket};
use crate::woken::Woken;
use crate::{Moment, Reason, Rule};

impl<R: Rule> Turn<'_, R> {
    /// Serves everybody who can run now, then lets those give up whose time is over. A crowd is served in
    /// several goes.
    pub(super) fn serve(&mut self) {
        self.serve_until(Woken::is_full);
    }

    /// Serves everybody who can run now, however many, for a newcomer to find what they leave.
    pub(super) fn serve_all(&mut self) {
        self.serve_until(|_| false);
    }

    fn serve_until(&mut self, enough: impl Fn(&Woken) -> bool) {
        // Until the head was due nobody could be served: whose time was over by then has waited in vain, however late
        // it is noticed.
        let due = self.inside.due.min(self.now);
        while let Some(ticket) = self.inside.waiters.expired(due) {
            self.refuse(ticket, Reason::TimedOut);
        }
        loop {
            self.inside.due = Moment::NEVER;
            let all = if self.inside.waiters.any_for_several() {
                self.serve_around(&enough)
            } else {
                self.serve_heads(&enough)
            };
            if !all {
                // The rest is served when these are awake; until then it is simply due.
                self.inside.due = self.now;
                return;
            }
            // All at once: nobody whose time is over profits from another's giving up.
            let mut anybody = false;
            while let Some(ticket) = self.inside.waiters.expired(self.now) {
                self.refuse(ticket, Reason::TimedOut);
                anybody = true;
            }
            if !anybody {
                return;
            }
        }
    }

    /// Serves the head of the queue until it has to wait. Returns whether that was not too many for one turn.
    fn serve_heads(&mut self, enough: &impl Fn(&Woken) -> bool) -> bool {
        while let Some((ticket, cost)) = self.inside.waiters.head(self.order()) {
            if enough(self.woken) {
                return false;
            }
            if self.inside.closed {
                self.refuse(ticket, Reason::Closed);
                continue;
            }
            match take(self.rule, self.state, self.now, cost) {
                Ok(()) => self.grant(ticket),
                // The limit has shrunk below what it asks for: it would block the queue for ever.
                Err(_) if cost > self.rule.limit() => self.refuse(ticket, Reason::TooLarge),
                Err(refusal) => {
                    self.inside.due = refusal.ready_at;
                    break;
                }
            }
        }
        true
    }

    pub(super) fn grant(&mut self, ticket: Ticket) {
        self.inside.counts.granted += 1;
        self.settle(ticket, Status::Granted(self.stamp()));
    }

    pub(super) fn refuse(&mut self, ticket: Ticket, reason: Reason) {
        self.inside.counts.denied += 1;
        if let Some(learning) = self.rule.learning()
            && is_for_want_of_room(reason)
        {
            learning.refused();
        }
        self.settle(ticket, Status::Refused(reason));
    }

    pub(super) fn settle(&mut self, ticket: Ticket, status: Status) {
        self.inside.forecast.forget();
        let waker = self.inside.waiters.settle(ticket, status);
        self.woken.push(waker);
        self.tell_left(ticket, status.into());
    }
}
