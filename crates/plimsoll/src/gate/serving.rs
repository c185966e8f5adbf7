//! Serving waiters, and when the clock rings for them.

use std::sync::Weak;

use super::asking::{is_for_want_of_room, take};
use super::locked::{Inside, Turn};
use super::word::Core;
use crate::clock::{AlarmId, Ring, Setting};
use crate::queue::{Status, Ticket};
use crate::wakeups::Wakeups;
use crate::{Moment, Reason, Rule};

impl<R: Rule> Turn<'_, R> {
    /// Serves all waiters that fit now, then refuses those whose time is over. Many waiters are served in several turns.
    pub(super) fn serve(&mut self) {
        self.serve_until(Wakeups::is_full);
    }

    /// Serves all waiters that fit now, however many, before a new demand is decided.
    pub(super) fn serve_all(&mut self) {
        self.serve_until(|_| false);
    }

    fn serve_until(&mut self, enough: impl Fn(&Wakeups) -> bool) {
        // Before the head was due no waiter could be served: those whose time was over by then are refused, however late
        // that is noticed.
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
            // All at once: a waiter whose time is over gains nothing when another is refused.
            let mut expired = false;
            while let Some(ticket) = self.inside.waiters.expired(self.now) {
                self.refuse(ticket, Reason::TimedOut);
                expired = true;
            }
            if !expired {
                return;
            }
        }
    }

    /// Serves the head of the queue until it has to wait. Returns whether that was not too many for one turn.
    fn serve_heads(&mut self, enough: &impl Fn(&Wakeups) -> bool) -> bool {
        while let Some((ticket, cost)) = self.inside.waiters.head(self.order()) {
            if enough(self.wakeups) {
                return false;
            }
            if self.inside.paused {
                break;
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
        self.wakeups.push(waker);
        self.emit_left(ticket, status.into());
    }
}

/// The alarm of a gate, as decided behind its lock. It is set when the lock is free. A later decision has the
/// higher version, and the clock ignores settings of lower versions.
pub(super) struct Alarm {
    pub(super) id: Option<AlarmId>,
    /// When it rings, or will as soon as the thread that decided so has set it.
    pub(super) at: Moment,
    version: u64,
}

impl Alarm {
    pub(super) const fn new() -> Self {
        Self {
            id: None,
            at: Moment::NEVER,
            version: 0,
        }
    }
}

impl<R: Rule> Core<R> {
    /// Decides that the clock is to ring at `at`, which is left to do once the lock is free.
    ///
    /// Only a manual clock is set at once: a caller that sees a waiter and then moves the clock finds the alarm there.
    pub(super) fn decide_alarm(&self, inside: &mut Inside<R>, at: Moment, wakeups: &mut Wakeups) {
        let alarm = &mut inside.alarm;
        if at == alarm.at || (alarm.id.is_none() && !at.is_known()) {
            return;
        }
        alarm.at = at;
        alarm.version += 1;
        let id = *alarm.id.get_or_insert_with(|| {
            let me: Weak<Self> = Weak::clone(&inside.me);
            self.clock.register(me)
        });
        let setting = Setting {
            alarm: id,
            at,
            version: alarm.version,
        };
        if self.clock.is_moved_by_hand() {
            wakeups.overdue = self.clock.set(setting);
        } else {
            wakeups.alarm = Some(setting);
        }
    }

    /// When the clock is to ring: when the next waiter is served or gives up.
    ///
    /// On a clock that is driven, a waiter is served to the moment it is due. On the machine's, ringing for each
    /// alone would cost more than serving it, so the alarm may wait for more to fall due: by a sixth of what the head of
    /// the queue has waited, and never so long that anything is lost.
    pub(super) fn ringing_at(
        &self,
        inside: &Inside<R>,
        rule: &R,
        state: &R::State,
        now: Moment,
    ) -> Moment {
        if inside.waiters.is_empty() {
            return Moment::NEVER;
        }
        // A deadline is met until it has passed.
        let deadline = inside.waiters.first_deadline().plus_nanos(1);
        let due = inside.due;
        let exact = R::RETURNS_PERMITS || !due.is_known() || self.clock.is_driven() || due <= now;
        match inside.waiters.head_joined(inside.order()) {
            Some(joined) if !exact => {
                let late = due.plus_nanos(due.nanos_since(joined) / PATIENCE);
                let late = late.min(rule.overflows_from(state, now)).max(due);
                late.min(deadline)
            }
            _ => due.min(deadline),
        }
    }
}

/// Of what it has waited, so much longer may a waiter have to wait for its company.
const PATIENCE: u64 = 6;

impl<R: Rule> Ring for Core<R> {
    fn ring(&self, now: Moment, version: u64) {
        self.enter(now, |turn| {
            let alarm = &mut turn.inside.alarm;
            if version == alarm.version {
                // It has rung: the same moment must be set anew.
                alarm.at = Moment::NEVER;
            }
            turn.serve();
        });
    }
}
