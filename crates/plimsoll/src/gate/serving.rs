//! Serving waiters, and when the clock rings for them.

use std::sync::Weak;

use super::asking::{is_for_want_of_room, peek, take};
use super::locked::{Inside, Turn};
use super::word::Core;
use crate::clock::{AlarmId, Ring, Setting};
use crate::queue::{Order, Status, Ticket};
use crate::wakeups::{BATCH, Wakeups};
use crate::{Moment, Reason, Rule};

impl<R: Rule> Turn<'_, R> {
    /// Serves waiters in the order of the queue while they fit, then refuses those whose time is over. After `most` of
    /// them, the rest is served in another turn.
    ///
    /// A waiter for several limiters is not served here but notified, and takes from all of them when all have room.
    /// The amount that the first of these waiters needs stays free for it; others are served from the remainder.
    pub(super) fn serve(&mut self, most: usize) {
        let order = self.order();
        // Before the head was due no waiter could be served: those whose time was over by then are refused, however late
        // that is noticed.
        let due = self.inside.due.min(self.now);
        while let Some(ticket) = self.inside.waiters.expired(due) {
            self.settle(ticket, Status::Refused(Reason::TimedOut));
        }
        loop {
            self.inside.due = Moment::NEVER;
            let mut reserved = 0;
            let mut next = self.inside.waiters.head(order);
            while let Some((ticket, cost)) = next
                && !self.inside.paused
            {
                if self.wakeups.has(most) {
                    // The rest is served when these are awake; until then it is simply due.
                    self.inside.due = self.now;
                    return;
                }
                next = self.inside.waiters.after(ticket, order);
                if self.inside.closed {
                    self.settle(ticket, Status::Refused(Reason::Closed));
                    continue;
                }
                // The limit has shrunk below the cost of the waiter, which would block the queue forever.
                if cost > self.rule.limit() {
                    self.settle(ticket, Status::Refused(Reason::TooLarge));
                    continue;
                }
                let several = self.inside.waiters.waits_for_several(ticket);
                let mut fits = Ok(());
                if several || reserved > 0 {
                    fits = self.fits(cost, reserved);
                }
                if !several && fits.is_ok() {
                    fits = take(self.rule, self.state, self.now, cost);
                }
                if let Err(refusal) = fits {
                    self.inside.due = refusal.ready_at;
                    break;
                }
                if !several {
                    self.settle(ticket, Status::Granted(self.stamp()));
                    continue;
                }
                let waker = self.inside.waiters.offer(ticket);
                self.wakeups.push(waker);
                if reserved == 0 && order != Order::Lifo {
                    reserved = cost;
                }
            }
            // All at once: a waiter whose time is over gains nothing when another is refused.
            let mut expired = false;
            while let Some(ticket) = self.inside.waiters.expired(self.now) {
                self.settle(ticket, Status::Refused(Reason::TimedOut));
                expired = true;
            }
            if !expired {
                return;
            }
        }
    }

    /// Ends the wait of a demand, and counts the result.
    pub(super) fn settle(&mut self, ticket: Ticket, status: Status) {
        match status {
            Status::Granted(_) => self.inside.counts.granted += 1,
            Status::Refused(reason) => {
                self.inside.counts.denied += 1;
                if let Some(learning) = self.rule.learning()
                    && is_for_want_of_room(reason)
                {
                    learning.refused();
                }
            }
            Status::Waiting => {}
        }
        self.inside.forecast.forget();
        let waker = self.inside.waiters.settle(ticket, status);
        self.wakeups.push(waker);
        self.emit_left(ticket, status);
    }
}

/// The alarm of a gate, as decided behind its lock. It is set when the lock is free. A later decision has the
/// higher version, and the clock ignores settings of lower versions.
pub(super) struct Alarm {
    pub(super) id: Option<AlarmId>,
    /// The moment at which the alarm rings, once the thread that decided on it has set it.
    pub(super) at: Moment,
    version: u64,
    /// The delay of the head of the queue, if it is served together with waiters behind it.
    batch: Option<BatchDelay>,
}

/// The time until which a waiter that is due is delayed, so that waiters behind it are served in the same batch.
#[derive(Clone, Copy)]
struct BatchDelay {
    head: Ticket,
    due: Moment,
    until: Moment,
}

impl Alarm {
    pub(super) const fn new() -> Self {
        Self {
            id: None,
            at: Moment::NEVER,
            version: 0,
            batch: None,
        }
    }
}

impl<R: Rule> Core<R> {
    /// Decides when the clock is to ring: when the next waiter is served or times out. The alarm is set once the lock
    /// is free. Only a manual clock is set at once: a caller that sees a waiter and then moves the clock finds the
    /// alarm there.
    ///
    /// On a clock that is driven, a waiter is served at the moment it is due. On the machine's clock, waking threads
    /// for each waiter would cost many times what serving it costs, so the alarm [waits for more](batch_due) of them to
    /// fall due. The `rule` computes when, unless it has just panicked. The delay that was decided for a head stays,
    /// unless the head would now be served sooner: waiters that join behind it do not delay it further, and the alarm
    /// is not set again for each of them.
    pub(super) fn decide_alarm(
        &self,
        inside: &mut Inside<R>,
        rule: Option<(&R, &R::State)>,
        now: Moment,
        wakeups: &mut Wakeups,
    ) {
        let mut at = Moment::NEVER;
        if !inside.waiters.is_empty() {
            at = inside.due;
            let exact = R::RETURNS_PERMITS || !at.is_known() || self.clock.is_driven();
            if !exact
                && let Some((rule, state)) = rule
                && let Some((head, joined)) = inside.waiters.head_joined(inside.order())
            {
                let due = at;
                let before = inside.alarm.batch;
                let before = before.filter(|it| (it.head, it.due) == (head, due));
                if due > now || before.is_some() {
                    at = batch_due(rule, state, now, (due, joined), inside.waiters.queued());
                    at = before.map_or(at, |it| it.until.min(at));
                    let until = at;
                    inside.alarm.batch = Some(BatchDelay { head, due, until });
                }
            }
            // A deadline is met until it has passed.
            at = at.min(inside.waiters.first_deadline().plus_nanos(1));
        }
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
}

/// A waiter may be delayed for its batch by its wait so far, divided by this number.
const PATIENCE: u64 = 3;

/// A batch is what waits, divided by this number.
const PART: u64 = 3;

/// The moment at which a waiter that is `due`, and has waited since it `joined`, is served together with those behind
/// it: when a third of the queue fits, but not later by more than a third of its wait so far, and never so late that
/// refill is lost.
///
/// A batch is a part of the queue, and not a span of time: callers that ask again right after each grant are then in the same batch
/// each time, and wait as long as if each were served alone.
fn batch_due<R: Rule>(
    rule: &R,
    state: &R::State,
    now: Moment,
    (due, joined): (Moment, Moment),
    queued: u64,
) -> Moment {
    let late = due.plus_nanos(due.nanos_since(joined) / PATIENCE);
    let late = late.min(rule.overflows_from(state, now));
    let part = (queued / PART).min(rule.limit());
    if late <= due || part < 2 {
        return due;
    }
    let fits = peek(rule, state, now, part).err();
    fits.map_or(due, |refusal| refusal.ready_at.min(late).max(due))
}

impl<R: Rule> Ring for Core<R> {
    fn ring(&self, now: Moment, version: u64) {
        self.enter(now, |turn| {
            let alarm = &mut turn.inside.alarm;
            if version == alarm.version {
                // It has rung: the same moment must be set again.
                alarm.at = Moment::NEVER;
            }
            turn.serve(BATCH);
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
