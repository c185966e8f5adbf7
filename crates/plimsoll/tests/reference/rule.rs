use super::Nanos;

/// The rule: what is remembered, and how much is left of it at a time.
#[derive(Clone, Debug)]
pub(crate) enum Rule {
    Greedy {
        burst: u32,
        refill: u32,
        every: Nanos,
        level: i128,
        at: Nanos,
    },
    Interval {
        burst: u32,
        refill: u32,
        every: Nanos,
        tokens: i128,
        at: Nanos,
        start: Nanos,
    },
    Fixed {
        limit: u32,
        window: Nanos,
        start: Nanos,
        grants: Vec<(Nanos, u32)>,
    },
    Sliding {
        limit: u32,
        window: Nanos,
        segments: u32,
        start: Nanos,
        grants: Vec<(Nanos, u32)>,
    },
    Log {
        limit: u32,
        window: Nanos,
        gap: Nanos,
        grants: Vec<(Nanos, u32)>,
    },
    Counter {
        limit: u32,
        window: Nanos,
        start: Nanos,
        grants: Vec<(Nanos, u32)>,
    },
    Several(Vec<Self>),
    Slots {
        limit: u32,
        used: u64,
    },
}

impl Rule {
    pub(crate) fn limit(&self) -> u32 {
        match self {
            Self::Greedy { burst, .. } | Self::Interval { burst, .. } => *burst,
            Self::Fixed { limit, .. }
            | Self::Sliding { limit, .. }
            | Self::Log { limit, .. }
            | Self::Counter { limit, .. }
            | Self::Slots { limit, .. } => *limit,
            Self::Several(rules) => rules.iter().map(Self::limit).min().unwrap_or(0),
        }
    }

    /// Whether what is used is compared with one limit.
    pub(super) fn has_one_limit(&self) -> bool {
        !matches!(self, Self::Several(_))
    }

    /// When the least time between two has passed.
    fn gap_ends(&self) -> Nanos {
        match self {
            Self::Log { gap, grants, .. } => grants.last().map_or(0, |(at, _)| at + gap),
            _ => 0,
        }
    }

    /// Why it is refused that did not fit at `t`.
    pub(crate) fn reason(&self, t: Nanos) -> &'static str {
        if t < self.gap_ends() {
            "too_soon"
        } else {
            "exhausted"
        }
    }

    pub(crate) fn gives_back(&self) -> bool {
        matches!(self, Self::Slots { .. })
    }

    /// Tokens of a bucket at `t`, in units of one `every`th for the greedy one.
    fn level(&self, t: Nanos) -> i128 {
        match *self {
            Self::Greedy {
                burst,
                refill,
                every,
                level,
                at,
            } => {
                let full = i128::from(burst) * i128::from(every);
                let gained = i128::from(t.saturating_sub(at)) * i128::from(refill);
                full.min(level + gained)
            }
            Self::Interval {
                burst,
                refill,
                every,
                tokens,
                at,
                start,
            } => {
                let period = |t: Nanos| i128::from((t - start) / every);
                let gained = (period(t.max(at)) - period(at)) * i128::from(refill);
                i128::from(burst).min(tokens + gained)
            }
            _ => unreachable!("only buckets have a level"),
        }
    }

    /// What is used at `t`.
    pub(crate) fn used(&self, t: Nanos) -> u64 {
        let sum = |grants: &[(Nanos, u32)], counts: &dyn Fn(Nanos) -> bool| {
            grants
                .iter()
                .filter(|(at, _)| counts(*at))
                .map(|(_, cost)| u64::from(*cost))
                .sum()
        };
        match self {
            Self::Greedy { burst, every, .. } => {
                let missing = i128::from(*burst) * i128::from(*every) - self.level(t);
                whole(missing.unsigned_abs().div_ceil(u128::from(*every)))
            }
            Self::Interval { burst, .. } => {
                whole((i128::from(*burst) - self.level(t)).unsigned_abs())
            }
            Self::Fixed {
                window,
                start,
                grants,
                ..
            } => sum(grants, &|at| (at - start) / window == (t - start) / window),
            Self::Sliding {
                window,
                segments,
                start,
                grants,
                ..
            } => {
                let index = |at: Nanos| {
                    u128::from(at - start) * u128::from(*segments) / u128::from(*window)
                };
                sum(grants, &|at| index(at) + u128::from(*segments) > index(t))
            }
            Self::Log { window, grants, .. } => sum(grants, &|at| t - at < *window),
            Self::Counter {
                window,
                start,
                grants,
                ..
            } => {
                let index = |at: Nanos| (at - start) / window;
                let of =
                    |window: Nanos| -> u128 { u128::from(sum(grants, &|at| index(at) == window)) };
                let passed = (t - start) % window;
                let before = index(t).checked_sub(1).map_or(0, of);
                let faded = before * u128::from(window - passed);
                whole(of(index(t)) + faded.div_ceil(u128::from(*window)))
            }
            Self::Several(rules) => rules.iter().map(|rule| rule.used(t)).max().unwrap_or(0),
            Self::Slots { used, .. } => *used,
        }
    }

    pub(crate) fn available(&self, t: Nanos) -> u64 {
        if let Self::Several(rules) = self {
            return rules
                .iter()
                .map(|rule| rule.available(t))
                .min()
                .unwrap_or(0);
        }
        u64::from(self.limit()).saturating_sub(self.used(t))
    }

    pub(crate) fn fits(&self, t: Nanos, cost: u32) -> bool {
        t >= self.gap_ends() && self.available(t) >= u64::from(cost.max(1))
    }

    pub(crate) fn take(&mut self, t: Nanos, cost: u32) {
        if cost == 0 {
            return;
        }
        match self {
            Self::Greedy { every, .. } => {
                let spent = i128::from(cost) * i128::from(*every);
                let now = self.level(t) - spent;
                let Self::Greedy { level, at, .. } = self else {
                    unreachable!()
                };
                (*level, *at) = (now, t);
            }
            Self::Interval { .. } => {
                let now = self.level(t) - i128::from(cost);
                let Self::Interval { tokens, at, .. } = self else {
                    unreachable!()
                };
                (*tokens, *at) = (now, t);
            }
            Self::Fixed { grants, .. }
            | Self::Sliding { grants, .. }
            | Self::Log { grants, .. }
            | Self::Counter { grants, .. } => grants.push((t, cost)),
            Self::Several(rules) => rules.iter_mut().for_each(|rule| rule.take(t, cost)),
            Self::Slots { used, .. } => *used += u64::from(cost),
        }
    }

    pub(crate) fn give_back(&mut self, cost: u32) {
        if let Self::Slots { used, .. } = self {
            *used -= u64::from(cost);
        }
    }

    /// The least time from `t` on at which `cost` fits if nobody else comes: found by halving.
    pub(crate) fn earliest(&self, t: Nanos, cost: u32) -> Option<Nanos> {
        if self.gives_back() {
            return self.fits(t, cost).then_some(t);
        }
        let (mut no, mut yes) = (t, u64::MAX - 1);
        if self.fits(t, cost) {
            return Some(t);
        }
        if !self.fits(yes, cost) {
            return None; // Not in the next 584 years.
        }
        while yes - no > 1 {
            let middle = no + (yes - no) / 2;
            if self.fits(middle, cost) {
                yes = middle
            } else {
                no = middle
            }
        }
        Some(yes)
    }
}

fn whole(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
