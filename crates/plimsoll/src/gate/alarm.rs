//! When the clock rings for a gate.

use std::sync::Weak;

use super::core::Core;
use super::inside::Inside;
use crate::clock::Ring;
use crate::{Moment, Rule};

impl<R: Rule> Core<R> {
    /// Sees to it that the clock rings at `at`. Returns whether that moment has passed already.
    pub(super) fn set_alarm(&self, inside: &mut Inside<R>, at: Moment) -> bool {
        if at == inside.alarm_at || (inside.alarm.is_none() && !at.is_known()) {
            return false;
        }
        inside.alarm_at = at;
        let alarm = *inside.alarm.get_or_insert_with(|| {
            let me: Weak<Self> = Weak::clone(&inside.me);
            self.clock.register(me)
        });
        self.clock.set(alarm, at)
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
        if R::GIVES_BACK || !due.is_known() || self.clock.is_driven() || due <= now {
            return due;
        }
        let Some(joined) = inside.waiters.head_joined(inside.order()) else {
            return due;
        };
        let late = due.plus_nanos(due.nanos_since(joined) / PATIENCE);
        late.min(rule.loses_from(state, now)).max(due)
    }
}

/// Of what it has waited, so much longer may a waiter have to wait for its company.
const PATIENCE: u64 = 6;

impl<R: Rule> Ring for Core<R> {
    fn ring(&self, now: Moment) {
        self.enter(now, |turn| {
            // It has rung: the same moment must be set anew.
            turn.inside.alarm_at = Moment::NEVER;
            turn.serve();
        });
    }
}
