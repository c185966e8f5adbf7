use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::learning::Learning;
use crate::rule::{Carry, Refusal, Rule, Unpacked};
use crate::{Gate, Moment};

/// A rule that can be paused: until the end of a pause it grants nothing, even if the inner rule would.
///
/// A [gate](Gate::pause_until) that is paused keeps its waiters, and its counts stay as they are. Pauses do not add up:
/// the latest end counts, and no pause ends another one early.
///
/// # When to use it
///
/// For a client that a service has asked to slow down, by a `Retry-After` field or a status such as 429 or 503. A pause
/// holds back all callers of the limit. To stop for good, [`close`](Gate::close) the gate.
///
/// ```
/// use plimsoll::{Gate, ManualClock, Pausable, Queue, TokenBucket};
/// use std::time::Duration;
///
/// let time = ManualClock::new();
/// let partner = Gate::builder(Pausable::new(TokenBucket::per_second(10))).clock(time.clock()).build();
/// // Two answers said `Retry-After`, 30 and 20 seconds.
/// partner.pause_for(Duration::from_secs(30));
/// partner.pause_for(Duration::from_secs(20));
///
/// let denied = partner.try_acquire(1).unwrap_err();
/// assert_eq!(denied.retry_after(), Some(Duration::from_secs(30)));
/// time.advance(Duration::from_secs(30));
/// assert!(partner.try_acquire(1).is_ok());
/// ```
///
/// The state of the gate stays behind its lock, so a decision is as fast as that of a rule that is not
/// [packed](crate::Packed). Clones share the pause, so that all keys of a [`Keyed`](crate::Keyed) limit pause together.
#[derive(Clone, Debug)]
pub struct Pausable<R> {
    rule: R,
    /// The end of the pause, in nanoseconds.
    until: Arc<AtomicU64>,
}

impl<R: Rule> Pausable<R> {
    /// Wraps `rule`, without a pause.
    pub fn new(rule: R) -> Self {
        Self {
            rule,
            until: Arc::default(),
        }
    }

    /// Returns the inner rule.
    pub const fn rule(&self) -> &R {
        &self.rule
    }

    /// Grants nothing before `until`, on the clock of the limiter. A moment before the end of another pause has no
    /// effect.
    ///
    /// Prefer [`Gate::pause_until`] for a gate: it also corrects the retry times of refusals while demands wait.
    pub fn pause_until(&self, until: Moment) {
        self.until.fetch_max(until.as_nanos(), Ordering::AcqRel);
    }

    /// Returns the end of the current or latest pause.
    ///
    /// ```
    /// use plimsoll::{Moment, Pausable, TokenBucket};
    ///
    /// let rule = Pausable::new(TokenBucket::per_second(10));
    /// rule.pause_until(Moment::from_nanos(500));
    /// rule.pause_until(Moment::from_nanos(200)); // no pause ends another one early
    /// assert_eq!(rule.paused_until(), Moment::from_nanos(500));
    /// ```
    #[must_use]
    pub fn paused_until(&self) -> Moment {
        Moment::from_nanos(self.until.load(Ordering::Acquire))
    }

    /// The refusal of a demand during a pause.
    fn paused(&self, state: &R::State, now: Moment, cost: u64) -> Option<Refusal> {
        let until = self.paused_until();
        if now >= until {
            return None;
        }
        Some(match self.rule.peek(state, until, cost) {
            Ok(()) => Refusal::until(until),
            Err(refusal) => refusal,
        })
    }
}

impl<R: Rule> Gate<Pausable<R>> {
    /// Grants nothing before `until`, on the clock of the gate. Waiters stay in the queue. See [`Pausable`].
    ///
    /// ```
    /// use plimsoll::{Concurrency, Gate, ManualClock, Pausable};
    /// use std::time::Duration;
    ///
    /// let time = ManualClock::new();
    /// let gate = Gate::builder(Pausable::new(Concurrency::new(2))).clock(time.clock()).build();
    /// gate.pause_until(time.clock().now().plus(Duration::from_secs(1)));
    /// assert!(gate.try_acquire(1).is_err());
    /// ```
    pub fn pause_until(&self, until: Moment) {
        self.change_rule(|rule| rule.pause_until(until));
    }

    /// Like [`pause_until`](Self::pause_until), for `span` from now.
    ///
    /// Use it for responses with a time to wait, such as a `Retry-After` field in seconds.
    pub fn pause_for(&self, span: Duration) {
        self.pause_until(self.precise_now().plus(span));
    }
}

impl<R: Rule> Rule for Pausable<R> {
    type State = R::State;
    type Fast = Unpacked;

    const RETURNS_PERMITS: bool = R::RETURNS_PERMITS;
    const EXACT_REFUNDS: bool = R::EXACT_REFUNDS;
    const REMEMBERS_REFUSALS: bool = R::REMEMBERS_REFUSALS;

    fn limit(&self) -> u64 {
        self.rule.limit()
    }

    fn fresh(&self, now: Moment) -> R::State {
        self.rule.fresh(now)
    }

    fn take(&self, state: &mut R::State, now: Moment, cost: u64) -> Result<(), Refusal> {
        match self.paused(state, now, cost) {
            Some(refusal) => Err(refusal),
            None => self.rule.take(state, now, cost),
        }
    }

    fn available(&self, state: &R::State, now: Moment) -> u64 {
        match now >= self.paused_until() {
            true => self.rule.available(state, now),
            false => 0,
        }
    }

    fn refund(&self, state: &mut R::State, now: Moment, taken: Moment, cost: u64) {
        self.rule.refund(state, now, taken, cost);
    }

    fn full_at(&self, state: &R::State, now: Moment) -> Option<Moment> {
        let full_at = self.rule.full_at(state, now)?;
        Some(full_at.max(self.paused_until()))
    }

    fn peek(&self, state: &R::State, now: Moment, cost: u64) -> Result<(), Refusal> {
        match self.paused(state, now, cost) {
            Some(refusal) => Err(refusal),
            None => self.rule.peek(state, now, cost),
        }
    }

    fn in_use(&self, state: &R::State, now: Moment) -> u64 {
        self.rule.in_use(state, now)
    }

    fn begin(&mut self, start: Moment) {
        self.rule.begin(start);
    }

    fn fresh_key(&self, now: Moment) -> R::State {
        self.rule.fresh_key(now)
    }

    fn evictable_from(&self, state: &R::State, now: Moment) -> Option<Moment> {
        self.rule.evictable_from(state, now)
    }

    fn recorded_at(&self, state: &R::State, now: Moment) -> Moment {
        self.rule.recorded_at(state, now)
    }

    fn refused(&self, state: &mut R::State, now: Moment, cost: u64, refusal: Refusal) -> Refusal {
        // The caller did not cause a pause.
        match now >= self.paused_until() {
            true => self.rule.refused(state, now, cost, refusal),
            false => refusal,
        }
    }

    fn remaining(&self, state: &R::State, now: Moment) -> u64 {
        self.rule.remaining(state, now)
    }

    fn book(&self, state: &R::State, now: Moment, cost: u64) -> Option<(R::State, Moment)> {
        let (state, ready_at) = self.rule.book(state, now, cost)?;
        Some((state, ready_at.max(self.paused_until())))
    }

    fn charge(&self, state: &mut R::State, now: Moment, cost: u64) {
        self.rule.charge(state, now, cost);
    }

    fn settle(&self, state: &mut R::State, now: Moment, taken: Moment, costs: (u64, u64)) {
        self.rule.settle(state, now, taken, costs);
    }

    fn add(&self, state: &mut R::State, now: Moment, amount: u64) {
        self.rule.add(state, now, amount);
    }

    fn window(&self, now: Moment) -> Option<Duration> {
        self.rule.window(now)
    }

    fn adopt(&self, old: &Self, state: &R::State, now: Moment, carry: Carry) -> R::State {
        self.pause_until(old.paused_until());
        self.rule.adopt(&old.rule, state, now, carry)
    }

    fn keeps_grants(&self, carry: Carry) -> bool {
        self.rule.keeps_grants(carry)
    }

    fn has_one_limit(&self) -> bool {
        self.rule.has_one_limit()
    }

    fn longest_wait(&self) -> Option<Duration> {
        self.rule.longest_wait()
    }

    fn learning(&self) -> Option<&dyn Learning<R::State>> {
        self.rule.learning()
    }
}
