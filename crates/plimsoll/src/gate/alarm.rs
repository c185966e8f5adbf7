//! When the clock rings for a gate.

use std::sync::Weak;

use super::core::Core;
use super::inside::Inside;
use crate::clock::{AlarmId, Ring, Setting};
use crate::woken::Woken;
use crate::{Moment, Rule};

/// The alarm of a gate, as decided behind its lock. It is set when the lock is free; whoever decides later has
/// the higher version, and the clock takes no notice of those who come too late.
pub(super) struct Alarm {
    pub(super) id: Option<AlarmId>,
    /// When it rings, or will as soon as whoever decided so has set it.
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
    /// Only a clock that is moved by hand is told at once: whoever sees somebody wait and then moves the clock finds
    /// the alarm there.
    pub(super) fn decide_alarm(&self, inside: &mut Inside<R>, at: Moment, woken: &mut Woken) {
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
            woken.overdue = self.clock.set(setting);
        } else {
            woken.alarm = Some(setting);
        }
    }

    /// When the next waiter is served or gives up.
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
        self.serving_at(inside, rule, state, now).min(deadline)
    }

    /// When to ring for the head of the queue.
    ///
    /// To the moment it is due, on a clock that somebody drives. On the machine's, ringing for each alone
    /// would cost more than serving it, so the bell may wait for more to fall due: by a sixth of what
    /// the head has waited, and never so long that anything is lost.
    fn serving_at(&self, inside: &Inside<R>, rule: &R, state: &R::State, now: Moment) -> Moment {
        let due = inside.due;
        if R::RETURNS_PERMITS || !due.is_known() || self.clock.is_driven() || due <= now {
            return due;
        }
        let Some(joined) = inside.waiters.head_joined(inside.order()) else {
            return due;
        };
        let late = due.plus_nanos(due.nanos_since(joined) / PATIENCE);
        late.min(rule.overflows_from(state, now)).max(due)
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
