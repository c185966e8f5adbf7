//! The use of limits by requests: the key, the cost of a request, and the response to a refusal.
//!
//! In a file these fields are next to the kind of a limit. [`Config::use_of`](crate::Config::use_of) returns them by
//! the name of the limit. This crate only reads them; `plimsoll-engine` applies them.
//!
//! | field | type | example |
//! |---|---|---|
//! | `key` | [`KeySpec`] | `key: [client, header:x-user]` |
//! | `cost` | [`CostSpec`] | `cost: { estimate: json:/max_tokens, actual: usage }` |
//! | `mode` | [`Mode`] | `mode: shadow` |
//! | `tiers` | [`Tiers`] | `tiers: { by: header:x-plan, pro: 1000/min, internal: unlimited }` |
//! | `overrides` | [`Tier`] | `overrides: { crawler: blocked }` |
//! | `answer` | [`AnswerSpec`] | `answer: { status: 503, body: "come back later" }` |
//! | `without_key` | [`WithoutKey`] | `without_key: share` |
//! | `priority` | [`PrioritySpec`] | `priority: header:x-priority` |
//!
//! # Refusals with a problem document
//!
//! The response to a refusal is an [`AnswerSpec`]; its `problem` is a [`ProblemSpec`]:
//!
//! ```
//! use plimsoll_config::{Config, Format};
//!
//! let text = "
//! limits:
//!   logins:
//!     kind: fixed_window
//!     limit: 5
//!     window: 10m
//!     key: client
//!     answer: { status: 403, problem: { type: https://example.com/locked, title: Locked } }
//! ";
//! let config = Config::from_str("limits.yaml", text, Format::Yaml)?;
//! let answer = config.use_of("logins").unwrap().answer.as_ref().unwrap();
//! assert_eq!(answer.status.unwrap().code(), 403);
//! assert_eq!(answer.problem.as_ref().unwrap().title.as_deref(), Some("Locked"));
//! # Ok::<(), plimsoll_config::ConfigError>(())
//! ```
//!
//! # Requests without a key
//!
//! A limit with a `key` refuses requests that have none, unless `without_key` says otherwise:
//!
//! ```
//! use plimsoll_config::uses::WithoutKey;
//! use plimsoll_config::{Config, Format};
//!
//! let text = "limits: { tenant: { rate: 10/s, key: header:x-tenant, without_key: share } }";
//! let config = Config::from_str("limits.yaml", text, Format::Yaml)?;
//! assert_eq!(config.use_of("tenant").unwrap().without_key, WithoutKey::Share);
//! # Ok::<(), plimsoll_config::ConfigError>(())
//! ```

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

/// The use of a limit by requests.
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
    /// The key of a request, such as `client`, `header:authorization` or [client, "form:user"]. The limit has a state for each key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeySpec>,
    /// The cost of a request: a number, `content_length`, `header:x-cost`, `usage`, { status: [401, 5xx] } or { estimate: ... }; 1 unless set.
    #[serde(default, skip_serializing_if = "CostSpec::is_default")]
    pub cost: CostSpec,
    /// Whether it is enforced, or only counts the requests that it would refuse.
    #[serde(default, skip_serializing_if = "Mode::is_enforce")]
    pub mode: Mode,
    /// Other limits by tier, which a header field, a claim or another part of the request names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tiers: Option<Tiers>,
    /// Other limits for single keys, by the text of the key.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    #[schemars(schema_with = "tier::by_any_text")]
    pub overrides: Named<Tier>,
    /// The response to a request that this limit refuses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<AnswerSpec>,
    /// How a request without a key is handled.
    #[serde(default, skip_serializing_if = "WithoutKey::is_refuse")]
    pub without_key: WithoutKey,
    /// The priority of a request to this limit: `critical`, `normal`, `non-critical` or `header:x-priority`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<PrioritySpec>,
}

impl Use {
    /// Returns all tiers and overrides: the field that holds each (`tiers` or `overrides`), its name and its limit.
    ///
    /// ```
    /// use plimsoll_config::{Config, Format};
    ///
    /// let text = "limits: { api: { rate: 10/s, key: client, tiers: { by: header:x-plan, pro: 100/s }, overrides: { crawler: blocked } } }";
    /// let config = Config::from_str("limits.yaml", text, Format::Yaml)?;
    /// let names: Vec<_> = config.use_of("api").unwrap().tiers().map(|(field, name, _)| (field, name)).collect();
    /// assert_eq!(names, [("tiers", "pro"), ("overrides", "crawler")]);
    /// # Ok::<(), plimsoll_config::ConfigError>(())
    /// ```
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

/// Whether a limit is enforced.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Mode {
    /// It refuses requests over the limit.
    #[default]
    Enforce,
    /// It counts and reports the requests that it would refuse, and refuses nothing.
    Shadow,
}

/// How a request without the key of a limit is handled.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WithoutKey {
    /// The request is refused.
    #[default]
    Refuse,
    /// The limit is skipped.
    Skip,
    /// All requests without a key share one state.
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
