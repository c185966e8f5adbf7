//! Saving the state of limiters, and restoring it in another process.

use std::sync::Arc;

use plimsoll::{Carry, Moment, Rule};
use plimsoll_policy::SubjectState;
use plimsoll_spec::{AnyRate, AnyState, Kind};
use serde::{Deserialize, Serialize};

use super::Limits;
use super::in_place::ChangeInPlace;
use crate::check::Definition;

/// One record of the saved state of limiters in memory. [`Limits::save`] writes them, and [`Limits::restore`] reads them.
///
/// Rates are saved with their whole state, and continue unchanged. Adaptive limits are saved with the limit that they have
/// found. Permits in use are not saved, because the next process does not know their holders, nor are the limits that an
/// adaptive limiter has found for single keys: [`Saved::LeftOut`] counts them.
///
/// Moments are those of the clock of the limits. [`Clock::system`](plimsoll::Clock::system) counts from the Unix epoch, so
/// that moments have the same meaning in every process on a machine with a correct clock.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Saved {
    /// A rate without keys.
    Rate {
        /// The name of the limiter.
        limiter: String,
        /// Its description.
        #[serde(with = "description")]
        kind: Kind,
        /// The moment from which its windows and refills are counted.
        began: Moment,
        /// Its state.
        state: AnyState,
    },
    /// A rate with keys. Its keys follow.
    Keys {
        /// The name of the limiter.
        limiter: String,
        /// Its description.
        #[serde(with = "description")]
        kind: Kind,
        /// The moment from which its windows and refills are counted.
        began: Moment,
    },
    /// A key of the limiter in the last `Keys` record.
    Key(String, AnyState),
    /// A key whose last tier is the limiter in the last `Keys` record. Limiters ignore it: the engine assigns tiers to keys.
    Last(String),
    /// A subject of the policies in the last `Keys` record.
    Subject(String, SubjectState),
    /// State of a limiter that is not saved.
    LeftOut {
        /// The name of the limiter.
        limiter: String,
        /// The number of permits in use.
        permits: u64,
        /// The number of keys with a learned limit.
        learned: u64,
    },
    /// The limit that an adaptive limiter has found.
    Learned {
        /// The name of the limiter.
        limiter: String,
        /// The limit.
        limit: u64,
    },
}

/// A description as JSON, in the format of files.
mod description {
    use plimsoll_spec::{Kind, Units, parse, read_one};
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::Value;

    pub(super) fn serialize<S: Serializer>(kind: &Kind, to: S) -> Result<S::Ok, S::Error> {
        kind.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Kind, D::Error> {
        let written = Value::deserialize(from)?;
        let mut fields = serde_json::Map::new();
        if let Value::Object(written) = written {
            for (word, its) in written {
                fields.insert("kind".to_owned(), word.into());
                if let Value::Object(its) = its {
                    fields.extend(its);
                }
            }
        }
        let tree = parse(&Value::Object(fields).to_string()).map_err(D::Error::custom)?;
        let tree = tree.ok_or_else(|| D::Error::custom("expected a description"))?;
        read_one(&tree, Units::Required).map_err(D::Error::custom)
    }
}

impl Saved {
    fn limiter(&self) -> Option<&str> {
        match self {
            Self::Rate { limiter, .. }
            | Self::Keys { limiter, .. }
            | Self::Learned { limiter, .. } => Some(limiter),
            Self::Key(..) | Self::Last(_) | Self::Subject(..) | Self::LeftOut { .. } => None,
        }
    }

    /// The record of state that is not saved, if there is any.
    pub(super) fn left_out(limiter: &str, permits: u64, learned: usize) -> Vec<Self> {
        let left_out = Self::LeftOut {
            limiter: limiter.to_owned(),
            permits,
            learned: learned as u64,
        };
        Vec::from_iter((permits > 0 || learned > 0).then_some(left_out))
    }
}

/// The saved state that a new limiter continues from.
#[derive(Clone, Copy, Default)]
pub(super) struct Earlier<'a>(Option<&'a Saved>);

impl<'a> Earlier<'a> {
    pub(super) fn of(to: &Definition, saved: &'a [Saved]) -> Self {
        let mut saved = saved.iter();
        Self(saved.find(|it| it.limiter() == Some(&to.id)))
    }

    /// The moment at which its rule began, if it is the same rule.
    pub(super) fn began(self, to: &Definition) -> Option<Moment> {
        match self.0? {
            Saved::Rate { kind, began, .. } | Saved::Keys { kind, began, .. } => {
                (*kind == to.limiter.kind).then_some(*began)
            }
            _ => None,
        }
    }

    /// The limit that it had found.
    pub(super) const fn learned(self) -> Option<u64> {
        match self.0 {
            Some(Saved::Learned { limit, .. }) => Some(*limit),
            _ => None,
        }
    }
}

/// The rule of a saved state, if it differs from the present rule of the limiter.
pub(super) struct Before(Option<AnyRate>);

impl Before {
    /// The state, converted to the present rule of the limiter. `None` if it cannot be converted.
    pub(super) fn state(&self, now: &AnyRate, state: &AnyState, at: Moment) -> Option<AnyState> {
        match &self.0 {
            None => now.knows(state).then(|| state.clone()),
            Some(before) => before
                .knows(state)
                .then(|| now.adopt(before, state, at, Carry::Used)),
        }
    }
}

/// Restores [saved](Limits::save) state, one record at a time. [`Limits::restore`] returns it.
pub struct Restore<'a> {
    limits: &'a Limits,
    /// The limiter whose keys follow.
    keys: Option<(Arc<dyn ChangeInPlace>, Before)>,
}

impl Restore<'_> {
    /// Restores one record. Returns false if the file no longer has its limiter.
    pub fn put(&mut self, saved: Saved) -> bool {
        match saved {
            Saved::Key(key, state) => {
                let keys = self.keys.as_ref();
                keys.is_some_and(|(keys, before)| keys.restore_key(&key, &state, before))
            }
            Saved::Rate {
                limiter,
                kind,
                began,
                state,
            } => {
                let found = self.find(&limiter, false, &kind, began);
                found.is_some_and(|(limiter, before)| limiter.restore(&state, &before))
            }
            Saved::Keys {
                limiter,
                kind,
                began,
            } => {
                self.keys = self.find(&limiter, true, &kind, began);
                self.keys.is_some()
            }
            Saved::Subject(key, state) => {
                let keys = self.keys.as_ref();
                keys.is_some_and(|(keys, _)| keys.restore_subject(&key, state))
            }
            // The limiter was built with it, or it is not for limiters.
            Saved::Learned { .. } | Saved::Last(_) | Saved::LeftOut { .. } => true,
        }
    }

    fn find(
        &self,
        limiter: &str,
        keyed: bool,
        kind: &Kind,
        began: Moment,
    ) -> Option<(Arc<dyn ChangeInPlace>, Before)> {
        let set = self.limits.current();
        let live = set.running.get(limiter)?;
        let to = &live.definition;
        if to.is_keyed() != keyed {
            return None;
        }
        if let Kind::Policies(_) = kind {
            // Policies of another description have other tables.
            let same = to.limiter.kind == *kind;
            return same.then(|| (Arc::clone(&live.change), Before(None)));
        }
        if !to.limiter.kind.is_rate() {
            return None;
        }
        let before = if to.limiter.kind == *kind {
            None
        } else {
            let mut rule = kind.any_rate()?.ok()?;
            rule.begin(began);
            Some(rule)
        };
        Some((Arc::clone(&live.change), Before(before)))
    }
}

impl std::fmt::Debug for Restore<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Restore").finish_non_exhaustive()
    }
}

impl Limits {
    /// Calls `see` with each record of the state of limiters in memory, for [`Config::build_saved`](crate::Config::build_saved) and
    /// [`restore`](Self::restore) in another process. Visits every key, locking one shard at a time.
    ///
    /// ```
    /// use plimsoll::Clock;
    /// use plimsoll_config::{Config, Format};
    ///
    /// let text = "limiters: { mail: { kind: fixed_window, limit: 2, window: 1h } }";
    /// let config = Config::from_str("limits.yaml", text, Format::Yaml)?;
    /// let before = config.build(&Clock::system())?;
    /// before.limiter("mail").unwrap().try_acquire(2.into()).unwrap();
    /// let mut saved = Vec::new();
    /// before.save(|it| Ok::<(), ()>(saved.push(it))).unwrap();
    ///
    /// // In another process:
    /// let after = config.build_saved(&Clock::system(), &saved)?;
    /// let mut restore = after.restore();
    /// for it in saved {
    ///     restore.put(it);
    /// }
    /// assert!(after.limiter("mail").unwrap().try_acquire(1.into()).is_err());
    /// # Ok::<(), plimsoll_config::ConfigError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the first error of `see`, after which no more records follow.
    pub fn save<E>(&self, mut see: impl FnMut(Saved) -> Result<(), E>) -> Result<(), E> {
        let set = self.current();
        for definition in &set.config.plan.definitions {
            let Some(live) = set.running.get(&definition.id) else {
                continue;
            };
            let part = |part| {
                live.change
                    .save(&definition.id, &definition.limiter.kind, part)
            };
            let mut next = 0;
            while let Some(saved) = part(next) {
                saved.into_iter().try_for_each(&mut see)?;
                next += 1;
            }
        }
        Ok(())
    }

    /// Restores [saved](Self::save) state. The limits must have been built with
    /// [`Config::build_saved`](crate::Config::build_saved).
    #[must_use]
    pub const fn restore(&self) -> Restore<'_> {
        Restore {
            limits: self,
            keys: None,
        }
    }
}
