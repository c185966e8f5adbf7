use std::collections::BTreeMap;

use super::spec::{Bucket, INTERVAL, Spec};
use super::{Carry, Nanos};

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

/// What counts as used of a limit that takes over from another.
fn carried(used: u64, before: u64, limit: u64, carry: Carry) -> u64 {
    match carry {
        Carry::Proportional => {
            whole((u128::from(used) * u128::from(limit)).div_ceil(before.into()))
        }
        _ => used,
    }
}

fn sum<'a>(amounts: impl Iterator<Item = &'a u64>) -> u64 {
    whole(amounts.map(|amount| u128::from(*amount)).sum())
}

fn whole(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
