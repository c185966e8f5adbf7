//! Policies that handlers declare, and their common settings.

use std::time::Duration;

use plimsoll::{InvalidLimit, Metadata, Quota, TokenBucket};
use plimsoll_policy::{PoliciesBuilder, PolicyKeys};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::invalid::InvalidSpec;
use crate::named::Named;
use crate::path::Step;
use crate::value::{Count, Period, Positive, Signed, Span};

/// A rate and a burst for each operation and each of its callers. The key of a request is an operation and its caller.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
#[non_exhaustive]
pub struct Policies {
    /// The policy of each operation, by its name.
    pub handlers: Named<Policy>,
    /// The limit of all operations without a policy together, for each caller, or `none`. As in the section `policies` unless
    /// set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Fallback>,
    /// The number of refusals in a row that start a lockout. As in the section `policies` unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_soft_violations: Option<Count>,
    /// The longest time between two refusals in a row. As in the section `policies` unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft_window: Option<Period>,
    /// The length of a lockout; 0 for none. As in the section `policies` unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lockout: Option<Span>,
    /// The initial tokens of each caller, at most 64. As in the section `policies` unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_tokens: Option<u64>,
    /// The time for which the state of a caller that does not start with all tokens is kept. As in the section `policies` unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject_idle: Option<Period>,
}

/// The policy of an operation. Both numbers are rounded up to a power of two: the rate to at most 128, the burst to at
/// most 64.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "a policy such as { rps: 5, burst: 10 }"
)]
#[non_exhaustive]
pub struct Policy {
    /// Requests per second. At or below 0: unlimited.
    pub rps: Signed,
    /// The most requests at once. At or below 0: everything is refused.
    #[serde(default = "one")]
    pub burst: Signed,
}

const fn one() -> Signed {
    Signed(1.0)
}

/// The limit of operations without a policy.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize, JsonSchema)]
#[serde(rename = "either", rename_all = "snake_case")]
#[schemars(rename = "Fallback", untagged)]
#[non_exhaustive]
pub enum Fallback {
    /// They are not limited.
    Word(NoFallback),
    /// A limit for all of them together.
    Rate(FallbackRate),
}

/// Operations without a policy are not limited.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NoFallback {
    /// Not limited.
    None,
}

/// The limit of all operations without a policy together. These numbers are not rounded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "`none`, or a limit such as { rps: 6, burst: 12 }"
)]
#[non_exhaustive]
pub struct FallbackRate {
    /// Requests per second.
    pub rps: Positive,
    /// The most requests at once.
    pub burst: Positive,
}

impl FallbackRate {
    /// Returns the token bucket of each caller.
    ///
    /// # Errors
    ///
    /// Returns an error if the rate or the burst is too large.
    pub fn bucket(&self) -> Result<TokenBucket, InvalidSpec> {
        let quota = Quota::try_new(self.rps.0, Duration::from_secs(1));
        let quota = quota.map_err(|invalid| InvalidSpec::of("rps", invalid));
        let bucket = quota.and_then(|quota| {
            let bucket = TokenBucket::greedy(quota).try_burst(self.burst.0);
            bucket.map_err(|invalid| InvalidSpec::of("burst", invalid))
        });
        bucket.map_err(|invalid| invalid.under(Step::Key("fallback")))
    }
}

impl Serialize for Fallback {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Word(word) => word.serialize(serializer),
            Self::Rate(rate) => rate.serialize(serializer),
        }
    }
}

/// Defaults of all policies: of limits of `kind: policies`, and of handlers that declare their policies in the program.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "settings of policies such as { lockout: 60s }"
)]
#[non_exhaustive]
pub struct PolicySettings {
    /// The limit of all operations without a policy together, for each address; { rps: 6, burst: 12 } unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Fallback>,
    /// The number of refusals in a row that start a lockout; 3 unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_soft_violations: Option<Count>,
    /// The longest time between two refusals in a row; 5 seconds unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft_window: Option<Period>,
    /// The length of a lockout; 0, for none, unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lockout: Option<Span>,
    /// The initial tokens of each subject, at most 64; all of them unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_tokens: Option<u64>,
    /// The time for which the state of a subject that does not start with all tokens is kept; 5 minutes unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject_idle: Option<Period>,
    /// The largest number of subjects of each policy; 10000 unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_subjects: Option<Positive>,
    /// The largest number of active policies of handlers in the program, at most 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_policies: Option<Count>,
    /// The time without use after which a policy of handlers in the program is swept; 30 minutes unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_idle: Option<Period>,
    /// The interval of these sweeps; each minute unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleanup_interval: Option<Period>,
}

impl PolicySettings {
    /// Returns a builder of policies with these settings. Settings that are not set have the defaults of the builder.
    ///
    /// ```
    /// use plimsoll_spec::{PolicySettings, Units, document, read_one};
    ///
    /// let root = document("{ lockout: 60s, fallback: none }", "settings")?;
    /// let settings: PolicySettings = read_one(&root, Units::Required)?;
    /// let policies = settings.builder().unwrap().build();
    /// assert!(policies.is_ok());
    /// # Ok::<(), plimsoll_spec::Problem>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the fallback is too large. `build` of the builder checks the other settings.
    pub fn builder(&self) -> Result<PoliciesBuilder, InvalidSpec> {
        let count = |count| usize::try_from(count).unwrap_or(usize::MAX);
        let builder = plimsoll_policy::Policies::builder();
        let builder = match self.fallback {
            None => builder,
            Some(Fallback::Word(_)) => builder.without_fallback(),
            Some(Fallback::Rate(rate)) => builder.fallback(rate.bucket()?),
        };
        let builder = set(builder, self.max_soft_violations, |it, most| {
            it.max_soft_violations(most.0)
        });
        let builder = set(builder, self.soft_window, |it, window| {
            it.soft_window(window.into())
        });
        let builder = set(builder, self.lockout, |it, lockout| {
            it.lockout(lockout.into())
        });
        let builder = set(builder, self.initial_tokens, |it, tokens| {
            it.initial_tokens(tokens)
        });
        let builder = set(builder, self.subject_idle, |it, idle| {
            it.subject_idle(idle.into())
        });
        let builder = set(builder, self.max_subjects, |it, most| {
            it.max_subjects(count(most.0))
        });
        let builder = set(builder, self.max_policies, |it, most| {
            it.max_policies(count(most.0.into()))
        });
        let builder = set(builder, self.policy_idle, |it, idle| {
            it.policy_idle(idle.into())
        });
        Ok(set(builder, self.cleanup_interval, |it, interval| {
            it.cleanup_interval(interval.into())
        }))
    }

    /// Checks the settings by building policies with them.
    ///
    /// # Errors
    ///
    /// Returns an error that names the setting if one is out of its range.
    pub fn check(&self) -> Result<(), InvalidSpec> {
        Ok(self.builder()?.build().map(drop)?)
    }
}

/// Applies a setting if it is set.
fn set<T>(
    builder: PoliciesBuilder,
    setting: Option<T>,
    to: impl FnOnce(PoliciesBuilder, T) -> PoliciesBuilder,
) -> PoliciesBuilder {
    match setting {
        Some(setting) => to(builder, setting),
        None => builder,
    }
}

impl Policies {
    /// Sets the settings that are not set to those of the section `policies`.
    pub fn fill_from(&mut self, all: &PolicySettings) {
        self.fallback = self.fallback.or(all.fallback);
        self.max_soft_violations = self.max_soft_violations.or(all.max_soft_violations);
        self.soft_window = self.soft_window.or(all.soft_window);
        self.lockout = self.lockout.or(all.lockout);
        self.initial_tokens = self.initial_tokens.or(all.initial_tokens);
        self.subject_idle = self.subject_idle.or(all.subject_idle);
    }

    /// Returns the settings of these policies. Those that a single limit cannot have are not set.
    #[must_use]
    pub fn settings(&self) -> PolicySettings {
        PolicySettings {
            fallback: self.fallback,
            max_soft_violations: self.max_soft_violations,
            soft_window: self.soft_window,
            lockout: self.lockout,
            initial_tokens: self.initial_tokens,
            subject_idle: self.subject_idle,
            ..PolicySettings::default()
        }
    }

    /// Builds the limit by key. `with` may add settings to the builder, such as a clock.
    ///
    /// # Errors
    ///
    /// Returns an error if there are no handlers, or a setting is out of its range.
    pub fn by_key(
        &self,
        name: &str,
        about: Option<Metadata>,
        with: impl FnOnce(PoliciesBuilder) -> PoliciesBuilder,
    ) -> Result<PolicyKeys, InvalidSpec> {
        if self.handlers.is_empty() {
            let rule = "at least one handler such as { login: { rps: 5, burst: 10 } }";
            return Err(InvalidLimit::new("handlers", "none", rule).into());
        }
        let handlers = self.handlers.iter().map(|(op, policy)| {
            let declared = plimsoll_policy::Policy::per_second(policy.rps.0);
            (op, declared.burst(policy.burst.0))
        });
        let builder = with(self.settings().builder()?);
        Ok(builder.by_key(name, about, handlers)?)
    }
}
