//! How requests use a limit: whose it is, what a request costs, and what is answered.
//!
//! These fields stand beside the kind of a limit in a file. A [`Config`](crate::Config) holds them by the name of the limit
//! ([`Config::use_of`](crate::Config::use_of)); nothing in this crate acts on them.

mod answer;
mod cost;
mod key;
mod priority;
mod text;
mod tier;

use plimsoll_spec::{Limiter, Named};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use answer::header_fields;
pub use answer::{AnswerSpec, ProblemSpec, Status, StatusRange};
pub use cost::{CostPart, CostSpec};
pub use key::{KeyPart, KeySpec};
pub use priority::PrioritySpec;
pub(crate) use text::{Spelled, spelled, spelled_as_text};
pub use tier::{Tier, Tiers};

/// How requests use a limit.
///
/// ```
/// use plimsoll_config::uses::{CostSpec, KeyPart, Mode};
/// use plimsoll_config::{Config, Format};
///
/// let text = "limits:
///   per_user: { kind: fixed_window, limit: 10, window: 1s, key: [client, header:x-user], cost: 2, mode: shadow }
/// ";
/// let config = Config::from_str("limits.yaml", text, Format::Yaml)?;
/// let per_user = config.use_of("per_user").unwrap();
/// let key = per_user.key.as_ref().unwrap();
/// assert_eq!(key.0, [KeyPart::Client, KeyPart::Header("x-user".to_owned())]);
/// assert_eq!(per_user.cost, CostSpec::Fixed(2));
/// assert_eq!(per_user.mode, Mode::Shadow);
/// # Ok::<(), plimsoll_config::ConfigError>(())
/// ```
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a limiter: a map with a `kind`")]
#[non_exhaustive]
pub struct Use {
    /// Whose limit it is, such as `client`, `header:authorization` or [client, "form:user"]. It has a state for each key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeySpec>,
    /// What a request costs: a number, `content_length`, `header:x-cost`, `usage`, { status: [401, 5xx] } or { estimate: ... }; 1 unless set.
    #[serde(default, skip_serializing_if = "CostSpec::is_default")]
    pub cost: CostSpec,
    /// Whether it refuses, or only counts what it would refuse.
    #[serde(default, skip_serializing_if = "Mode::is_enforce")]
    pub mode: Mode,
    /// Other limits for those of whom a header, a claim or a lookup says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tiers: Option<Tiers>,
    /// Other limits for single keys, by their text.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    #[schemars(schema_with = "tier::by_any_text")]
    pub overrides: Named<Tier>,
    /// What is answered to a request that this limit refuses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<AnswerSpec>,
    /// What becomes of a request that has no key.
    #[serde(default, skip_serializing_if = "WithoutKey::is_refuse")]
    pub without_key: WithoutKey,
    /// How much a request matters that asks this limit: `critical`, `normal`, `non-critical` or `header:x-priority`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<PrioritySpec>,
}

impl Use {
    /// Every tier and every override, with the field that holds it and its name.
    pub fn tiers(&self) -> impl Iterator<Item = (&'static str, &str, &Tier)> {
        let tiers = self.tiers.iter().flat_map(|tiers| {
            let default = tiers.default.iter().map(|tier| (tier::DEFAULT, tier));
            tiers.of.iter().chain(default)
        });
        let tiers = tiers.map(|(name, tier)| ("tiers", name, tier));
        let overrides = self.overrides.iter();
        tiers.chain(overrides.map(|(key, tier)| ("overrides", key, tier)))
    }

    pub(crate) fn limits_mut(&mut self) -> impl Iterator<Item = &mut Limiter> {
        let tiers = self.tiers.iter_mut().flat_map(|tiers| {
            let default = tiers.default.iter_mut();
            tiers.of.values_mut().chain(default)
        });
        let tiers = tiers.chain(self.overrides.values_mut());
        tiers.filter_map(|tier| match tier {
            Tier::Limit(limiter) => Some(&mut **limiter),
            _ => None,
        })
    }
}

/// Whether a limit refuses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Mode {
    /// It refuses what does not fit.
    #[default]
    Enforce,
    /// It counts, says what it would have refused, and refuses nothing.
    Shadow,
}

/// What becomes of a request from which the key of a limit cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WithoutKey {
    /// It is refused.
    #[default]
    Refuse,
    /// The limit is not asked.
    Skip,
    /// All requests without a key share one.
    Share,
}

impl Mode {
    const fn is_enforce(&self) -> bool {
        matches!(self, Self::Enforce)
    }
}

impl WithoutKey {
    const fn is_refuse(&self) -> bool {
        matches!(self, Self::Refuse)
    }
}
