//! Learning of the rate of an upstream that does not report its quota.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::StatusCode;
use plimsoll::{Carry, Gate, Limiter, Moment, Pausable, Quota, TokenBucket};

use super::upstream::UpstreamLimits;

/// Settings for [learning](super::PartnerLayer::learn_rate) the rate of an upstream whose quota is unknown. The rate rises
/// while the upstream accepts calls, and falls when it refuses.
///
/// The rate starts at the initial rate and grows by a quarter per second, until the upstream refuses for the first time. From
/// then on, each refusal reduces the rate by a tenth, and each second in which the rate is used up adds a hundredth of the rate
/// at the last refusal. The rate then oscillates around the quota by about a tenth. An upstream that counts in long windows
/// refuses once in each window, which reduces the rate by a tenth per window; meanwhile the pauses keep to its quota.
///
/// - Consecutive refusals count as one, until a call that started after the last of them is accepted.
/// - A rate that is not used up does not grow.
/// - A refusal is a response with 429, or with 503 and `Retry-After`. If it does not say when to retry, calls pause for
///   a second. The pause doubles with each consecutive refusal, up to a minute.
/// - If responses report the policy (`RateLimit-Policy: "x";q=100;w=60`), the rate becomes nineteen twentieths of the slowest
///   policy at once, and does not grow beyond it.
///
/// ```
/// use plimsoll::Quota;
/// use plimsoll_tower::partner::LearnRate;
///
/// // 10 per second at first, at least one in ten seconds, at most 1000 per second.
/// let learn = LearnRate::from(Quota::per_second(10))
///     .min(Quota::new(1, std::time::Duration::from_secs(10)))
///     .max(Quota::per_second(1000));
/// # let _ = learn;
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
#[must_use]
pub struct LearnRate {
    initial: f64,
    min: f64,
    max: f64,
}

/// The factor of the rate after a refusal.
const LEFT: f64 = 0.9;
/// The growth per second before the first refusal, as a part of the rate.
const FAST: f64 = 0.25;
/// The growth per second after a refusal, as a part of the rate at the last refusal.
const SLOW: f64 = 0.01;
/// The part of a reported quota that is used.
const USED_OF_QUOTA: f64 = 0.95;
/// The burst, as a part of the units per second.
const BURST: f64 = 0.1;
/// The pauses after refusals without a time to retry.
const PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(60);

impl LearnRate {
    /// Sets the minimum rate. Default: a hundredth of the initial rate.
    pub fn min(mut self, min: Quota) -> Self {
        self.min = per_second(min);
        self
    }

    /// Sets the maximum rate. Default: none.
    pub fn max(mut self, max: Quota) -> Self {
        self.max = per_second(max);
        self
    }
}

/// The quota is the initial rate.
impl From<Quota> for LearnRate {
    fn from(initial: Quota) -> Self {
        let initial = per_second(initial);
        Self {
            initial,
            min: initial / 100.0,
            max: f64::INFINITY,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate, not a count")]
fn per_second(quota: Quota) -> f64 {
    quota.units() as f64 / quota.period().as_secs_f64()
}

/// Learns the rate of a gate from the responses to the calls that it granted.
pub(super) struct Learner {
    gate: Gate<Pausable<TokenBucket>>,
    state: Mutex<State>,
}

struct State {
    learn: LearnRate,
    rate: f64,
    /// The rate that the gate has.
    applied: f64,
    /// The slowest policy of the upstream, or the maximum of the settings.
    max_rate: f64,
    /// The rate at the last refusal, if there was one.
    refused_at: Option<f64>,
    /// During consecutive refusals: the moment of the last one, and the length of the pause after the next.
    refusals: Option<(Moment, Duration)>,
}

impl Learner {
    pub(super) fn new(gate: Gate<Pausable<TokenBucket>>, learn: LearnRate) -> Arc<Self> {
        let rate = learn.initial.max(learn.min).min(learn.max);
        let learner = Self {
            gate,
            state: Mutex::new(State {
                learn,
                rate,
                applied: 0.0,
                max_rate: learn.max,
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

    /// The learned rate, in calls per second.
    pub(super) fn rate(&self) -> f64 {
        self.lock().rate
    }

    /// Learns within other bounds from now on. The learned rate stays, clamped to them.
    pub(super) fn change(&self, learn: LearnRate) {
        let mut state = self.lock();
        state.learn = learn;
        state.max_rate = learn.max;
        state.rate = state.rate.max(learn.min).min(learn.max);
        self.apply(&mut state);
    }

    /// Learns from the response to a call that started at `began`.
    pub(super) fn answered(&self, began: Moment, status: StatusCode, upstream: &UpstreamLimits) {
        let mut state = self.lock();
        state.observe(upstream);
        let refused = status == StatusCode::TOO_MANY_REQUESTS
            || status == StatusCode::SERVICE_UNAVAILABLE && upstream.retry_after.is_some();
        if refused {
            let pause = state.refused(self.now());
            if upstream.pause(status).is_none() {
                self.gate.pause_for(pause);
            }
        } else {
            state.accepted(began);
        }
        self.apply(&mut state);
    }

    /// Applies the rate to the gate if it differs by more than a hundredth: a change takes the lock of the gate.
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
    /// Follows the policies that the upstream reports.
    #[expect(clippy::cast_precision_loss, reason = "a rate, not a count")]
    fn observe(&mut self, upstream: &UpstreamLimits) {
        let learn = self.learn;
        let policies = upstream.limits.iter();
        let rates = policies.filter_map(|limit| {
            let window = limit.window.filter(|window| !window.is_zero())?;
            Some(limit.quota? as f64 / window.as_secs_f64() * USED_OF_QUOTA)
        });
        if let Some(rate) = rates.min_by(f64::total_cmp) {
            self.max_rate = rate.max(learn.min).min(learn.max);
            self.rate = self.max_rate;
        }
    }

    /// Reduces the rate after a refusal. Returns the pause for an upstream that does not say when to retry.
    fn refused(&mut self, now: Moment) -> Duration {
        let pause = match self.refusals {
            Some((_, pause)) => pause,
            None => {
                self.refused_at = Some(self.rate);
                self.rate = (self.rate * LEFT).max(self.learn.min);
                PAUSE
            }
        };
        let next = pause.saturating_mul(2).min(MAX_PAUSE);
        self.refusals = Some((now, next));
        pause
    }

    /// Raises the rate after an accepted call. A call that started before the last refusal does not count.
    fn accepted(&mut self, began: Moment) {
        if let Some((last, _)) = self.refusals {
            if began <= last {
                return;
            }
            self.refusals = None;
        }
        // If the rate is used up, the number of responses per second equals the rate.
        let more = match self.refused_at {
            None => FAST,
            Some(rate) => SLOW * rate / self.rate,
        };
        self.rate = (self.rate + more).min(self.max_rate);
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
