//! Changing a gate: its rule, its limit, its queue, a fresh start, and its end.

use std::sync::Arc;
use std::time::Duration;

use super::Gate;
use super::locked::Turn;
use super::word::Core;
use crate::stamp::Stamp;
use crate::sync::Ordering;
use crate::wakeups::BATCH;
use crate::{Carry, Clock, Concurrency, InvalidLimit, Moment, Queue, Rule};

impl<R: Rule> Gate<R> {
    /// Replaces the rule, and serves the waiters that fit the new limit. [`Carry`] sets how usage is carried over.
    ///
    /// After that, every decision takes the lock: the fast path is for rules that never change. A limit whose permits
    /// are returned is [resized](Gate::resize) instead; replacing its rule is a compile-time error.
    ///
    /// ```
    /// use plimsoll::{Carry, Gate, ManualClock, TokenBucket};
    ///
    /// let gate = Gate::builder(TokenBucket::per_second(10)).clock(ManualClock::new().clock()).build();
    /// gate.try_acquire(5)?;
    /// // Half of the old limit is used, so half of the new one is.
    /// gate.replace(TokenBucket::per_second(100), Carry::Proportional);
    /// assert_eq!(gate.snapshot().available(), 50);
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    pub fn replace(&self, rule: R, carry: Carry) {
        const {
            assert!(
                !R::RETURNS_PERMITS,
                "a limit whose permits are returned is resized, not replaced"
            )
        };
        self.replace_rule(rule, self.core.clock.precise_now(), carry, None);
    }

    /// Like [`replace`](Self::replace), for rules of which it is not known whether their permits are returned. If that
    /// begins a new state, `start` is its stamp.
    pub(crate) fn replace_rule(
        &self,
        mut rule: R,
        now: Moment,
        carry: Carry,
        start: Option<Stamp>,
    ) {
        self.change_at(now, |turn| {
            if !rule.keeps_grants(carry) {
                turn.read_again(&self.core.clock);
                let late = self.core.clock.late();
                let discards = carry == Carry::Reset;
                (turn.inside.resets).reset(turn.now, late, start, discards);
            }
            if matches!(carry, Carry::Proportional | Carry::Reset) {
                turn.inside.bookings.clear();
            }
            rule.begin(turn.now);
            *turn.state = rule.adopt(turn.rule, turn.state, turn.now, carry);
            turn.inside.changed = Some(Arc::new(rule));
        });
    }

    /// Asks the rule again, and serves the waiters that fit. For [custom rules](Rule) with an answer that depends on
    /// more than time and usage, such as a measurement: call it when that changes.
    pub fn recheck(&self) {
        self.core.enter(self.core.clock.precise_now(), |turn| {
            turn.inside.forecast.forget();
            turn.serve(BATCH);
        });
    }

    /// Makes `amount` more permits available, at most up to the limit, and serves waiters.
    ///
    /// It does nothing on a limit whose permits are returned.
    ///
    /// ```
    /// use plimsoll::{Gate, ManualClock, TokenBucket};
    ///
    /// let gate = Gate::builder(TokenBucket::per_second(5)).clock(ManualClock::new().clock()).build();
    /// gate.try_acquire(5)?;
    /// gate.add(2); // such as for requests that failed through no fault of the caller
    /// assert_eq!(gate.snapshot().available(), 2);
    /// gate.add(100);
    /// assert_eq!(gate.snapshot().available(), 5);
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    pub fn add(&self, amount: u64) {
        self.change(|turn| turn.rule.add(turn.state, turn.now, amount));
    }

    /// Resets the state to that of a new gate. Waiters stay in the queue, or are served.
    ///
    /// It does nothing on a limit whose permits are returned: the permits in use still count.
    ///
    /// ```
    /// use plimsoll::{Gate, TokenBucket};
    ///
    /// let gate = Gate::new(TokenBucket::per_second(5));
    /// gate.try_acquire(5)?;
    /// gate.reset();
    /// assert!(gate.try_acquire(5).is_ok());
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    pub fn reset(&self) {
        self.change(|turn| {
            turn.read_again(&self.core.clock);
            *turn.state = turn.rule.fresh(turn.now);
            turn.reset(self.core.clock.late());
        });
    }

    /// Sets the bound of the queue. Current waiters stay. Without a queue it does nothing.
    ///
    /// With a bound of 0 no further demand joins the queue.
    pub fn set_queue_bound(&self, bound: u64) {
        self.core.enter(self.core.clock.precise_now(), |turn| {
            if let Some(queue) = &mut turn.inside.queue {
                queue.bound = bound;
            }
        });
    }

    /// Replaces or removes the queue. Current waiters stay, and are served in the new order.
    ///
    /// ```
    /// use plimsoll::{Concurrency, Gate, Queue};
    ///
    /// let gate = Gate::new(Concurrency::new(1));
    /// gate.set_queue(Some(Queue::lifo(10)));
    /// assert_eq!(gate.snapshot().queue_bound(), 10);
    /// gate.set_queue_bound(5);
    /// assert_eq!(gate.snapshot().queue_bound(), 5);
    /// gate.set_queue(None);
    /// assert_eq!(gate.snapshot().queue_bound(), 0);
    /// ```
    pub fn set_queue(&self, queue: Option<Queue>) {
        let patient = queue.is_none_or(|queue| queue.timeout.is_none());
        self.core.enter(self.core.clock.precise_now(), |turn| {
            turn.inside.queue = queue;
            turn.inside.forecast.forget();
            self.core.patient.store(patient, Ordering::Relaxed);
            turn.serve(BATCH);
        });
    }

    /// Closes the gate: all waiters and all later demands are refused with [`Reason::Closed`](crate::Reason::Closed).
    /// Permits in use can still be returned. Use it to shut down: new work is refused, and running work finishes. A
    /// closed gate stays closed.
    ///
    /// ```
    /// use plimsoll::{Concurrency, Gate, Reason};
    ///
    /// let gate = Gate::new(Concurrency::new(10));
    /// let running = gate.try_acquire(1)?;
    /// gate.close();
    /// assert_eq!(gate.try_acquire(1).unwrap_err().reason(), Reason::Closed);
    /// drop(running);
    /// assert_eq!(gate.snapshot().in_use(), 0);
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    pub fn close(&self) {
        self.core.close();
    }

    /// Stops granting until [`resume`](Self::resume): demands are refused with
    /// [`Reason::Closed`](crate::Reason::Closed), and waiters stay. Nothing is granted after this returns, so that
    /// another limiter can continue from the state.
    #[doc(hidden)]
    pub fn pause(&self) {
        self.core.enter(self.core.clock.precise_now(), |turn| {
            (turn.inside.closed, turn.inside.paused) = (true, true);
        });
    }

    /// Ends a [pause](Self::pause), and serves the waiters that fit.
    #[doc(hidden)]
    pub fn resume(&self) {
        let core = &self.core;
        core.enter(core.clock.precise_now(), |turn| {
            turn.inside.paused = false;
            turn.inside.closed = core.closed.load(Ordering::Relaxed);
            turn.serve(BATCH);
        });
    }

    /// Changes what the rule stores outside of the state, and serves the waiters accordingly.
    pub(crate) fn change_rule(&self, change: impl FnOnce(&R)) {
        self.change_at(self.core.clock.precise_now(), |turn| change(turn.rule));
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Turn<'_, R>)) {
        if !R::RETURNS_PERMITS {
            self.change_at(self.core.clock.precise_now(), change);
        }
    }

    fn change_at(&self, now: Moment, change: impl FnOnce(&mut Turn<'_, R>)) {
        self.core.enter(now, |turn| {
            change(turn);
            turn.inside.forecast.forget();
        });
        // In a turn of its own, by the rule that holds then.
        self.core.enter(now, |turn| turn.serve(BATCH));
    }
}

impl Gate<Concurrency> {
    /// Sets the limit. A larger limit serves waiters; a smaller one takes effect as permits are returned.
    ///
    /// ```
    /// use plimsoll::{Concurrency, Gate};
    ///
    /// let gate = Gate::new(Concurrency::new(4));
    /// let permits = gate.try_acquire(4)?;
    /// gate.resize(2)?;
    /// assert_eq!((gate.snapshot().limit(), gate.snapshot().in_use()), (2, 4));
    /// drop(permits);
    /// assert_eq!(gate.snapshot().available(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if `limit` is 0.
    pub fn resize(&self, limit: u64) -> Result<(), InvalidLimit> {
        let _valid = Concurrency::try_new(limit)?;
        self.core.enter(self.core.clock.precise_now(), |turn| {
            turn.rule.resize(turn.state, limit);
            turn.serve(BATCH);
        });
        Ok(())
    }
}

impl<R: Rule> Core<R> {
    pub(super) fn close(&self) {
        self.enter(self.clock.precise_now(), |turn| {
            (turn.inside.closed, turn.inside.paused) = (true, false);
            self.closed.store(true, Ordering::Relaxed);
            turn.serve(BATCH);
        });
    }
}

impl<R: Rule> Turn<'_, R> {
    /// Reads the clock again: whatever was granted on the fast path until now was granted at an earlier reading.
    fn read_again(&mut self, clock: &Clock) {
        self.now = self.inside.latest.max(clock.precise_now());
        self.inside.latest = self.now;
    }

    /// Forgets what was taken so far, on a clock that may be late by `late`.
    pub(super) fn reset(&mut self, late: Duration) {
        self.inside.bookings.clear();
        self.inside.resets.reset(self.now, late, None, true);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use crate::{Clock, Gate, LimiterExt, ManualClock, Moment, Quota, SlidingLog, SlidingWindow};

    fn at(nanos: u64) -> Moment {
        Moment::from_nanos(nanos)
    }

    /// A caller that read the clock before others, and gets the lock after them, has an earlier moment than they have.
    /// Regression test: its permit carried that moment, while the rule had recorded another.
    #[test]
    fn a_permit_carries_the_moment_at_which_the_rule_recorded_it() {
        let time = ManualClock::starting_at(at(100));
        let quota = Quota::new(10, Duration::from_nanos(50));
        let log = Gate::builder(SlidingLog::new(quota)).clock(time.clock());
        let log = log.build();
        let first = log.try_acquire(3).unwrap();
        let late = log.core.take_locked(at(90), 2.into()).unwrap().narrow();
        assert_eq!(late.at, at(100));
        let second = log.permit(late.grant(2.into())).in_era(late.era);
        // Each undoes its own grant, and only that.
        second.undo();
        assert_eq!(log.snapshot().in_use(), 3);
        first.undo();
        assert_eq!(log.snapshot().in_use(), 0);

        let window = Gate::builder(SlidingWindow::new(quota, 5)).clock(time.clock());
        let window = window.build();
        time.advance_to(at(149));
        window.try_acquire(1).unwrap().forget();
        let late = window.core.take_locked(at(120), 4.into()).unwrap().narrow();
        window.permit(late.grant(4.into())).undo();
        assert_eq!(window.snapshot().in_use(), 1);
    }

    /// The default clock has two readings, one of which may be late.
    #[test]
    fn what_is_taken_by_the_late_reading_is_undone_exactly() {
        let quota = Quota::new(10, Duration::from_secs(3600));
        let log = Gate::builder(SlidingLog::new(quota)).clock(Clock::system());
        let log = log.build();
        for _ in 0..200 {
            let precise = log.take_up_to(2);
            let late = log.try_acquire(3).unwrap();
            assert!(late.granted_at() >= precise.granted_at());
            let attempted = LimiterExt::attempt(&log, 4.into()).unwrap();
            late.undo();
            attempted.undo();
            precise.undo();
            assert_eq!(log.snapshot().in_use(), 0);
        }
    }
}

/// Every interleaving of a reset with takes on the fast path that are undone.
#[cfg(all(test, loom))]
mod model {
    use std::time::Duration;

    use loom::thread;

    use crate::{FixedWindow, Gate, ManualClock, Quota};

    #[test]
    fn a_reset_divides_what_can_be_undone_from_what_cannot() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = builder.preemption_bound.or(Some(3));
        builder.check(|| {
            let quota = Quota::new(4, Duration::from_secs(1));
            let gate = Gate::builder(FixedWindow::new(quota))
                .clock(ManualClock::new().clock())
                .totals(false)
                .build();
            let other = gate.clone();
            let undoing = thread::spawn(move || {
                if let Ok(permit) = other.try_acquire(1) {
                    permit.undo();
                }
            });
            gate.reset();
            gate.try_acquire(3).unwrap().forget();
            undoing.join().unwrap();
            // The cost is refunded exactly once, whether it was taken before or after the reset.
            assert_eq!(gate.snapshot().available(), 1);
        });
    }
}
