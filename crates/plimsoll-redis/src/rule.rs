use std::time::Duration;

use plimsoll::{
    Bandwidths, Concurrency, FixedWindow, InvalidLimit, Moment, Quota, Rule, SlidingCounter,
    SlidingLog, SlidingWindow, Standing, TokenBucket,
};

/// A rule that Redis can store.
///
/// It is converted from a rule of a limiter in memory, and makes the same decisions. [`Smooth`](plimsoll::Smooth),
/// [`Refresh`](plimsoll::Refresh), [`PenaltyBucket`](plimsoll::PenaltyBucket) and adaptive limits cannot be stored in Redis.
///
/// The scripts compute exactly, with doubles: a limit, a burst and a refill must be below 2^52, those of a
/// [`SlidingLog`] below 2^32. [`Store::limiter`](crate::Store::limiter) rejects larger values. A
/// [charge](crate::RedisLimiter::charge) of more than 2^53 − 1 is reduced to that.
///
/// ```
/// use plimsoll::{Concurrency, TokenBucket};
/// use plimsoll_redis::RedisRule;
/// use std::time::Duration;
///
/// let rate = RedisRule::from(TokenBucket::per_second(100));
/// let jobs = RedisRule::from(Concurrency::new(10)).lease(Duration::from_secs(10));
/// ```
///
/// | rule | state of a key | bound |
/// |---|---|---|
/// | [`FixedWindow`], [`SlidingWindow`], [`SlidingCounter`] | a counter for each window or segment | at most 1024 segments |
/// | [`TokenBucket`], [`Bandwidths`] | the tokens of each bucket, and a moment | |
/// | [`SlidingLog`] | an entry for each grant within the window | amounts below 2^32 |
/// | [`Concurrency`] | an entry for each held lease | |
#[derive(Clone, Debug)]
#[must_use]
pub struct RedisRule {
    pub(crate) shape: Shape,
}

/// The rule, by kind.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    FixedWindow { quota: Quota, to_epoch: bool },
    SlidingWindow { quota: Quota, segments: u32 },
    SlidingCounter(Quota),
    Buckets(Vec<TokenBucket>),
    SlidingLog(SlidingLog),
    Concurrency { limit: u64, lease: Duration },
}

/// The kind of a rule. Each kind has its own Lua functions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RuleKind {
    FixedWindow,
    SlidingWindow,
    SlidingCounter,
    TokenBucket,
    SlidingLog,
    Concurrency,
}

impl RuleKind {
    /// The number of kinds.
    pub(crate) const COUNT: usize = Self::ALL.len();

    /// All kinds, in the order of their discriminants.
    pub(crate) const ALL: [Self; 6] = [
        Self::FixedWindow,
        Self::SlidingWindow,
        Self::SlidingCounter,
        Self::TokenBucket,
        Self::SlidingLog,
        Self::Concurrency,
    ];

    /// The letter of the kind in scripts and key names.
    pub(crate) const fn letter(self) -> u8 {
        match self {
            Self::FixedWindow => b'w',
            Self::SlidingWindow => b's',
            Self::SlidingCounter => b'c',
            Self::TokenBucket => b'b',
            Self::SlidingLog => b'l',
            Self::Concurrency => b'k',
        }
    }
}

/// The default length of a lease.
const LEASE: Duration = Duration::from_secs(30);

/// Maximum length of a lease, so that its moments fit the arithmetic of the scripts.
const LONGEST_LEASE: Duration = Duration::from_nanos(1 << 62);

/// Doubles hold integers below 2^53, which is the sum of two amounts below this bound.
const TOO_LARGE: u64 = 1 << 52;

/// A log stores the sum of all amounts since it was last empty, so its amounts have a smaller bound.
const TOO_LARGE_FOR_A_LOG: u64 = 1 << 32;

/// All segments of a window are read and written together.
const MOST_SEGMENTS: u32 = 1024;

impl RedisRule {
    const fn of(shape: Shape) -> Self {
        Self { shape }
    }

    /// Sets the length of the leases of a [`Concurrency`] limit: the time for which a permit outlives a holder that
    /// crashed. Default: 30 s. A held lease is renewed three times in its length. Other rules have no leases and ignore
    /// this setting.
    pub fn lease(mut self, length: Duration) -> Self {
        if let Shape::Concurrency { lease, .. } = &mut self.shape {
            *lease = length;
        }
        self
    }

    /// Returns the maximum cost that can be granted at once.
    ///
    /// ```
    /// use plimsoll::TokenBucket;
    /// use plimsoll_redis::RedisRule;
    ///
    /// assert_eq!(RedisRule::from(TokenBucket::per_second(100).burst(20)).limit(), 20);
    /// ```
    #[must_use]
    pub fn limit(&self) -> u64 {
        match &self.shape {
            Shape::FixedWindow { quota, .. }
            | Shape::SlidingWindow { quota, .. }
            | Shape::SlidingCounter(quota) => quota.units(),
            Shape::Buckets(buckets) => buckets.iter().map(Rule::limit).min().unwrap_or(0),
            Shape::SlidingLog(log) => log.limit(),
            Shape::Concurrency { limit, .. } => *limit,
        }
    }

    /// The standing of a new key, with the limit and the window.
    pub(crate) fn promise(&self) -> Standing {
        let window = match &self.shape {
            Shape::FixedWindow { quota, .. }
            | Shape::SlidingWindow { quota, .. }
            | Shape::SlidingCounter(quota) => Some(quota.period()),
            Shape::Buckets(buckets) => {
                let windows = buckets.iter().map(|bucket| bucket.window(Moment::ORIGIN));
                windows.max().flatten()
            }
            Shape::SlidingLog(log) => Some(log.quota().period()),
            Shape::Concurrency { .. } => None,
        };
        Standing::of_limit(self.limit())
            .window(window)
            .returns(window.is_none())
    }

    /// The length of the leases, if the rule has leases.
    pub(crate) fn lease_length(&self) -> Option<Duration> {
        match self.shape {
            Shape::Concurrency { lease, .. } => Some(lease),
            _ => None,
        }
    }

    pub(crate) fn kind(&self) -> RuleKind {
        match self.shape {
            Shape::FixedWindow { .. } => RuleKind::FixedWindow,
            Shape::SlidingWindow { .. } => RuleKind::SlidingWindow,
            Shape::SlidingCounter(_) => RuleKind::SlidingCounter,
            Shape::Buckets(_) => RuleKind::TokenBucket,
            Shape::SlidingLog(_) => RuleKind::SlidingLog,
            Shape::Concurrency { .. } => RuleKind::Concurrency,
        }
    }

    /// Whether the quick script can decide the rule: all products of its numbers are below 2^52.
    pub(crate) fn is_quick(&self) -> bool {
        let small = |factors: &[u128]| {
            let product = |product: u128, factor: &u128| product.checked_mul(*factor);
            let product = factors.iter().try_fold(1, product);
            product.is_some_and(|product| product < 1 << 52)
        };
        match &self.shape {
            Shape::FixedWindow { quota, .. } => small(&[2, quota.period().as_nanos()]),
            Shape::SlidingWindow { quota, segments } => {
                small(&[2, u128::from(*segments), quota.period().as_nanos()])
            }
            Shape::SlidingCounter(quota) => {
                small(&[2, u128::from(quota.units()), quota.period().as_nanos()])
            }
            Shape::Buckets(buckets) => match buckets.as_slice() {
                [bucket] if bucket.is_greedy() && bucket.initial_tokens() == bucket.limit() => {
                    let period = bucket.refill().period().as_nanos();
                    small(&[2, u128::from(bucket.limit()), period])
                }
                _ => false,
            },
            Shape::SlidingLog(log) => {
                log.gap().is_zero() && small(&[2, log.quota().period().as_nanos()])
            }
            Shape::Concurrency { lease, .. } => small(&[2, lease.as_nanos()]),
        }
    }

    /// The largest amount of the rule, and the name of its setting.
    fn largest(&self) -> (&'static str, u64) {
        match &self.shape {
            Shape::Buckets(buckets) => {
                let amounts = buckets.iter().flat_map(|bucket| {
                    [
                        ("burst", bucket.limit()),
                        ("refill", bucket.refill().units()),
                    ]
                });
                amounts
                    .max_by_key(|(_, amount)| *amount)
                    .unwrap_or(("burst", 0))
            }
            _ => ("limit", self.limit()),
        }
    }

    /// Checks that Redis can store the rule.
    pub(crate) fn check(&self) -> Result<(), InvalidLimit> {
        let (field, amount) = self.largest();
        match self.shape {
            Shape::SlidingLog(_) if amount >= TOO_LARGE_FOR_A_LOG => {
                let rule = "below 2^32 for a sliding log in Redis";
                return Err(InvalidLimit::new(field, amount, rule));
            }
            _ if amount >= TOO_LARGE => {
                return Err(InvalidLimit::new(field, amount, "below 2^52 in Redis"));
            }
            _ => {}
        }
        match self.shape {
            Shape::SlidingWindow { segments, .. } if segments > MOST_SEGMENTS => Err(
                InvalidLimit::new("segments", segments, "at most 1024 in Redis"),
            ),
            Shape::Concurrency { lease, .. }
                if lease < Duration::from_millis(1) || lease > LONGEST_LEASE =>
            {
                let rule = "1ms to 146 years";
                Err(InvalidLimit::new("lease", format!("{lease:?}"), rule))
            }
            _ => Ok(()),
        }
    }

    /// The script arguments of the rule, beginning with the letter of its kind. The id of a lease follows.
    pub(crate) fn words(&self, origin: Moment) -> Vec<String> {
        let mut words = vec![char::from(self.kind().letter()).to_string()];
        let origin = moment(origin);
        match &self.shape {
            Shape::FixedWindow { quota, to_epoch } => {
                words.extend(quota_words(*quota));
                words.push(if *to_epoch {
                    moment(Moment::ORIGIN)
                } else {
                    origin
                });
            }
            Shape::SlidingWindow { quota, segments } => {
                words.extend(quota_words(*quota));
                words.extend([segments.to_string(), origin]);
            }
            Shape::SlidingCounter(quota) => {
                words.extend(quota_words(*quota));
                words.push(origin);
            }
            Shape::Buckets(buckets) => {
                words.push(buckets.len().to_string());
                for bucket in buckets {
                    words.push(if bucket.is_greedy() { "g" } else { "i" }.to_owned());
                    words.extend([
                        bucket.limit().to_string(),
                        bucket.initial_tokens().to_string(),
                    ]);
                    words.extend(quota_words(bucket.refill()));
                    words.push(origin.clone());
                }
            }
            Shape::SlidingLog(log) => {
                words.extend(quota_words(log.quota()));
                words.push(number(log.gap().as_nanos()));
                words.push(u8::from(log.counts_refusals()).to_string());
            }
            Shape::Concurrency { limit, lease } => {
                words.extend([limit.to_string(), number(lease.as_nanos())]);
            }
        }
        words
    }
}

fn quota_words(quota: Quota) -> [String; 2] {
    [quota.units().to_string(), number(quota.period().as_nanos())]
}

/// Clamps an amount for the scripts. All limits are smaller, so the decision is the same.
pub(crate) fn amount(amount: u64) -> u64 {
    amount.min((1 << 53) - 1)
}

/// Formats an integer for the scripts. Integers that a double cannot hold are hexadecimal.
pub(crate) fn number(number: u128) -> String {
    if number < 1 << 53 {
        number.to_string()
    } else {
        format!("x{number:x}")
    }
}

/// Parses an integer of a script.
pub(crate) fn read_number(text: &str) -> Option<u128> {
    match text.strip_prefix('x') {
        Some(hex) => u128::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Formats a moment for the scripts: seconds and nanoseconds.
pub(crate) fn moment(moment: Moment) -> String {
    let nanos = moment.as_nanos();
    format!("{}.{}", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

/// Parses a moment of a script.
pub(crate) fn read_moment(text: &str) -> Option<Moment> {
    let (seconds, nanos) = text.split_once('.')?;
    let seconds: u64 = seconds.parse().ok()?;
    let nanos: u64 = nanos.parse().ok()?;
    let whole = seconds.checked_mul(1_000_000_000)?.checked_add(nanos)?;
    Some(Moment::from_nanos(whole))
}

/// Windows begin at the same moments in all processes.
impl From<FixedWindow> for RedisRule {
    fn from(rule: FixedWindow) -> Self {
        Self::of(Shape::FixedWindow {
            quota: rule.quota(),
            to_epoch: rule.is_aligned_to_epoch(),
        })
    }
}

/// A window has at most 1024 segments.
impl From<SlidingWindow> for RedisRule {
    fn from(rule: SlidingWindow) -> Self {
        Self::of(Shape::SlidingWindow {
            quota: rule.quota(),
            segments: rule.segments(),
        })
    }
}

impl From<SlidingCounter> for RedisRule {
    fn from(rule: SlidingCounter) -> Self {
        Self::of(Shape::SlidingCounter(rule.quota()))
    }
}

impl From<TokenBucket> for RedisRule {
    fn from(rule: TokenBucket) -> Self {
        Self::of(Shape::Buckets(vec![rule]))
    }
}

/// All buckets are one state, so that a demand takes from all of them or from none.
impl From<Bandwidths> for RedisRule {
    fn from(rule: Bandwidths) -> Self {
        Self::of(Shape::Buckets(rule.buckets().cloned().collect()))
    }
}

impl From<SlidingLog> for RedisRule {
    fn from(rule: SlidingLog) -> Self {
        Self::of(Shape::SlidingLog(rule))
    }
}

/// Permits become leases of 30 s. [`RedisRule::lease`] sets another length.
impl From<Concurrency> for RedisRule {
    fn from(rule: Concurrency) -> Self {
        Self::of(Shape::Concurrency {
            limit: rule.limit(),
            lease: LEASE,
        })
    }
}
