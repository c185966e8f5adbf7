//! States that do not fit a word.

use std::sync::Arc;
use std::time::Duration;

use super::key_gate::GateOfKey;
use super::word::WIDE;
use crate::stamp::Stamp;
use crate::{Moment, Rule};

/// The time after which a state in use is checked again for eviction. Usually no check is needed, because a lease that
/// ends sets a mark. Only gates that callers hold themselves end without one.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(100);

pub(super) struct Wide<R: Rule> {
    pub(super) what: What<R>,
    /// The rule of the key, if it has one of its own.
    pub(super) own: Option<Arc<R>>,
    /// The start of the state, if earlier grants can no longer be undone.
    pub(super) began: Option<Stamp>,
    pub(super) used: Moment,
}

pub(super) enum What<R: Rule> {
    State(R::State),
    /// A limiter of its own.
    Gate(Arc<GateOfKey<R>>),
}

/// Stores a state that does not fit a word outside of the table; returns the word with its position.
pub(super) fn store<R: Rule>(
    wide: &mut Vec<Option<Wide<R>>>,
    free: &mut Vec<usize>,
    one: Wide<R>,
) -> u64 {
    let place = free.pop().unwrap_or(wide.len());
    if place == wide.len() {
        wide.push(None);
    }
    wide[place] = Some(one);
    WIDE | (place as u64 + 1)
}

/// The position in the word, if it holds one.
#[inline]
pub(super) fn place(word: u64) -> Option<usize> {
    (word & WIDE != 0).then(|| (word & !WIDE) as usize - 1)
}

impl<R: Rule> Wide<R> {
    pub(super) fn new(what: What<R>, used: Moment) -> Self {
        Self {
            what,
            own: None,
            began: None,
            used,
        }
    }

    /// The moment from which it equals the state of a new key. `rule` is that of keys without one of their own.
    pub(super) fn evictable_from(&self, rule: &R, now: Moment) -> Moment {
        let rule = self.own.as_deref().unwrap_or(rule);
        let from = match &self.what {
            What::State(state) => rule.evictable_from(state, now),
            What::Gate(held) => GateOfKey::evictable_from(held, now),
        };
        from.unwrap_or(now.plus(LOOK_AGAIN))
    }

    pub(super) fn is_evictable(&self) -> bool {
        match &self.what {
            What::State(_) => true,
            What::Gate(held) => GateOfKey::is_alone(held),
        }
    }
}
