//! What a limit remembers, and what it says of that.

mod changed;
mod taken;
mod undone;

use std::collections::BTreeMap;

use super::Nanos;
use super::spec::{Bucket, INTERVAL, Spec};

/// A limit with what it remembers: pure functions of that, a time and a cost.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) spec: Spec,
    /// Windows, segments and refills are counted from here.
    start: Nanos,
    memory: Memory,
}

#[derive(Clone, Debug)]
enum Memory {
    /// Tokens when they last changed: in parts of one `every`th of a greedy bucket, else whole ones.
    Level {
        level: i128,
        at: Nanos,
    },
    /// What was taken, by window or segment; and the latest of them.
    Counts {
        counts: BTreeMap<u128, u64>,
        latest: u128,
    },
    /// What was taken, by moment; and the latest of them, which the gap is kept to.
    Log {
        entries: BTreeMap<Nanos, u64>,
        newest: Option<Nanos>,
    },
    Several(Vec<Rule>),
    Penalty {
        bucket: Box<Rule>,
        refusals: u32,
        last: Nanos,
        locked_until: Nanos,
    },
    /// What is stored and when the next one is let through, both in nanoseconds.
    Stored {
        stored: Nanos,
        next: u128,
    },
    Slots {
        used: u64,
    },
}

impl Rule {
    pub(crate) fn new(spec: Spec, start: Nanos) -> Self {
        let memory = match &spec {
            Spec::Greedy(bucket) => Memory::Level {
                level: i128::from(bucket.initial) * i128::from(bucket.every),
                at: start,
            },
            Spec::Interval(bucket) => Memory::Level {
                level: bucket.initial.into(),
                at: start,
            },
            Spec::Refresh { limit, .. } => Memory::Level {
                level: (*limit).into(),
                at: start,
            },
            Spec::Fixed { .. } | Spec::Sliding { .. } | Spec::Counter { .. } => Memory::Counts {
                counts: BTreeMap::new(),
                latest: 0,
            },
            Spec::Log { .. } => Memory::Log {
                entries: BTreeMap::new(),
                newest: None,
            },
            Spec::Several(specs) => {
                let new = |spec: &Spec| Self::new(spec.clone(), start);
                Memory::Several(specs.iter().map(new).collect())
            }
            Spec::Penalty { bucket, .. } => Memory::Penalty {
                bucket: Box::new(Self::new(Spec::Greedy(*bucket), start)),
                refusals: 0,
                last: 0,
                locked_until: 0,
            },
            Spec::Bursty { .. } => Memory::Stored {
                stored: 0,
                next: start.into(),
            },
            Spec::Slots { .. } => Memory::Slots { used: 0 },
        };
        Self {
            spec,
            start,
            memory,
        }
    }

    pub(crate) fn limit(&self) -> u64 {
        self.spec.limit()
    }

    pub(crate) fn gives_back(&self) -> bool {
        self.spec.gives_back()
    }

    /// The bucket it is, and what a token of its level is: a cycle is filled to its limit at each border.
    fn bucket(&self) -> (Bucket, i128) {
        match self.spec {
            Spec::Greedy(bucket) => (bucket, bucket.every.into()),
            Spec::Interval(bucket) => (bucket, 1),
            Spec::Refresh { limit, window } => {
                let bucket = Bucket {
                    burst: limit,
                    refill: limit,
                    every: window,
                    initial: limit,
                };
                (bucket, 1)
            }
            _ => unreachable!("not a bucket"),
        }
    }

    /// What comes into a bucket between two moments.
    fn gained(&self, from: Nanos, to: Nanos) -> i128 {
        let (bucket, _) = self.bucket();
        let refill = i128::from(bucket.refill);
        let from = from.max(self.start);
        if matches!(self.spec, Spec::Greedy(_)) {
            return i128::from(to.saturating_sub(from)).saturating_mul(refill);
        }
        let period = |t: Nanos| i128::from(t.saturating_sub(self.start) / bucket.every);
        (period(to.max(from)) - period(from)).saturating_mul(refill)
    }

    /// What a bucket holds at `t`; below 0 if it owes.
    fn level(&self, t: Nanos) -> i128 {
        let (bucket, token) = self.bucket();
        let Memory::Level { level, at } = self.memory else {
            unreachable!("a bucket has a level")
        };
        (i128::from(bucket.burst) * token).min(level.saturating_add(self.gained(at, t)))
    }

    /// The level of a bucket as it is from `t` on.
    fn set_level(&mut self, t: Nanos, to: i128) {
        let (bucket, token) = self.bucket();
        if let Memory::Level { level, at } = &mut self.memory {
            (*level, *at) = (to.min(i128::from(bucket.burst) * token), t.max(*at));
        }
    }

    /// The number of the window or segment that `t` lies in.
    fn index(&self, t: Nanos) -> u128 {
        let elapsed = u128::from(t.saturating_sub(self.start));
        match self.spec {
            Spec::Fixed { window, .. } | Spec::Counter { window, .. } => {
                elapsed / u128::from(window)
            }
            Spec::Sliding {
                window, segments, ..
            } => elapsed * u128::from(segments) / u128::from(window),
            _ => unreachable!("only windows are numbered"),
        }
    }

    /// What is stored at `t` and when the next one is let through.
    fn stored(&self, t: Nanos) -> (Nanos, u128) {
        match (&self.spec, &self.memory) {
            (&Spec::Bursty { max }, &Memory::Stored { stored, next }) if u128::from(t) > next => {
                let idle = u128::from(t) - next;
                (whole(u128::from(stored) + idle).min(max), t.into())
            }
            (_, &Memory::Stored { stored, next }) => (stored, next),
            _ => unreachable!("nothing else is stored"),
        }
    }

    /// When the least time between two has passed, or a lockout.
    fn closed_until(&self) -> Nanos {
        match (&self.spec, &self.memory) {
            (Spec::Log { gap, .. }, Memory::Log { newest, .. }) => {
                newest.map_or(0, |newest| newest.saturating_add(*gap))
            }
            (_, Memory::Penalty { locked_until, .. }) => *locked_until,
            _ => 0,
        }
    }

    /// Why it is refused that did not fit at `t`.
    pub(crate) fn reason(&self, t: Nanos, cost: u64) -> &'static str {
        let closed = t < self.closed_until();
        match self.spec {
            Spec::Log { .. } if closed => "too_soon",
            Spec::Penalty { .. } if closed => "locked_out",
            Spec::Penalty { .. } if !self.fits(t, cost) => "soft_throttle",
            _ => "exhausted",
        }
    }

    /// What is used at `t`.
    pub(crate) fn used(&self, t: Nanos) -> u64 {
        match &self.memory {
            Memory::Level { .. } => {
                let (bucket, token) = self.bucket();
                let missing = (i128::from(bucket.burst) * token).saturating_sub(self.level(t));
                whole(missing.unsigned_abs().div_ceil(token.unsigned_abs()))
            }
            Memory::Counts { counts, latest } => {
                let now = self.index(t).max(*latest);
                let of = |index: u128| counts.get(&index).copied().unwrap_or(0);
                match self.spec {
                    Spec::Sliding { segments, .. } => {
                        let since = (now + 1).saturating_sub(segments.into());
                        sum(counts.range(since..).map(|(_, count)| count))
                    }
                    Spec::Counter { window, .. } => {
                        let passed = if self.index(t) < now {
                            0
                        } else {
                            t.saturating_sub(self.start) % window
                        };
                        let before = now.checked_sub(1).map_or(0, of);
                        let faded = u128::from(before) * u128::from(window - passed);
                        of(now).saturating_add(whole(faded.div_ceil(window.into())))
                    }
                    _ => of(now),
                }
            }
            Memory::Log { entries, .. } => {
                let counts = |at: Nanos| t.saturating_sub(at) < self.spec.period();
                let counting = entries.iter().filter(|(at, _)| counts(**at));
                sum(counting.map(|(_, cost)| cost))
            }
            Memory::Several(rules) => rules.iter().map(|rule| rule.used(t)).max().unwrap_or(0),
            Memory::Penalty { bucket, .. } => bucket.used(t),
            Memory::Stored { .. } => {
                let (_, next) = self.stored(t);
                whole(next.saturating_sub(t.into()).div_ceil(INTERVAL.into()))
            }
            Memory::Slots { used } => *used,
        }
    }

    pub(crate) fn available(&self, t: Nanos) -> u64 {
        match &self.memory {
            Memory::Several(rules) => {
                let each = rules.iter().map(|rule| rule.available(t));
                each.min().unwrap_or(0)
            }
            Memory::Penalty { bucket, .. } if t >= self.closed_until() => bucket.available(t),
            Memory::Penalty { .. } => 0,
            Memory::Stored { .. } => match self.stored(t) {
                (stored, next) if next <= t.into() => (stored / INTERVAL).max(1),
                _ => 0,
            },
            _ => self.limit().saturating_sub(self.used(t)),
        }
    }

    pub(crate) fn fits(&self, t: Nanos, cost: u64) -> bool {
        match &self.memory {
            // Whoever comes first is let through, and the next one waits.
            Memory::Stored { .. } => self.stored(t).1 <= t.into(),
            _ => t >= self.closed_until() && self.available(t) >= cost.max(1),
        }
    }

    /// The least time from `t` on at which `cost` fits if nobody else comes.
    pub(crate) fn earliest(&self, t: Nanos, cost: u64) -> Option<Nanos> {
        if self.gives_back() {
            return self.fits(t, cost).then_some(t);
        }
        first(t, |at| self.fits(at, cost))
    }
}

/// The first moment from `t` on at which something is so that stays so: found by halving. None if that is not in
/// the next 584 years.
fn first(t: Nanos, is: impl Fn(Nanos) -> bool) -> Option<Nanos> {
    let (mut no, mut yes) = (t, u64::MAX - 1);
    if is(t) {
        return Some(t);
    }
    if !is(yes) {
        return None;
    }
    while yes - no > 1 {
        let middle = no + (yes - no) / 2;
        if is(middle) {
            yes = middle;
        } else {
            no = middle;
        }
    }
    Some(yes)
}

fn sum<'a>(amounts: impl Iterator<Item = &'a u64>) -> u64 {
    whole(amounts.map(|amount| u128::from(*amount)).sum())
}

fn whole(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
