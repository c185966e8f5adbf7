//! The lock of a gate: the state behind it, how an operation runs under it, and what remains to be done once it is
//! free.

use std::panic::resume_unwind;
use std::sync::{Arc, Weak};

use super::events::Reported;
use super::forecast::Forecast;
use super::reserving::Bookings;
use super::resets::Resets;
use super::serving::Alarm;
use super::word::Core;
use crate::events::Sink;
use crate::queue::{Order, Queue, Waiters};
use crate::stamp::Stamp;
use crate::sync::{Ordering, lock};
use crate::unwind::{Payload, discard, isolated};
use crate::wakeups::{ALL, BATCH, Wakeups};
use crate::{Moment, Packed, Rule};

pub(super) struct Inside<R: Rule> {
    /// The gate itself, for uses that outlive a call.
    pub(super) me: Weak<Core<R>>,
    /// The state, while it is here and not in the word.
    pub(super) state: Option<R::State>,
    /// The rule that has replaced the gate's own. A gate whose limit was changed keeps its state here for good: the
    /// fast path is for limits that never change.
    pub(super) changed: Option<Arc<R>>,
    /// Whether every demand is refused.
    pub(super) closed: bool,
    /// Whether it is closed for a while, and waiters stay.
    pub(super) paused: bool,
    pub(super) resets: Resets,
    /// The latest moment seen behind the lock. Behind the lock a step back of the clock counts as no passage of time,
    /// so that a grant has the moment that the rule records.
    pub(super) latest: Moment,
    pub(super) queue: Option<Queue>,
    pub(super) waiters: Waiters,
    pub(super) bookings: Bookings,
    pub(super) forecast: Forecast<R::State>,
    /// The moment at which the head of the queue is due if nothing else happens.
    pub(super) due: Moment,
    /// Whether permits that are returned are [handed on](Core::hand_on), as the last turn left the queue. Between two
    /// turns waiters only join or are handed returned permits, which does not change this.
    pub(super) plain: bool,
    pub(super) alarm: Alarm,
    pub(super) counts: Counted,
    /// The subscribers. While there are any, the state stays here.
    pub(super) listeners: Vec<Box<dyn Sink>>,
    /// The numbers of the last event that the subscribers got.
    pub(super) reported: Reported,
}

impl<R: Rule> Inside<R> {
    pub(super) fn new(queue: Option<Queue>) -> Self {
        Self {
            me: Weak::new(),
            state: None,
            changed: None,
            closed: false,
            paused: false,
            resets: Resets::default(),
            latest: Moment::ORIGIN,
            queue,
            waiters: Waiters::default(),
            bookings: Bookings::default(),
            forecast: Forecast::nothing(),
            due: Moment::NEVER,
            plain: false,
            alarm: Alarm::new(),
            counts: Counted::default(),
            listeners: Vec::new(),
            reported: Reported::default(),
        }
    }

    pub(super) fn order(&self) -> Order {
        self.queue.map_or(Order::Fifo, |queue| queue.order)
    }
}

/// The counts of one gate: those behind its lock, and those in counters that it does not share.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Counted {
    pub(crate) granted: u64,
    /// Grants that were undone, wherever they had been counted.
    pub(crate) undone: u64,
    pub(crate) denied: u64,
    pub(crate) evicted: u64,
    pub(crate) cancelled: u64,
}

impl Counted {
    pub(crate) fn add(&mut self, other: Self) {
        self.granted += other.granted;
        self.undone += other.undone;
        self.denied += other.denied;
        self.evicted += other.evicted;
        self.cancelled += other.cancelled;
    }
}

/// The part of a gate that an operation behind the lock works on.
pub(super) struct Turn<'a, R: Rule> {
    pub(super) rule: &'a R,
    pub(super) inside: &'a mut Inside<R>,
    pub(super) state: &'a mut R::State,
    pub(super) now: Moment,
    pub(super) wakeups: &'a mut Wakeups,
}

impl<R: Rule> Turn<'_, R> {
    pub(super) fn order(&self) -> Order {
        self.inside.order()
    }

    /// The stamp of grants of this turn.
    pub(super) fn stamp(&self) -> Stamp {
        // Threads on the fast path may have seen a later time than this turn.
        let at = self.rule.recorded_at(self.state, self.now);
        self.inside.resets.stamp(at)
    }
}

/// The delay until waiters are served again after a rule has panicked.
const AGAIN_NANOS: u64 = 1_000_000_000;

impl<R: Rule> Core<R> {
    /// Runs `op` behind the lock, on the state, after all waiters that are due have been served.
    pub(super) fn enter<T>(&self, now: Moment, op: impl FnOnce(&mut Turn<'_, R>) -> T) -> T {
        self.enter_unless(now, |_| false, op)
    }

    /// The same, unless waiters that are due may wait for their alarm.
    #[inline]
    pub(super) fn enter_unless<T>(
        &self,
        now: Moment,
        puts_off: impl FnOnce(&Turn<'_, R>) -> bool,
        op: impl FnOnce(&mut Turn<'_, R>) -> T,
    ) -> T {
        let mut wakeups = Wakeups::default();
        let output = self.enter_once(now, &mut wakeups, |turn| {
            if turn.inside.due <= turn.now && !puts_off(turn) {
                turn.serve(ALL);
            }
            op(turn)
        });
        self.wake(now, &mut wakeups);
        output.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Sets the alarm, wakes the tasks that were settled, and continues to serve if there were too many for one turn,
    /// or the next waiter is due meanwhile.
    #[inline]
    pub(super) fn wake(&self, now: Moment, wakeups: &mut Wakeups) {
        if wakeups.has(BATCH) || wakeups.alarm.is_some() || wakeups.overdue {
            self.wake_many(now, wakeups);
        } else {
            wakeups.wake();
        }
    }

    #[cold]
    fn wake_many(&self, mut now: Moment, wakeups: &mut Wakeups) {
        loop {
            let mut overdue = std::mem::take(&mut wakeups.overdue);
            if let Some(alarm) = wakeups.alarm.take() {
                overdue |= self.clock.set(alarm);
            }
            let more = wakeups.has(BATCH) || overdue;
            if overdue {
                now = self.clock.precise_now();
            }
            wakeups.wake();
            if !more {
                return;
            }
            if let Err(panic) = self.enter_once(now, wakeups, |turn| turn.serve(BATCH)) {
                // The panic happened while other waiters were served: the operation of the caller is done.
                discard(panic);
            }
        }
    }

    /// Runs `op` under the lock, decides the alarm, and moves the state to where it belongs: into the word, or behind
    /// the lock. A panic of `op` is returned: tasks that were settled before it must be woken first.
    ///
    /// If `op` or the rule panics, the state stays behind the lock as the panic left it: what was taken stays taken.
    pub(super) fn enter_once<T>(
        &self,
        now: Moment,
        wakeups: &mut Wakeups,
        op: impl FnOnce(&mut Turn<'_, R>) -> T,
    ) -> Result<T, Payload> {
        let mut inside = lock(&self.inside);
        let inside = &mut *inside;
        inside.plain = false;
        inside.latest = inside.latest.max(now);
        let now = inside.latest;
        let mut state = match inside.state.take() {
            Some(state) => state,
            None => self.park(now),
        };
        // The rule is taken out while it is used, and put back unless it was replaced meanwhile.
        let mut changed = inside.changed.take();
        let done = isolated(|| {
            let output = op(&mut Turn {
                rule: changed.as_deref().unwrap_or(&self.rule),
                inside,
                state: &mut state,
                now,
                wakeups,
            });
            changed = inside.changed.take().or(changed.take());
            let rule = changed.as_deref().unwrap_or(&self.rule);
            if !inside.listeners.is_empty() {
                inside.emit_changes(rule, &state, now, wakeups);
            }
            // If more waiters are due, they are served at once, without an alarm.
            if !wakeups.has(BATCH) {
                self.decide_alarm(inside, Some((rule, &state)), now, wakeups);
            }
            let free = inside.waiters.is_empty()
                && inside.listeners.is_empty()
                && changed.is_none()
                && !inside.closed
                && !inside.resets.hold(now);
            let word = free.then(|| R::Fast::pack(&self.rule, &state, now));
            (output, word.flatten())
        });
        inside.changed = inside.changed.take().or(changed);
        match done {
            Ok((output, Some(word))) => {
                // A forecast for a state behind the lock does not hold for a state in the word.
                inside.forecast.forget();
                let epoch = self.epoch.load(Ordering::Relaxed);
                let epoch = epoch.max(now.as_nanos() >> self.epoch_bits);
                self.epoch.store(epoch, Ordering::Release);
                // Swapped, not stored: additions to a parked word are exchanges too, and in one order with this one.
                self.word.swap(word, Ordering::AcqRel);
                Ok(output)
            }
            Ok((output, None)) => {
                inside.state = Some(state);
                inside.plain = Self::HANDS_ON && inside.is_plain();
                Ok(output)
            }
            Err(panic) => {
                inside.state = Some(state);
                // Waiters are served again later: the rule may have recovered by then.
                inside.due = now.plus_nanos(AGAIN_NANOS);
                self.decide_alarm(inside, None, now, wakeups);
                Err(panic)
            }
        }
    }
}
