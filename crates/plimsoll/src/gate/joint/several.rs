//! Waiters for several limiters at once, of which this gate is one.
//!
//! One who waits for several takes nothing before all of its limiters have room. Where it has reached the front, room is
//! kept free for it: others are served from what is left beside it. It is kept for one only, the oldest; all
//! gates agree on who that is, so it will be served, and then the next is the oldest. Others who wait for several are
//! notified when there is room for them, and may be passed.

use crate::gate::asking::{peek, take};
use crate::gate::locked::Turn;
use crate::queue::{Order, Ticket};
use crate::wakeups::Wakeups;
use crate::{Demand, Reason, Refusal, Rule};

impl<R: Rule> Turn<'_, R> {
    /// Whether a newcomer who may pass nobody fits beside what is kept.
    pub(in crate::gate) fn fits_beside(&self, demand: Demand) -> Result<(), Refusal> {
        let waiters = &self.inside.waiters;
        let kept = if waiters.any_for_several() {
            waiters.kept_at_least(demand.priority.class())
        } else {
            None
        };
        match kept {
            Some(kept) => self.fits(demand.cost, kept),
            None => Err(self.behind_waiters(demand)),
        }
    }

    /// What the owner of a place, or a newcomer without one, would be answered now.
    pub(in crate::gate) fn peek_from(
        &self,
        demand: Demand,
        place: Option<Ticket>,
    ) -> Result<(), Refusal> {
        let Some(ticket) = place else {
            return self.peek(demand);
        };
        self.admissible(demand)?;
        match self.inside.waiters.kept_before(ticket, self.order()) {
            Some(kept) => self.fits(demand.cost, kept),
            None => Err(self.behind_waiters(demand)),
        }
    }

    /// Whether `cost` could be taken now if `kept` had been taken before.
    fn fits(&self, cost: u64, kept: u64) -> Result<(), Refusal> {
        if kept == 0 {
            return peek(self.rule, self.state, self.now, cost);
        }
        let mut state = self.state.clone();
        take(self.rule, &mut state, self.now, kept)?;
        peek(self.rule, &state, self.now, cost)
    }

    /// Serves everybody who can run now, and tells those who wait for several that there is room. Returns whether that
    /// was not too many for one turn.
    pub(in crate::gate) fn serve_around(&mut self, enough: &impl Fn(&Wakeups) -> bool) -> bool {
        let order = self.order();
        let mut kept = 0;
        let mut next = self.inside.waiters.head(order);
        while let Some((ticket, cost)) = next {
            if enough(self.wakeups) {
                return false;
            }
            if self.inside.paused {
                break;
            }
            next = self.inside.waiters.after(ticket, order);
            if self.inside.closed {
                self.refuse(ticket, Reason::Closed);
                continue;
            }
            if cost > self.rule.limit() {
                self.refuse(ticket, Reason::TooLarge);
                continue;
            }
            if let Err(refusal) = self.fits(cost, kept) {
                self.inside.due = refusal.ready_at;
                return true;
            }
            if self.inside.waiters.waits_for_several(ticket) {
                let waker = self.inside.waiters.offer(ticket);
                self.wakeups.push(waker);
                if kept == 0 && order != Order::Lifo {
                    kept = cost;
                }
            } else {
                // It fits.
                let _taken = take(self.rule, self.state, self.now, cost);
                self.grant(ticket);
            }
        }
        true
    }
}
