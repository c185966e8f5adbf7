use std::collections::HashMap;
use std::time::Duration;

use super::Policies;
use super::decision::LONGEST_MS;
use super::subject::OpCode;
use super::tiers::Policy;
use crate::{Clock, InvalidLimit, TokenBucket};

/// What all policies of one [`Policies`] have in common.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) clock: Clock,
    pub(super) max_policies: usize,
    pub(super) policy_idle: Duration,
    pub(super) cleanup_interval: u64,
    pub(super) max_subjects: usize,
    pub(super) stale: Duration,
    pub(super) max_soft_violations: u32,
    pub(super) soft_window: Duration,
    pub(super) lockout: Duration,
    pub(super) initial_tokens: Option<u32>,
    pub(super) ipv6_prefix: u8,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            clock: Clock::system(),
            max_policies: 64,
            policy_idle: Duration::from_secs(1800),
            cleanup_interval: 1024,
            max_subjects: 10_000,
            stale: Duration::from_secs(300),
            max_soft_violations: 3,
            soft_window: Duration::from_secs(5),
            lockout: Duration::ZERO,
            initial_tokens: None,
            ipv6_prefix: 128,
        }
    }
}

/// Handlers with their policies, and settings for all of them. See [`Policies::builder`].
///
/// Nothing is checked before [`build`](Self::build), which says what is wrong.
#[derive(Debug)]
#[must_use]
pub struct PoliciesBuilder {
    handlers: Vec<(OpCode, Policy)>,
    fallback: Option<TokenBucket>,
    settings: Settings,
    token_scale: u32,
    shards: usize,
}

impl PoliciesBuilder {
    pub(super) fn new() -> Self {
        Self {
            handlers: Vec::new(),
            fallback: Some(TokenBucket::per_second(6).with_burst(12)),
            settings: Settings::default(),
            token_scale: 1000,
            shards: 32,
        }
    }

    /// Declares the policy of a handler. Each handler has one.
    pub fn handler(mut self, op: impl Into<OpCode>, policy: Policy) -> Self {
        self.handlers.push((op.into(), policy));
        self
    }

    /// Limits each address by `bucket` in everything that no policy was declared for, taken together. 6 per
    /// second and 12 at once unless set; not rounded to a tier.
    pub fn fallback(mut self, bucket: TokenBucket) -> Self {
        self.fallback = Some(bucket);
        self
    }

    /// Admits everything that no policy was declared for.
    pub fn without_fallback(mut self) -> Self {
        self.fallback = None;
        self
    }

    /// Takes time from `clock` instead of [`Clock::system`].
    pub fn clock(mut self, clock: Clock) -> Self {
        self.settings.clock = clock;
        self
    }

    /// Keeps at most so many policies active, 64 unless set. There are 56 tiers, so only a lower number ever
    /// makes handlers share a policy that neither declared. From 1 to 64.
    pub fn max_policies(mut self, policies: usize) -> Self {
        self.settings.max_policies = policies;
        self
    }

    /// Sweeps a policy that nobody has used for longer than this, half an hour unless set, but not while it
    /// remembers anything that still matters, such as a longer lockout. More than 0.
    pub fn policy_idle(mut self, idle: Duration) -> Self {
        self.settings.policy_idle = idle;
        self
    }

    /// Looks for unused policies every so many evaluations, 1024 unless set. At least 1.
    pub fn cleanup_interval(mut self, evaluations: u64) -> Self {
        self.settings.cleanup_interval = evaluations;
        self
    }

    /// Keeps at most so many subjects for each policy and as many addresses for the fallback, 10,000 unless
    /// set. Further ones are refused until there is room; nobody loses a place to them. At least 1.
    pub fn max_subjects(mut self, subjects: usize) -> Self {
        self.settings.max_subjects = subjects;
        self
    }

    /// Remembers a subject for so long after its last packet, 5 minutes unless set, if forgetting it could cost
    /// it anything: if subjects start with fewer [tokens](Self::initial_tokens) than they can save up. All others
    /// are forgotten as soon as they are no worse than new, and nobody before that. More than 0.
    pub fn stale(mut self, stale: Duration) -> Self {
        self.settings.stale = stale;
        self
    }

    /// Locks a subject out at so many refusals in a row, 3 unless set. At least 1.
    pub fn max_soft_violations(mut self, violations: u32) -> Self {
        self.settings.max_soft_violations = violations;
        self
    }

    /// Counts refusals as in a row if each comes within this time of the one before, 5 seconds unless set.
    /// More than 0.
    pub fn soft_window(mut self, window: Duration) -> Self {
        self.settings.soft_window = window;
        self
    }

    /// Locks subjects out for so long. 0, the default, locks nobody out. At most 2147483647 ms, so that a hint
    /// can say it.
    pub fn lockout(mut self, lockout: Duration) -> Self {
        self.settings.lockout = lockout;
        self
    }

    /// Starts each subject of a policy with so many tokens instead of a full bucket; a bucket that holds fewer
    /// starts full. At most 64. The fallback's bucket says so [itself](TokenBucket::with_initial).
    pub fn initial_tokens(mut self, tokens: u32) -> Self {
        self.settings.initial_tokens = Some(tokens);
        self
    }

    /// Limits all IPv6 addresses that share so many leading bits as one. From 1 to 128.
    ///
    /// 128, each address by itself, unless set: a shorter prefix makes strangers pay for each other, and only
    /// you know who they are. A server on the open internet should say 64, as a single customer is commonly given
    /// that much and may send from any of its addresses.
    pub fn ipv6_prefix(mut self, bits: u8) -> Self {
        self.settings.ipv6_prefix = bits;
        self
    }

    /// Changes nothing: arithmetic here is exact, without a scale. Taken, and checked, so that settings written for
    /// a limiter that counts in fractions of a token can be read. From 1 to 1,000,000.
    pub fn token_scale(mut self, scale: u32) -> Self {
        self.token_scale = scale;
        self
    }

    /// Changes nothing: a [`Keyed`](crate::Keyed) limit chooses its shards by how many keys it may have. Taken, and
    /// checked, so that settings written for another limiter can be read. A power of two.
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = shards;
        self
    }

    /// Builds the policies.
    ///
    /// # Errors
    ///
    /// If a setting is out of its range, a policy is not a number, or a handler has two: names the option, its
    /// value, and what was expected.
    pub fn build(self) -> Result<Policies, InvalidLimit> {
        self.check()?;
        let mut handlers = HashMap::new();
        for (op, policy) in self.handlers {
            if handlers.insert(op, policy.in_force()?).is_some() {
                return Err(InvalidLimit::new("handler", op, "one policy for each"));
            }
        }
        Ok(Policies::new(handlers, self.fallback, self.settings))
    }

    fn check(&self) -> Result<(), InvalidLimit> {
        let settings = &self.settings;
        let within = |field, value: u64, least: u64, most: u64, rule| {
            if (least..=most).contains(&value) {
                return Ok(());
            }
            Err(InvalidLimit::new(field, value, rule))
        };
        let some_time = |field, value: Duration| {
            if value.is_zero() {
                return Err(InvalidLimit::new(field, "0s", "more than 0"));
            }
            Ok(())
        };
        let (max, prefix) = (settings.max_policies as u64, settings.ipv6_prefix.into());
        within("max_policies", max, 1, 64, "from 1 to 64")?;
        within("ipv6_prefix", prefix, 1, 128, "from 1 to 128")?;
        let scale = self.token_scale.into();
        within("token_scale", scale, 1, 1_000_000, "from 1 to 1000000")?;
        let initial = settings.initial_tokens.unwrap_or(0).into();
        within("initial_tokens", initial, 0, 64, "at most 64")?;
        let at_least_one = [
            ("cleanup_interval", settings.cleanup_interval),
            ("max_subjects", settings.max_subjects as u64),
            ("max_soft_violations", settings.max_soft_violations.into()),
        ];
        for (field, value) in at_least_one {
            within(field, value, 1, u64::MAX, "at least 1")?;
        }
        some_time("policy_idle", settings.policy_idle)?;
        some_time("stale", settings.stale)?;
        some_time("soft_window", settings.soft_window)?;
        if settings.lockout > Duration::from_millis(LONGEST_MS.into()) {
            let lockout = format!("{:?}", settings.lockout);
            let rule = "at most 2147483647 ms";
            return Err(InvalidLimit::new("lockout", lockout, rule));
        }
        if !self.shards.is_power_of_two() {
            return Err(InvalidLimit::new("shards", self.shards, "a power of two"));
        }
        Ok(())
    }
}
