use std::time::Duration;

use crate::rate::Penalty;
use crate::{Moment, PenaltyBucket, Refusal, Rule};

/// A penalty bucket whose state is kept for a while after its last use.
///
/// A keyed limit forgets a state that equals that of a new key. Where new keys start with fewer tokens than the
/// bucket holds, one that has since grown better never does, and all of them would stay. So here a state that is no
/// worse than a new one is forgotten when nobody has asked for it for a time: one that starts with no tokens and
/// comes seldom is not refused for ever. Where new keys start full there is nothing to lose.
#[derive(Clone, Debug)]
pub(super) struct Tracked {
    bucket: PenaltyBucket,
    stays: Duration,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Track {
    penalty: Penalty,
    seen: Moment,
}

impl Tracked {
    pub(super) fn new(bucket: PenaltyBucket, stale: Duration) -> Self {
        let mut tracked = Self {
            bucket,
            stays: Duration::ZERO,
        };
        if tracked.at_first() < tracked.limit() {
            tracked.stays = stale;
        }
        tracked
    }

    /// What a new key has.
    pub(super) fn at_first(&self) -> u32 {
        let fresh = self.bucket.fresh(Moment::ORIGIN);
        self.bucket.available(&fresh, Moment::ORIGIN)
    }

    /// For how long a state is kept for its own sake.
    pub(super) fn stays(&self) -> Duration {
        self.stays
    }
}

impl Rule for Tracked {
    type State = Track;

    const REMEMBERS_REFUSALS: bool = true;
    const BOOKS: bool = true;
    const UNDO_IS_EXACT: bool = false;

    fn limit(&self) -> u32 {
        self.bucket.limit()
    }

    fn begin(&mut self, start: Moment) {
        self.bucket.begin(start);
    }

    fn fresh(&self, now: Moment) -> Track {
        Track {
            penalty: self.bucket.fresh(now),
            seen: now,
        }
    }

    fn fresh_key(&self, now: Moment) -> Track {
        Track {
            penalty: self.bucket.fresh_key(now),
            seen: now,
        }
    }

    fn forgettable_from(&self, track: &Track, now: Moment) -> Option<Moment> {
        let from = self.bucket.no_worse_than_new_from(&track.penalty, now)?;
        Some(from.max(track.seen.plus(self.stays)))
    }

    fn take(&self, track: &mut Track, now: Moment, cost: u32) -> Result<(), Refusal> {
        track.seen = track.seen.max(now);
        self.bucket.take(&mut track.penalty, now, cost)
    }

    fn refused(&self, track: &mut Track, now: Moment, cost: u32, refusal: Refusal) -> Refusal {
        self.bucket.refused(&mut track.penalty, now, cost, refusal)
    }

    fn available(&self, track: &Track, now: Moment) -> u32 {
        self.bucket.available(&track.penalty, now)
    }

    fn remaining(&self, track: &Track, now: Moment) -> u32 {
        self.bucket.remaining(&track.penalty, now)
    }

    fn in_use(&self, track: &Track, now: Moment) -> u64 {
        self.bucket.in_use(&track.penalty, now)
    }

    fn put_back(&self, track: &mut Track, now: Moment, taken: Moment, cost: u32) {
        self.bucket.put_back(&mut track.penalty, now, taken, cost);
    }

    fn full_at(&self, track: &Track, now: Moment) -> Option<Moment> {
        self.bucket.full_at(&track.penalty, now)
    }

    fn book(&self, track: &mut Track, now: Moment, cost: u32) -> Option<Moment> {
        track.seen = track.seen.max(now);
        self.bucket.book(&mut track.penalty, now, cost)
    }

    fn charge(&self, track: &mut Track, now: Moment, cost: u32) {
        self.bucket.charge(&mut track.penalty, now, cost);
    }
}
