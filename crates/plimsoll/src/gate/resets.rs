//! The resets of a gate: which grants came before the last one.
//!
//! A moment alone does not distinguish a grant before a reset from one after it in the same instant. So in the instant
//! of a reset the state stays behind the lock, where operations have one order, and each grant records the number of
//! resets of that instant before it. From the next instant on the moment suffices, and the state goes back into the
//! word: grants on the fast path record no era.

use std::time::Duration;

use crate::grant::Era;
use crate::moment::Moment;
use crate::stamp::Stamp;

impl Stamp {
    #[inline]
    pub(super) fn widen(self) -> WideStamp {
        WideStamp {
            at: self.at,
            era: self.era.number(),
        }
    }
}

/// A [`Stamp`] whose fields are as wide as those of a refusal.
///
/// A slow path that returned a narrower field in the place of a refusal's would have every refusal of the fast path
/// copied in parts, of which each waits for the whole that was written just before.
#[derive(Clone, Copy)]
pub(super) struct WideStamp {
    at: Moment,
    era: u64,
}

impl WideStamp {
    #[inline]
    pub(super) fn narrow(self) -> Stamp {
        Stamp {
            at: self.at,
            era: Era::from_number(self.era),
        }
    }
}

/// The last reset of a gate.
#[derive(Default)]
pub(super) struct Resets {
    /// The moment of the last reset.
    at: Moment,
    /// The number of resets in that instant; 0 if there was none.
    era: Era,
    /// Whether the state stays behind the lock until that instant is over.
    holds: bool,
    /// The moment at which that instant is over for all threads, on a clock that may be late.
    until: Moment,
    /// The last reset that discarded all usage. Others have taken it over as a sum, which does not tell the parts of single grants.
    discarded: Option<Stamp>,
}

impl Resets {
    /// The resets of a gate whose state began at that moment, on a clock that may be late by `late`.
    pub(super) fn since(start: Stamp, late: Duration) -> Self {
        Self {
            at: start.at,
            era: start.era,
            holds: true,
            until: start.at.plus(late),
            discarded: None,
        }
    }

    /// Records a reset at `now`, which is not before any grant, and whether it discards all usage. Its number in that instant
    /// is at least that of `start`.
    pub(super) fn reset(
        &mut self,
        now: Moment,
        late: Duration,
        start: Option<Stamp>,
        discards: bool,
    ) {
        let era = self.era_at(now).next();
        let at_least = start.filter(|start| start.at == now);
        let era = at_least.map_or(era, |start| era.max(start.era));
        let start = Stamp { at: now, era };
        *self = Self {
            discarded: if discards {
                Some(start)
            } else {
                self.discarded
            },
            ..Self::since(start, late)
        };
    }

    /// Since when the state has counted a grant that was before the last reset: since the reset, if that took it over in a sum.
    pub(super) fn carried(&self, granted: Stamp) -> Option<Moment> {
        let discarded = self.discarded.is_some_and(|discarded| granted < discarded);
        (granted.era != Era::LOST && !discarded).then_some(self.at)
    }

    /// The stamp of a grant at `now`.
    #[inline]
    pub(super) fn stamp(&self, now: Moment) -> Stamp {
        // Where nothing is held back, the instant of the last reset is over.
        let era = if self.holds {
            self.era_at(now)
        } else {
            Era::default()
        };
        Stamp { at: now, era }
    }

    /// The era of a grant made after the last reset, for use at `at`.
    pub(super) fn era_at(&self, at: Moment) -> Era {
        if self.at == at {
            self.era
        } else {
            Era::default()
        }
    }

    /// Whether a grant of that stamp was after the last reset.
    pub(super) fn are_before(&self, granted: Stamp) -> bool {
        if granted.era == Era::LOST {
            return false;
        }
        let never = self.era == Era::default();
        never || granted.at > self.at || (granted.at == self.at && granted.era == self.era)
    }

    /// Whether the state has been kept behind the lock for an instant that is over by now.
    #[inline]
    pub(super) fn are_over(&self, now: Moment) -> bool {
        self.holds && now > self.until
    }

    /// Whether the state has to stay behind the lock.
    #[inline]
    pub(super) fn hold(&mut self, now: Moment) -> bool {
        self.holds &= now <= self.until;
        self.holds
    }
}
