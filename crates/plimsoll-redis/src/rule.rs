use std::time::Duration;

use plimsoll::{
    Bandwidths, Concurrency, FixedWindow, InvalidLimit, Moment, Quota, Rule, SlidingCounter,
    SlidingLog, SlidingWindow, Standing, TokenBucket,
};

/// A limit as Redis keeps it.
///
/// It is made of the rules that limiters in memory are made of, so one description makes both, and both give the
/// same answers. [`Smooth`](plimsoll::Smooth), [`Refresh`](plimsoll::Refresh),
/// [`PenaltyBucket`](plimsoll::PenaltyBucket) and adaptive limits are not kept in Redis.
///
/// Redis counts amounts in floating point, and exactly: a limit, a burst and a refill must be below 2^52, those of a
/// [`SlidingLog`] below 2^32. What is larger is refused when the limiter is made. A [charge](crate::RedisLimiter::charge)
/// of more than 2^53 − 1 counts as that.
///
/// ```
/// use plimsoll::{Concurrency, TokenBucket};
/// use plimsoll_redis::RedisRule;
/// use std::time::Duration;
///
/// let rate = RedisRule::from(TokenBucket::per_second(100));
/// let jobs = RedisRule::from(Concurrency::new(10)).lease(Duration::from_secs(10));
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct RedisRule {
    pub(crate) shape: Shape,
}

/// What a rule is made of.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    FixedWindow { quota: Quota, to_epoch: bool },
    SlidingWindow { quota: Quota, segments: u32 },
    SlidingCounter(Quota),
    Buckets(Vec<TokenBucket>),
    SlidingLog(SlidingLog),
    Concurrency { limit: u64, lease: Duration },
}

/// Which script part knows a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    FixedWindow,
    SlidingWindow,
    SlidingCounter,
    TokenBucket,
    SlidingLog,
    Concurrency,
}

impl Kind {
    /// How many there are.
    pub(crate) const COUNT: usize = Self::ALL.len();

    /// All of them, in their order.
    pub(crate) const ALL: [Self; 6] = [
        Self::FixedWindow,
        Self::SlidingWindow,
        Self::SlidingCounter,
        Self::TokenBucket,
        Self::SlidingLog,
        Self::Concurrency,
    ];

    /// The letter for it in scripts and keys.
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

/// How long a lease is good unless somebody says otherwise.
const LEASE: Duration = Duration::from_secs(30);

/// Moments are counted in doubles, which such a span does not exceed.
const LONGEST_LEASE: Duration = Duration::from_nanos(1 << 62);

/// The scripts count amounts in doubles, which hold whole numbers below 2^53: the sum of two of these.
const TOO_LARGE: u64 = 1 << 52;

/// A log keeps the sum of all that it ever recorded without a pause.
const TOO_LARGE_FOR_A_LOG: u64 = 1 << 32;

/// A window's counts are read and written whole.
const MOST_SEGMENTS: u32 = 1024;

impl RedisRule {
    const fn of(shape: Shape) -> Self {
        Self { shape }
    }

    /// How long a [concurrency](Concurrency) permit outlives a holder that crashed; 30 seconds unless said otherwise.
    /// While it is held it is renewed three times in this time. Other rules have no leases, and ignore it.
    pub fn lease(mut self, length: Duration) -> Self {
        if let Shape::Concurrency { lease, .. } = &mut self.shape {
            *lease = length;
        }
        self
    }

    /// The most that can be granted at once.
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

    /// What it promises, whatever its state.
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

    /// The length of its leases, if it has any.
    pub(crate) fn lease_length(&self) -> Option<Duration> {
        match self.shape {
            Shape::Concurrency { lease, .. } => Some(lease),
            _ => None,
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        match self.shape {
            Shape::FixedWindow { .. } => Kind::FixedWindow,
            Shape::SlidingWindow { .. } => Kind::SlidingWindow,
            Shape::SlidingCounter(_) => Kind::SlidingCounter,
            Shape::Buckets(_) => Kind::TokenBucket,
            Shape::SlidingLog(_) => Kind::SlidingLog,
            Shape::Concurrency { .. } => Kind::Concurrency,
        }
    }

    /// Whether the quick way of the scripts can decide it: all it multiplies stays below 2^52.
    pub(crate) fn is_everyday(&self) -> bool {
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

    /// The largest amount that it is made of, and what it is called.
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

    /// Whether Redis can keep it.
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

    /// Its arguments for the script, from the letter of its kind on. The id of a lease follows.
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

/// An amount that is asked for, as scripts read it. No limit is so large that a greater one would be answered otherwise.
pub(crate) fn amount(amount: u64) -> u64 {
    amount.min((1 << 53) - 1)
}

/// A whole number as scripts read it: what a double cannot hold is hexadecimal.
pub(crate) fn number(number: u128) -> String {
    if number < 1 << 53 {
        number.to_string()
    } else {
        format!("x{number:x}")
    }
}

/// A whole number as scripts write it.
pub(crate) fn read_number(text: &str) -> Option<u128> {
    match text.strip_prefix('x') {
        Some(hex) => u128::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// A moment as scripts read it: seconds and nanoseconds.
pub(crate) fn moment(moment: Moment) -> String {
    let nanos = moment.as_nanos();
    format!("{}.{}", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

/// A moment as scripts write it.
pub(crate) fn read_moment(text: &str) -> Option<Moment> {
    let (seconds, nanos) = text.split_once('.')?;
    let seconds: u64 = seconds.parse().ok()?;
    let nanos: u64 = nanos.parse().ok()?;
    let whole = seconds.checked_mul(1_000_000_000)?.checked_add(nanos)?;
    Some(Moment::from_nanos(whole))
}

impl From<FixedWindow> for RedisRule {
    fn from(rule: FixedWindow) -> Self {
        Self::of(Shape::FixedWindow {
            quota: rule.quota(),
            to_epoch: rule.is_aligned_to_epoch(),
        })
    }
}

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

impl From<Concurrency> for RedisRule {
    fn from(rule: Concurrency) -> Self {
        Self::of(Shape::Concurrency {
            limit: rule.limit(),
            lease: LEASE,
        })
    }
}
