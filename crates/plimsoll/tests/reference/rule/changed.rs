//! What is carried over to other parameters.

use super::{Memory, Rule, whole};
use crate::reference::{Carry, Nanos, Spec};

impl Rule {
    /// As if it were new at `t`.
    pub(crate) fn reset(&mut self, t: Nanos) {
        let old = std::mem::replace(self, Self::new(self.spec.clone(), t));
        self.keep_start(&old);
    }

    /// What drips in continuously has no phase, and goes on being counted from where it was.
    fn keep_start(&mut self, old: &Self) {
        match (&mut self.memory, &old.memory) {
            (Memory::Several(rules), Memory::Several(old)) => {
                rules
                    .iter_mut()
                    .zip(old)
                    .for_each(|(rule, old)| rule.keep_start(old));
            }
            (Memory::Penalty { bucket, .. }, Memory::Penalty { bucket: old, .. }) => {
                bucket.keep_start(old);
            }
            _ if matches!(self.spec, Spec::Greedy(_)) => self.start = old.start,
            _ => {}
        }
    }

    /// Goes on by other parameters of the same kind.
    pub(crate) fn replace(&mut self, spec: Spec, t: Nanos, carry: Carry) {
        let old = std::mem::replace(self, Self::new(spec, t));
        if carry == Carry::Reset {
            return;
        }
        match (&mut self.memory, old.memory.clone()) {
            // What is used of this cycle and what is owed to the next ones are two things.
            (Memory::Level { .. }, _) if matches!(self.spec, Spec::Refresh { .. }) => {
                let (limit, before) = (self.limit(), old.limit());
                let used = old.used(t);
                let now = carried(used.min(before), before, limit, carry);
                let owed = carried(used.saturating_sub(before), before, limit, carry);
                let left = i128::from(limit.saturating_sub(now)) - i128::from(owed);
                self.set_level(t, left);
            }
            (Memory::Level { .. }, _) => self.set_level(t, self.carried_level(&old, t, carry)),
            (Memory::Counts { counts, latest }, _) => {
                let limit = self.spec.limit();
                let used = carried(old.used(t), old.limit(), limit, carry);
                counts.insert(0, used);
                *latest = 0;
            }
            (
                Memory::Log { entries, newest },
                Memory::Log {
                    entries: times,
                    newest: last,
                },
            ) => {
                if carry == Carry::Proportional {
                    let limit = self.spec.limit();
                    let used = carried(old.used(t), old.limit(), limit, carry).min(limit);
                    if used > 0 {
                        entries.insert(t, used);
                        *newest = Some(t);
                    }
                } else {
                    (*entries, *newest) = (times, last);
                    entries.retain(|at, _| t.saturating_sub(*at) < old.spec.period());
                }
            }
            // Without names nobody knows which was which.
            (Memory::Several(_), _) => {}
            (
                Memory::Penalty {
                    bucket,
                    refusals,
                    last,
                    locked_until,
                },
                Memory::Penalty {
                    bucket: before,
                    refusals: so_far,
                    last: latest,
                    locked_until: until,
                },
            ) => {
                let mut other = *before;
                other.replace(bucket.spec.clone(), t, carry);
                **bucket = other;
                (*refusals, *last, *locked_until) = (so_far, latest, until);
            }
            (Memory::Stored { stored, next }, Memory::Stored { .. }) => {
                let (Spec::Bursty { max }, Spec::Bursty { max: before }) = (&self.spec, &old.spec)
                else {
                    unreachable!()
                };
                let (kept, at) = old.stored(t);
                *next = at;
                *stored = match carry {
                    _ if *before == 0 => 0,
                    Carry::Used => (max + kept).saturating_sub(*before),
                    _ => kept.min(*max),
                };
            }
            _ => unreachable!("of the same kind"),
        }
    }

    /// What a bucket holds that takes over from another.
    fn carried_level(&self, old: &Self, t: Nanos, carry: Carry) -> i128 {
        let ((bucket, token), (before, old_token)) = (self.bucket(), old.bucket());
        let (burst, old_burst) = (i128::from(bucket.burst), i128::from(before.burst));
        // Tokens, over `old_token`.
        let held = old.level(t);
        // In parts that the bucket can tell apart, rounded down.
        let parts = if token == 1 { 1 } else { bucket.parts() };
        let (held, times, over) = match carry {
            Carry::Used => {
                let more = (burst - old_burst) * old_token;
                (held.saturating_add(more), parts, old_token)
            }
            Carry::Proportional => (held, burst * parts, old_token * old_burst),
            _ => (held, parts, old_token),
        };
        let whole = held.div_euclid(over);
        // Bit by bit, as the product may be too large.
        // Without a sign: twice a rest may be more than a number with one can be.
        let (left, by) = (held.rem_euclid(over).unsigned_abs(), over.unsigned_abs());
        let (mut part, mut rest) = (0_u128, 0_u128);
        for bit in (0..126).rev() {
            rest = 2 * rest + (times.unsigned_abs() >> bit & 1) * left;
            part = 2 * part + rest / by;
            rest %= by;
        }
        let part = i128::try_from(part).expect("less than what it is a part of");
        let parts_held = whole.saturating_mul(times).saturating_add(part);
        parts_held.saturating_mul(token / parts)
    }
}

/// What counts as used of a limit that takes over from another.
fn carried(used: u64, before: u64, limit: u64, carry: Carry) -> u64 {
    match carry {
        Carry::Proportional => {
            whole((u128::from(used) * u128::from(limit)).div_ceil(before.into()))
        }
        _ => used,
    }
}
