use std::time::Duration;

use plimsoll::rate::Penalty;
use plimsoll::{Moment, PenaltyBucket, Refusal, Rule, Unpacked};

/// A penalty bucket with a state that is retained for a while after its last use.
///
/// `Keyed` evicts a state once it equals that of a new key. If new keys start with fewer tokens than the bucket holds,
/// a state that has gained tokens since never equals a new one, and none would ever be evicted. So this rule evicts
/// every state that is *no worse* than a new one, once it has been idle for `retention`. Without that time, a subject
/// that starts with no tokens and rarely sends would be evicted before each packet and refused forever. If new keys
/// start full, eviction loses nothing, and the retention is zero.
#[derive(Clone, Debug)]
pub(crate) struct RetainedBucket {
    bucket: PenaltyBucket,
    retention: Duration,
}

/// The state of one caller of an operation.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SubjectState {
    penalty: Penalty,
    last_used: Moment,
}

impl RetainedBucket {
    pub(crate) fn new(bucket: PenaltyBucket, retention: Duration) -> Self {
        let mut retained = Self {
            bucket,
            retention: Duration::ZERO,
        };
        if retained.initial() < retained.limit() {
            retained.retention = retention;
        }
        retained
    }

    /// The tokens of a new key.
    pub(crate) fn initial(&self) -> u64 {
        let fresh = self.bucket.fresh(Moment::ORIGIN);
        self.bucket.available(&fresh, Moment::ORIGIN)
    }

    /// The time for which a state is retained after its last use.
    pub(crate) fn retention(&self) -> Duration {
        self.retention
    }
}

impl Rule for RetainedBucket {
    type State = SubjectState;
    type Fast = Unpacked;

    const REMEMBERS_REFUSALS: bool = true;
    const EXACT_REFUNDS: bool = false;

    fn limit(&self) -> u64 {
        self.bucket.limit()
    }

    fn begin(&mut self, start: Moment) {
        self.bucket.begin(start);
    }

    fn fresh(&self, now: Moment) -> SubjectState {
        SubjectState {
            penalty: self.bucket.fresh(now),
            last_used: now,
        }
    }

    fn fresh_key(&self, now: Moment) -> SubjectState {
        SubjectState {
            penalty: self.bucket.fresh_key(now),
            last_used: now,
        }
    }

    fn evictable_from(&self, state: &SubjectState, now: Moment) -> Option<Moment> {
        let from = self.bucket.no_worse_than_new_from(&state.penalty, now)?;
        Some(from.max(state.last_used.plus(self.retention)))
    }

    fn take(&self, state: &mut SubjectState, now: Moment, cost: u64) -> Result<(), Refusal> {
        state.last_used = state.last_used.max(now);
        self.bucket.take(&mut state.penalty, now, cost)
    }

    fn refused(
        &self,
        state: &mut SubjectState,
        now: Moment,
        cost: u64,
        refusal: Refusal,
    ) -> Refusal {
        self.bucket.refused(&mut state.penalty, now, cost, refusal)
    }

    fn available(&self, state: &SubjectState, now: Moment) -> u64 {
        self.bucket.available(&state.penalty, now)
    }

    fn remaining(&self, state: &SubjectState, now: Moment) -> u64 {
        self.bucket.remaining(&state.penalty, now)
    }

    fn in_use(&self, state: &SubjectState, now: Moment) -> u64 {
        self.bucket.in_use(&state.penalty, now)
    }

    fn refund(&self, state: &mut SubjectState, now: Moment, taken: Moment, cost: u64) {
        self.bucket.refund(&mut state.penalty, now, taken, cost);
    }

    fn full_at(&self, state: &SubjectState, now: Moment) -> Option<Moment> {
        self.bucket.full_at(&state.penalty, now)
    }

    fn book(&self, state: &SubjectState, now: Moment, cost: u64) -> Option<(SubjectState, Moment)> {
        let (penalty, ready_at) = self.bucket.book(&state.penalty, now, cost)?;
        let last_used = state.last_used.max(now);
        Some((SubjectState { penalty, last_used }, ready_at))
    }

    fn charge(&self, state: &mut SubjectState, now: Moment, cost: u64) {
        self.bucket.charge(&mut state.penalty, now, cost);
    }
}
