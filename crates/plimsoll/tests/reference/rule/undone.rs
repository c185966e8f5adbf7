//! What comes back.

use super::{Memory, Rule, whole};
use crate::reference::{INTERVAL, Nanos, Spec};

impl Rule {
    /// As if `cost` had not been taken at `taken`, as far as it is still held.
    pub(crate) fn undo(&mut self, t: Nanos, taken: Nanos, cost: u64) {
        match &mut self.memory {
            Memory::Level { .. } => {
                let price = i128::from(cost) * self.bucket().1;
                let back = price.saturating_sub(self.gained(taken, t)).max(0);
                self.set_level(t, self.level(t).saturating_add(back));
            }
            Memory::Counts { .. } => {
                let (index, now) = (self.index(taken), self.index(t));
                if let Memory::Counts { counts, latest } = &mut self.memory {
                    *latest = now.max(*latest);
                    let index = index.min(*latest);
                    counts
                        .entry(index)
                        .and_modify(|count| *count = count.saturating_sub(cost));
                }
            }
            Memory::Log { entries, newest } => {
                if let Some(count) = entries.get_mut(&taken) {
                    *count = count.saturating_sub(cost);
                    entries.retain(|_, count| *count > 0);
                    if *newest == Some(taken) {
                        *newest = entries.last_key_value().map(|(at, _)| *at);
                    }
                }
            }
            Memory::Several(rules) => rules.iter_mut().for_each(|rule| rule.undo(t, taken, cost)),
            Memory::Penalty { bucket, .. } => bucket.undo(t, taken, cost),
            Memory::Stored { .. } => {
                let (stored, next) = self.stored(t);
                let price = u128::from(cost) * u128::from(INTERVAL);
                let held = price.saturating_sub(t.saturating_sub(taken).into());
                let refund = held.min(next.saturating_sub(t.into()));
                let Spec::Bursty { max } = self.spec else {
                    unreachable!()
                };
                self.memory = Memory::Stored {
                    stored: whole(u128::from(stored) + held - refund).min(max),
                    next: next - refund,
                };
            }
            Memory::Slots { used } => *used -= cost,
        }
    }

    /// Makes so much more available, the newest first.
    pub(crate) fn add(&mut self, t: Nanos, amount: u64) {
        let mut left = amount;
        let mut free = |count: &mut u64| {
            let part = left.min(*count);
            (*count, left) = (*count - part, left - part);
        };
        match &mut self.memory {
            Memory::Counts { .. } => {
                let now = self.index(t);
                let window = self.spec.period();
                let passed = t.saturating_sub(self.start) % window;
                let Memory::Counts { counts, latest } = &mut self.memory else {
                    unreachable!()
                };
                *latest = now.max(*latest);
                match self.spec {
                    Spec::Sliding { segments, .. } => {
                        let since = (*latest + 1).saturating_sub(segments.into());
                        counts
                            .range_mut(since..)
                            .rev()
                            .for_each(|(_, count)| free(count));
                    }
                    Spec::Counter { .. } => {
                        counts.entry(*latest).and_modify(free);
                        let before = latest
                            .checked_sub(1)
                            .and_then(|before| counts.get_mut(&before));
                        // As many as have to go for the rest to become available.
                        if let Some(before) = before {
                            let counts_for = |count: u64| {
                                let faded = u128::from(count) * u128::from(window - passed);
                                whole(faded.div_ceil(window.into()))
                            };
                            let goal = counts_for(*before).saturating_sub(left);
                            let scaled =
                                u128::from(goal) * u128::from(window) / u128::from(window - passed);
                            if left > 0 {
                                *before = (*before).min(whole(scaled));
                            }
                        }
                    }
                    _ => {
                        counts.entry(*latest).and_modify(free);
                    }
                }
            }
            Memory::Log { entries, .. } => {
                let window = self.spec.period();
                entries.retain(|at, _| t.saturating_sub(*at) < window);
                entries.values_mut().rev().for_each(free);
                entries.retain(|_, count| *count > 0);
            }
            Memory::Several(rules) => rules.iter_mut().for_each(|rule| rule.add(t, amount)),
            Memory::Slots { .. } => {}
            _ => self.undo(t, t, amount),
        }
    }
}
