//! A rate that is found by asking: the quota of a partner that does not tell it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::StatusCode;
use plimsoll::{Carry, Gate, Limiter, Moment, Pausable, Quota, TokenBucket};

use super::told::Told;

/// How a rate is learned from the answers of a partner whose quota is not known: faster while it answers, slower when it
/// refuses.
///
/// It begins at a rate of yours and grows by a quarter in each second, until the partner refuses for the first time. From then
/// on a refusal takes a tenth of the rate, and answers add a hundredth of the rate at which the partner refused last, in each second
/// in which the rate is used up: what comes of it moves around the quota by about a tenth. A partner that counts in long
/// windows refuses once in each, so the rate comes down by a tenth in each of them; meanwhile the pauses keep its quota. Refusals that
/// follow each other, without a call in between that was begun after the last one and answered, are one. What is not
/// used does not grow. A refusal is an answer of 429, or of 503 with `Retry-After`; where it does not say when to come back, the
/// calls pause for a second, twice as long with each refusal that follows, up to a minute.
///
/// Where answers tell the policy (`RateLimit-Policy: "x";q=100;w=60`), the rate is nineteen twentieths of the slowest of them
/// at once, and does not grow beyond it.
///
/// ```
/// use plimsoll::Quota;
/// use plimsoll_tower::partner::LearnRate;
///
/// // Ten a second to begin with, never below one in ten seconds, never above a thousand a second.
/// let learn = LearnRate::from(Quota::per_second(10))
///     .floor(Quota::new(1, std::time::Duration::from_secs(10)))
///     .ceiling(Quota::per_second(1000));
/// # let _ = learn;
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
#[must_use]
pub struct LearnRate {
    initial: f64,
    floor: f64,
    ceiling: f64,
}

/// What a refusal leaves of the rate.
const LEFT: f64 = 0.9;
/// What a second of answers adds before the first refusal, as a part of the rate.
const FAST: f64 = 0.25;
/// What a second of answers adds later, as a part of the rate of the last refusal.
const SLOW: f64 = 0.01;
/// What is used of a quota that was told.
const TOLD: f64 = 0.95;
/// What is granted at once, as a part of a second's rate.
const BURST: f64 = 0.1;
/// The pauses after refusals that do not say when to come back.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

impl LearnRate {
    /// Not below this; a hundredth of the initial rate unless set.
    pub fn floor(mut self, floor: Quota) -> Self {
        self.floor = per_second(floor);
        self
    }

    /// Not above this; without a bound unless set.
    pub fn ceiling(mut self, ceiling: Quota) -> Self {
        self.ceiling = per_second(ceiling);
        self
    }
}

/// Begins at this rate.
impl From<Quota> for LearnRate {
    fn from(initial: Quota) -> Self {
        let initial = per_second(initial);
        Self {
            initial,
            floor: initial / 100.0,
            ceiling: f64::INFINITY,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate, not a count")]
fn per_second(quota: Quota) -> f64 {
    quota.units() as f64 / quota.period().as_secs_f64()
}

/// Learns the rate of a gate from the answers to what it has let through.
pub(super) struct Learner {
    gate: Gate<Pausable<TokenBucket>>,
    state: Mutex<State>,
}

struct State {
    learn: LearnRate,
    rate: f64,
    /// The rate that the gate has.
    applied: f64,
    /// What the partner told, or the ceiling.
    most: f64,
    /// The rate at the last refusal, if there was one.
    refused_at: Option<f64>,
    /// While refusals follow each other: when the last one came, and how long the pause after the next is.
    refusals: Option<(Moment, Duration)>,
}

impl Learner {
    pub(super) fn new(gate: Gate<Pausable<TokenBucket>>, learn: LearnRate) -> Arc<Self> {
        let rate = learn.initial.max(learn.floor).min(learn.ceiling);
        let learner = Self {
            gate,
            state: Mutex::new(State {
                learn,
                rate,
                applied: 0.0,
                most: learn.ceiling,
                refused_at: None,
                refusals: None,
            }),
        };
        learner.apply(&mut learner.lock());
        Arc::new(learner)
    }

    pub(super) fn now(&self) -> Moment {
        Limiter::clock(&self.gate).precise_now()
    }

    /// The rate that was learned, in calls per second.
    pub(super) fn rate(&self) -> f64 {
        self.lock().rate
    }

    /// Learns within other bounds from now on. What was learned stays, as far as it is within them.
    pub(super) fn change(&self, learn: LearnRate) {
        let mut state = self.lock();
        state.learn = learn;
        state.most = learn.ceiling;
        state.rate = state.rate.max(learn.floor).min(learn.ceiling);
        self.apply(&mut state);
    }

    /// The partner answered a call that began at `began`.
    pub(super) fn answered(&self, began: Moment, status: StatusCode, told: &Told) {
        let mut state = self.lock();
        state.heed(told);
        let refused = status == StatusCode::TOO_MANY_REQUESTS
            || status == StatusCode::SERVICE_UNAVAILABLE && told.retry_after.is_some();
        if refused {
            let pause = state.refused(self.now());
            if told.pause(status).is_none() {
                self.gate.pause_for(pause);
            }
        } else {
            state.accepted(began);
        }
        self.apply(&mut state);
    }

    /// Gives the gate the rate, if it is another by more than a hundredth: a change takes its lock.
    fn apply(&self, state: &mut State) {
        if (state.rate - state.applied).abs() < state.applied / 100.0 {
            return;
        }
        if let Some(rule) = bucket(state.rate) {
            state.applied = state.rate;
            self.gate.replace(Pausable::new(rule), Carry::Used);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// What the partner says of its limits.
    #[expect(clippy::cast_precision_loss, reason = "a rate, not a count")]
    fn heed(&mut self, told: &Told) {
        let learn = self.learn;
        let policies = told.limits.iter();
        let rates = policies.filter_map(|limit| {
            let window = limit.window.filter(|window| !window.is_zero())?;
            Some(limit.quota? as f64 / window.as_secs_f64() * TOLD)
        });
        if let Some(rate) = rates.min_by(f64::total_cmp) {
            self.most = rate.max(learn.floor).min(learn.ceiling);
            self.rate = self.most;
        }
    }

    /// A call was refused. Returns how long to pause if the partner does not say.
    fn refused(&mut self, now: Moment) -> Duration {
        let pause = match self.refusals {
            Some((_, pause)) => pause,
            None => {
                self.refused_at = Some(self.rate);
                self.rate = (self.rate * LEFT).max(self.learn.floor);
                PAUSE
            }
        };
        let next = pause.saturating_mul(2).min(LONGEST_PAUSE);
        self.refusals = Some((now, next));
        pause
    }

    /// A call was answered. One that began before the last refusal says nothing.
    fn accepted(&mut self, began: Moment) {
        if let Some((last, _)) = self.refusals {
            if began <= last {
                return;
            }
            self.refusals = None;
        }
        // As many answers come in a second as the rate says, if it is used up.
        let more = match self.refused_at {
            None => FAST,
            Some(rate) => SLOW * rate / self.rate,
        };
        self.rate = (self.rate + more).min(self.most);
    }
}

/// A bucket of this rate, in calls per second.
fn bucket(rate: f64) -> Option<TokenBucket> {
    let every = Duration::try_from_secs_f64(1.0 / rate).ok()?;
    let quota = Quota::try_new(1, every.max(Duration::from_nanos(1))).ok()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is not negative, and what is too large is the largest"
    )]
    let burst = (rate * BURST).ceil().max(1.0) as u64;
    TokenBucket::greedy(quota).try_burst(burst).ok()
}

impl std::fmt::Debug for Learner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Learner")
            .field("rate", &self.rate())
            .finish_non_exhaustive()
    }
}
