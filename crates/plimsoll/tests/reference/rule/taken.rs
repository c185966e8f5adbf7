//! What is taken, refused or booked.

use super::{Memory, Rule, first, sum, whole};
use crate::reference::{INTERVAL, Nanos, Spec};

impl Rule {
    /// Somebody asks at `t`, whatever the answer: what has left a window by then does not come back into it should the
    /// clock step back.
    pub(crate) fn seen(&mut self, t: Nanos) {
        let window = self.spec.period();
        match self.memory {
            Memory::Counts { .. } if matches!(self.spec, Spec::Sliding { .. }) => {
                let now = self.index(t);
                if let Memory::Counts { latest, .. } = &mut self.memory {
                    *latest = now.max(*latest);
                }
            }
            Memory::Log {
                ref mut entries, ..
            } => entries.retain(|at, _| t.saturating_sub(*at) < window),
            _ => {}
        }
    }

    /// Takes what fits. Says under which moment that is remembered.
    pub(crate) fn take(&mut self, t: Nanos, cost: u64) -> Nanos {
        if cost > 0 {
            if let Memory::Penalty { refusals, .. } = &mut self.memory {
                *refusals = 0;
            }
            return self.record(t, cost);
        }
        t
    }

    /// Counts what is taken, whether it fits or not.
    fn record(&mut self, t: Nanos, cost: u64) -> Nanos {
        let limit = self.limit();
        match self.memory {
            Memory::Level { at, .. } => {
                let price = i128::from(cost) * self.bucket().1;
                let now = t.max(at);
                self.set_level(t, self.level(now).saturating_sub(price));
                match self.spec {
                    // Time that steps back stands still at the beginning of the cycle.
                    Spec::Refresh { window, .. } => t.max(now - (now - self.start) % window),
                    _ => t,
                }
            }
            Memory::Counts { latest, .. } => {
                let now = self.index(t).max(latest);
                if let Memory::Counts { counts, latest } = &mut self.memory {
                    *counts.entry(now).or_default() += cost;
                    *latest = now;
                }
                t.max(self.begins(now))
            }
            Memory::Log {
                ref mut entries,
                ref mut newest,
            } => {
                let window = self.spec.period();
                entries.retain(|at, _| t.saturating_sub(*at) < window);
                let at = newest.map_or(t, |newest| newest.max(t));
                *newest = Some(at);
                // As much as the limit can matter, and no more.
                let cost = cost.min(limit);
                let mut excess = sum(entries.values()).saturating_sub(limit - cost);
                for count in entries.values_mut() {
                    let part = excess.min(*count);
                    (*count, excess) = (*count - part, excess - part);
                }
                *entries.entry(at).or_default() += cost;
                entries.retain(|_, count| *count > 0);
                at
            }
            Memory::Several(ref mut rules) => {
                for rule in rules {
                    rule.record(t, cost);
                }
                t
            }
            Memory::Penalty { ref mut bucket, .. } => bucket.record(t, cost),
            Memory::Stored { .. } => {
                let (stored, next) = self.stored(t);
                let price = u128::from(cost) * u128::from(INTERVAL);
                let spent = whole(price).min(stored);
                self.memory = Memory::Stored {
                    stored: stored - spent,
                    next: next + price - u128::from(spent),
                };
                t
            }
            Memory::Slots { ref mut used } => {
                *used += cost;
                t
            }
        }
    }

    /// Where a window or segment begins: the first moment that lies in it, found by halving.
    fn begins(&self, index: u128) -> Nanos {
        let (mut before, mut within) = (self.start, u64::MAX);
        if self.index(before) >= index {
            return before;
        }
        while within - before > 1 {
            let middle = before + (within - before) / 2;
            if self.index(middle) >= index {
                within = middle;
            } else {
                before = middle;
            }
        }
        within
    }

    /// Remembers that `cost` was refused at `t`. Says whether that locks out.
    pub(crate) fn refused(&mut self, t: Nanos, cost: u64) -> bool {
        if let Memory::Penalty { locked_until, .. } = &self.memory
            && t < *locked_until
        {
            return true;
        }
        if cost == 0 {
            return false;
        }
        match (&self.spec, &mut self.memory) {
            (
                Spec::Log {
                    counts_refusals: true,
                    ..
                },
                _,
            ) => {
                self.record(t, cost);
                false
            }
            (
                &Spec::Penalty {
                    soft_limit,
                    soft_window,
                    lockout,
                    ..
                },
                Memory::Penalty {
                    refusals,
                    last,
                    locked_until,
                    ..
                },
            ) => {
                let in_a_row = *refusals > 0 && t.saturating_sub(*last) <= soft_window;
                *refusals = if in_a_row { *refusals + 1 } else { 1 };
                *last = t.max(*last);
                let locks = *refusals >= soft_limit && lockout > 0;
                if locks {
                    (*refusals, *locked_until) = (0, t.saturating_add(lockout));
                }
                locks
            }
            _ => false,
        }
    }

    /// Takes ahead of time; says when it may be used.
    pub(crate) fn book(&mut self, t: Nanos, cost: u64) -> Option<Nanos> {
        let ready = match &self.memory {
            // Its time is the one that was the next.
            Memory::Stored { .. } => {
                let (_, next) = self.stored(t);
                self.record(t, cost);
                return u64::try_from(next).ok();
            }
            _ => self.free_of_debt(t, cost),
        };
        self.take(t, cost);
        ready
    }

    /// When `cost` has come in, if it is taken from what there will be.
    fn free_of_debt(&self, t: Nanos, cost: u64) -> Option<Nanos> {
        let there = |at: Nanos| match &self.memory {
            Memory::Level { .. } => self.level(at) >= i128::from(cost) * self.bucket().1,
            _ => self.fits(at, cost),
        };
        first(t, there)
    }

    /// Takes after the fact.
    pub(crate) fn charge(&mut self, t: Nanos, cost: u64) {
        let cost = if self.spec.books() {
            cost
        } else {
            self.available(t).min(cost)
        };
        if cost > 0 && !self.gives_back() {
            self.record(t, cost);
        }
    }
}
