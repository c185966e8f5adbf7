//! From which moment on the state of a key counts: grants before it can no longer be undone.
//!
//! A state starts when its key is inserted, and when its rule is replaced by one that goes on with a sum, in which nobody can
//! tell the parts of single grants. Undoing an older grant would free permits of other callers. Most keys need not remember
//! their start: a key that was forgotten because it equals a new one has no grants left that could be undone. It has to be
//! remembered for keys that are inserted soon after others were forgotten by name, or evicted.
//!
//! As after a [reset](crate::Gate::reset), a moment alone does not tell grants before a start from grants after it in the
//! same instant; so grants of that instant carry the number of the start. The gate of a key counts on from that number.

use std::time::Duration;

use crate::Moment;
use crate::grant::Era;
use crate::stamp::Stamp;

#[derive(Default)]
pub(super) struct Starts {
    /// The last one.
    latest: Option<Stamp>,
    /// That of the rule of all keys.
    of_rule: Option<Stamp>,
    /// Until then the instant of that is not over for everybody, by a clock that may be late as well.
    held_until: Option<Moment>,
    /// Until then something may be undone that was granted to a key which has been forgotten.
    lost_until: Option<Moment>,
}

impl Starts {
    /// Something begins now.
    fn next(&mut self, now: Moment) -> Stamp {
        let next = match self.latest {
            Some(latest) if latest.at >= now => Stamp {
                at: latest.at,
                era: latest.era.next(),
            },
            _ => Stamp {
                at: now,
                era: Era::FIRST,
            },
        };
        self.latest = Some(next);
        next
    }

    /// The rule of all keys begins now, on a clock that may be `late`.
    pub(super) fn of_rule(&mut self, now: Moment, late: Duration) -> Stamp {
        let next = self.next(now);
        self.of_rule = Some(next);
        self.held_until = Some(next.at.plus(late));
        next
    }

    /// A rule of a single key begins now.
    pub(super) fn of_own(&mut self, now: Moment) -> Stamp {
        self.next(now)
    }

    /// A key begins now: says when, if that has to be remembered.
    pub(super) fn of_new_key(&mut self, now: Moment) -> Option<Stamp> {
        match self.lost_until {
            Some(until) if now <= until => Some(self.next(now)),
            _ => {
                self.lost_until = None;
                None
            }
        }
    }

    /// Whether a new key may have to remember when it began.
    pub(super) fn number_new_keys(&self) -> bool {
        self.lost_until.is_some()
    }

    /// A key was forgotten whose limit comes back within `window`: from then on nothing is left to be undone.
    pub(super) fn lose_grants(&mut self, now: Moment, window: Option<Duration>) {
        let until = window.map_or(Moment::NEVER, |window| now.plus(window));
        self.lost_until = self.lost_until.max(Some(until));
    }

    /// The start that counts for a key: its own or that of all, whichever was later. A key with a rule of its own
    /// does not follow that of all.
    pub(super) fn of_key(&self, own: Option<Stamp>, has_own_rule: bool) -> Option<Stamp> {
        if has_own_rule {
            own
        } else {
            own.max(self.of_rule)
        }
    }

    /// The moment at which something happens for one who read `now`: not before the rule of all began.
    pub(super) fn not_before(&self, now: Moment) -> Moment {
        self.of_rule.map_or(now, |began| began.at.max(now))
    }

    /// Whether grants have to be made where they can say after which start.
    pub(super) fn hold(&self) -> bool {
        self.held_until.is_some()
    }

    /// Says whether the instant of the last change of the rule has come to an end just now.
    pub(super) fn end(&mut self, now: Moment) -> bool {
        self.held_until.take_if(|until| now > *until).is_some()
    }
}

/// What is granted at a moment by a state that began then.
pub(super) fn granted(began: Option<Stamp>, at: Moment) -> Stamp {
    match began {
        Some(began) if began.at == at => began,
        _ => Stamp::at(at),
    }
}

/// Whether what was granted then was granted by the state that began then.
pub(super) fn is_of(began: Option<Stamp>, taken: Stamp) -> bool {
    taken.era != Era::LOST && began.is_none_or(|began| taken >= began)
}
