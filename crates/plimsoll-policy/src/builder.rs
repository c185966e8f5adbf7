use std::collections::HashMap;
use std::time::Duration;

use plimsoll::{Clock, InvalidLimit, TokenBucket};

use crate::policies::Policies;
use crate::settings::Settings;
use crate::subject::OpCode;
use crate::tiers::Policy;

/// Handlers with their policies, and the settings that all of them share. [`Policies::builder`] returns one.
///
/// Setters check nothing. [`build`](Self::build) checks everything, and its error names the setting, its value and the
/// allowed values.
///
/// ```
/// use plimsoll_policy::{Policies, Policy};
/// use std::time::Duration;
///
/// let policies = Policies::builder()
///     .handler(1_u32, Policy::per_second(5.0).burst(10.0))
///     .ipv6_prefix(64)
///     .max_soft_violations(5)
///     .lockout(Duration::from_secs(60))
///     .build();
/// assert!(policies.is_ok());
///
/// let invalid = Policies::builder().max_policies(65).build().unwrap_err();
/// assert_eq!(invalid.to_string(), "`max_policies` is 65: expected from 1 to 64");
/// ```
#[derive(Debug)]
#[must_use]
pub struct PoliciesBuilder {
    handlers: Vec<(OpCode, Policy)>,
    fallback: Option<TokenBucket>,
    settings: Settings,
}

impl Policies {
    /// Returns a builder without handlers, with the default settings and fallback.
    pub fn builder() -> PoliciesBuilder {
        PoliciesBuilder {
            handlers: Vec::new(),
            fallback: Some(TokenBucket::per_second(6).burst(12)),
            settings: Settings::default(),
        }
    }
}

impl PoliciesBuilder {
    /// Sets the policy of a handler. Each handler has one.
    pub fn handler(mut self, op: impl Into<OpCode>, policy: Policy) -> Self {
        self.handlers.push((op.into(), policy));
        self
    }

    /// Sets the bucket that limits each address, over all operations without a policy together. Default: 6 per second,
    /// burst 12. The numbers are not rounded to a tier.
    pub fn fallback(mut self, bucket: TokenBucket) -> Self {
        self.fallback = Some(bucket);
        self
    }

    /// Admits every packet of an operation without a policy.
    pub fn without_fallback(mut self) -> Self {
        self.fallback = None;
        self
    }

    /// Sets the clock. Default: [`Clock::system`].
    pub fn clock(mut self, clock: Clock) -> Self {
        self.settings.clock = clock;
        self
    }

    /// Sets the largest number of active policies, from 1 to 64. Default: 64.
    ///
    /// There are 56 tiers, so only a number below 56 has an effect: once this number of policies is active, a further
    /// tier is served by the closest active one.
    pub fn max_policies(mut self, policies: usize) -> Self {
        self.settings.max_policies = policies;
        self
    }

    /// Sets the idle time, more than 0, after which a policy is swept. Default: 30 minutes.
    ///
    /// A policy with a state that still counts, such as a longer lockout, is swept later.
    pub fn policy_idle(mut self, idle: Duration) -> Self {
        self.settings.policy_idle = idle;
        self
    }

    /// Sets the interval of sweeps for idle policies, more than 0. Default: 1 minute. Sweeps run on evaluations, and at
    /// the latest after 1024 of them.
    pub fn cleanup_interval(mut self, interval: Duration) -> Self {
        self.settings.cleanup_interval = interval;
        self
    }

    /// Sets the largest number of subjects of each policy, and of addresses of the fallback, at least 1. Default:
    /// 10,000.
    ///
    /// Further subjects are refused until a state is evicted. Only states of full buckets are evicted.
    pub fn max_subjects(mut self, subjects: usize) -> Self {
        self.settings.max_subjects = subjects;
        self
    }

    /// Sets how long a subject is retained after its last packet, more than 0. Default: 5 minutes.
    ///
    /// This applies only if subjects start with fewer [tokens](Self::initial_tokens) than their bucket holds, because eviction would
    /// then discard refilled tokens. If they start full, a state is evicted as soon as its bucket is full again.
    pub fn subject_idle(mut self, idle: Duration) -> Self {
        self.settings.subject_idle = idle;
        self
    }

    /// Sets the number of refusals in a row that starts a lockout, at least 1. Default: 3.
    pub fn max_soft_violations(mut self, violations: u32) -> Self {
        self.settings.max_soft_violations = violations;
        self
    }

    /// Sets the longest time between two refusals in a row, more than 0. Default: 5 seconds.
    pub fn soft_window(mut self, window: Duration) -> Self {
        self.settings.soft_window = window;
        self
    }

    /// Sets the length of a lockout, at most 2147483647 ms, so that `retry_after_ms` can hold it. Default: 0, no
    /// lockouts.
    pub fn lockout(mut self, lockout: Duration) -> Self {
        self.settings.lockout = lockout;
        self
    }

    /// Sets the number of tokens with which each subject of a policy starts, at most 64. Default: a full bucket.
    ///
    /// A bucket that holds fewer starts full. The bucket of the fallback has
    /// [its own setting](TokenBucket::initial).
    pub fn initial_tokens(mut self, tokens: u64) -> Self {
        self.settings.initial_tokens = Some(tokens);
        self
    }

    /// Sets the number of leading bits, from 1 to 128, by which IPv6 addresses count as one. Default: 128, each by
    /// itself.
    ///
    /// A shorter prefix makes clients of one network share a limit, so it is opt-in. A server on the open internet
    /// should set 64: providers commonly assign a customer at least that much, and the customer can send from any
    /// address in it.
    pub fn ipv6_prefix(mut self, bits: u8) -> Self {
        self.settings.ipv6_prefix = bits;
        self
    }

    /// Builds the policies.
    ///
    /// # Errors
    ///
    /// Returns an error if a setting is out of its range, a number of a policy is NaN, or a handler has two policies.
    pub fn build(mut self) -> Result<Policies, InvalidLimit> {
        let (mut handlers, declared) = (HashMap::new(), std::mem::take(&mut self.handlers));
        let (fallback, settings) = self.into_parts()?;
        for (op, policy) in declared {
            if handlers.insert(op, policy.effective()?).is_some() {
                return Err(InvalidLimit::new("handler", op, "one policy for each"));
            }
        }
        Ok(Policies::new(handlers, fallback, settings))
    }

    /// A handler that was declared by number.
    pub(crate) fn first_handler(&self) -> Option<OpCode> {
        self.handlers.first().map(|(op, _)| *op)
    }

    /// The fallback and the settings, if they are in their ranges.
    pub(crate) fn into_parts(self) -> Result<(Option<TokenBucket>, Settings), InvalidLimit> {
        self.settings.check()?;
        Ok((self.fallback, self.settings))
    }
}
