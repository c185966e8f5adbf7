//! The answer of a limiter by its last sample, in two atomic words.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use plimsoll::{Moment, Reason};

pub(crate) const NORMAL: u8 = 0;
pub(crate) const SOFT: u8 = 1;
pub(crate) const HARD: u8 = 2;
/// There is no recent sample.
pub(crate) const UNKNOWN: u8 = 3;
/// The limiter was closed, for good.
pub(crate) const CLOSED: u8 = 4;

#[derive(Debug)]
pub(crate) struct Answer {
    /// One of the constants above. No other data is published with it, so no ordering is needed.
    word: AtomicU8,
    /// The moment from which it is too old, in nanoseconds.
    pub(crate) stale_at: AtomicU64,
    /// Whether new work may start while there is no answer.
    pub(crate) admits_unknown: bool,
}

impl Answer {
    pub(crate) fn new(word: u8, stale_at: u64, admits_unknown: bool) -> Self {
        Self {
            word: AtomicU8::new(word),
            stale_at: AtomicU64::new(stale_at),
            admits_unknown,
        }
    }

    #[inline]
    pub(crate) fn load(&self) -> u8 {
        self.word.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn is_stale(&self, now: Moment) -> bool {
        now.as_nanos() >= self.stale_at.load(Ordering::Relaxed)
    }

    /// Sets it, unless the limiter is closed.
    pub(crate) fn publish(&self, answer: u8) {
        let open = |now| (now != CLOSED).then_some(answer);
        let _closed = self
            .word
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, open);
    }

    pub(crate) fn close(&self) {
        self.word.store(CLOSED, Ordering::Relaxed);
    }

    /// The reason of the refusal, if this answer is one.
    pub(crate) fn reason(&self, answer: u8) -> Option<Reason> {
        match answer {
            NORMAL => None,
            UNKNOWN if self.admits_unknown => None,
            UNKNOWN => Some(Reason::Unavailable),
            CLOSED => Some(Reason::Closed),
            _ => Some(Reason::Saturated),
        }
    }
}
