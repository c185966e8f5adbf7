//! The start of the state of a key: grants before it can no longer be undone.
//!
//! A state starts when its key is inserted, and when its rule is replaced by one that continues with a sum, in which
//! single grants cannot be distinguished. Undoing an older grant would free permits of other callers. Most keys need
//! not store their start: a key that was evicted because it equals a new one has no grants left that could be undone.
//! The start is stored for keys that are inserted soon after others were forgotten by name, or evicted while in use.
//!
//! As after a [reset](crate::Gate::reset), a moment alone does not distinguish grants before a start from grants after
//! it in the same instant; so grants of that instant carry the number of the start. The gate of a key continues from
//! that number.

use std::time::Duration;

use crate::Moment;
use crate::grant::Era;
use crate::stamp::Stamp;

#[derive(Default)]
pub(super) struct Starts {
    /// The latest start.
    latest: Option<Stamp>,
    /// The start of the rule of all keys.
    of_rule: Option<Stamp>,
    /// The moment until which the instant of that start is not over for all threads, on a clock that may be late.
    held_until: Option<Moment>,
    /// The moment until which grants to forgotten keys may be undone.
    lost_until: Option<Moment>,
}

impl Starts {
    /// Returns the stamp of a start at `now`.
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

    /// Starts the rule of all keys, on a clock that may be late by `late`.
    pub(super) fn of_rule(&mut self, now: Moment, late: Duration) -> Stamp {
        let next = self.next(now);
        self.of_rule = Some(next);
        self.held_until = Some(next.at.plus(late));
        next
    }

    /// Starts the rule of a single key.
    pub(super) fn of_own(&mut self, now: Moment) -> Stamp {
        self.next(now)
    }

    /// Starts a key; returns its start if that has to be stored.
    pub(super) fn of_new_key(&mut self, now: Moment) -> Option<Stamp> {
        match self.lost_until {
            Some(until) if now <= until => Some(self.next(now)),
            _ => {
                self.lost_until = None;
                None
            }
        }
    }

    /// Whether the start of a new key may have to be stored.
    pub(super) fn number_new_keys(&self) -> bool {
        self.lost_until.is_some()
    }

    /// Records that a key was forgotten. Its limit is refilled within `window`, after which nothing is left to undo.
    pub(super) fn lose_grants(&mut self, now: Moment, window: Option<Duration>) {
        let until = window.map_or(Moment::NEVER, |window| now.plus(window));
        self.lost_until = self.lost_until.max(Some(until));
    }

    /// The start that applies to a key: its own or that of all keys, whichever is later. A key with a rule of its own
    /// ignores that of all keys.
    pub(super) fn of_key(&self, own: Option<Stamp>, has_own_rule: bool) -> Option<Stamp> {
        if has_own_rule {
            own
        } else {
            own.max(self.of_rule)
        }
    }

    /// The moment of an operation of a thread that read `now`: not before the start of the rule of all keys.
    pub(super) fn not_before(&self, now: Moment) -> Moment {
        self.of_rule.map_or(now, |began| began.at.max(now))
    }

    /// Whether grants have to be made on the slow path, where they record the start that they follow.
    pub(super) fn hold(&self) -> bool {
        self.held_until.is_some()
    }

    /// Returns whether the instant of the last change of the rule has just ended.
    pub(super) fn end(&mut self, now: Moment) -> bool {
        self.held_until.take_if(|until| now > *until).is_some()
    }
}

/// The stamp of a grant at a moment by a state with this start.
pub(super) fn granted(began: Option<Stamp>, at: Moment) -> Stamp {
    match began {
        Some(began) if began.at == at => began,
        _ => Stamp::at(at),
    }
}

/// Whether a grant with this stamp was made by the state with this start.
pub(super) fn is_of(began: Option<Stamp>, taken: Stamp) -> bool {
    taken.era != Era::LOST && began.is_none_or(|began| taken >= began)
}
