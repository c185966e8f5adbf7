//! The changes of a reload, as data.

use std::fmt;

use serde::Serialize;

use crate::effective;

/// The changes that [`Limits::replace`](super::Limits::replace) made.
///
/// The lists of names hold each limiter once, by the kind of its change; [`details`](Self::details) has the changed fields and
/// the state. A limiter that is described inside another has its path as its name, such as `both.of[1]`. `Display` prints one
/// line for each changed limiter and setting.
///
/// ```
/// use plimsoll::Clock;
/// use plimsoll_config::{Config, Format};
///
/// let read = |text| Config::from_str("limits.yaml", text, Format::Yaml);
/// let limits = read("limits: { api: 100/s, disk: { concurrency: 4 } }")?.build(&Clock::system())?;
/// let disk = limits.limiter("disk").unwrap();
/// let permit = disk.try_acquire(3.into()).unwrap();
/// let changes = limits.replace(&read("limits: { api: 200/s, disk: { concurrency: 8 }, cpu: 1/s }")?)?;
/// assert_eq!(changes.changed, ["api", "disk"]);
/// assert_eq!(changes.to_string(), "api: 100/s → 200/s\ndisk: limit 4 → 8, 3 in use kept\ncpu: new");
/// # drop(permit);
/// # Ok::<(), plimsoll_config::ConfigError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
#[non_exhaustive]
pub struct Changes {
    /// Limiters with the same description. They keep their state and their waiters.
    pub unchanged: Vec<String>,
    /// Limiters with other parameters, or used by requests in another way. Usage is kept, and waiters keep their places.
    pub changed: Vec<String>,
    /// Limiters that were replaced by another one of the same name: of another kind, with or without keys, or moved to or from a
    /// store. Handles follow the name, and use the new one from now on.
    pub replaced: Vec<String>,
    /// Limiters that the file did not have before.
    pub added: Vec<String>,
    /// Limiters that the file no longer has. They refuse with the reason `closed`, until the file has them again.
    pub removed: Vec<String>,
    /// The change of each limiter that is not unchanged, in the order of the file, then the removed ones.
    pub details: Vec<Change>,
    /// The changes of other sections of the file: stores, answers, proxies and so on.
    pub settings: Vec<FieldChange>,
}

impl Changes {
    /// Returns whether nothing has changed: neither a limiter nor a setting.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.details.is_empty() && self.settings.is_empty()
    }
}

/// The change of one limiter. `Display` prints it on one line.
///
/// ```
/// use plimsoll::Clock;
/// use plimsoll_config::{ChangeKind, Config, Format, StateOutcome};
///
/// let read = |text| Config::from_str("limits.yaml", text, Format::Yaml);
/// let limits = read("limits: { api: 100/s }")?.build(&Clock::system())?;
/// let changes = limits.replace(&read("limits: { api: 200/s }")?)?;
/// let change = &changes.details[0];
/// assert_eq!((change.kind, change.state), (ChangeKind::Changed, StateOutcome::Preserved));
/// assert_eq!((change.fields[0].from.as_deref(), change.fields[0].to.as_deref()), (Some("100/s"), Some("200/s")));
/// # Ok::<(), plimsoll_config::ConfigError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Change {
    /// The name of the limiter.
    pub limit: String,
    /// The kind of the change.
    #[serde(rename = "what")]
    pub kind: ChangeKind,
    /// The changed fields of the file. Empty for a limiter that was added or removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldChange>,
    /// The usage after the change, summed over all keys: permits in use, or what a rate has granted and not yet refilled. `None`
    /// if only a store knows it.
    pub in_use: Option<u64>,
    /// The number of waiters in this process after the change.
    pub waiters: u64,
    /// The effect on its state.
    pub state: StateOutcome,
}

/// The kind of a change of a limiter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChangeKind {
    /// It has other parameters, or requests use it in another way.
    Changed,
    /// Another limiter has its name now.
    Replaced,
    /// The file did not have it before.
    Added,
    /// The file no longer has it.
    Removed,
}

/// The effect of a change on the state of a limiter: its usage, its permits in use and its waiters.
///
/// In JSON it is `"preserved"`, `"carried_over"`, or `{ "fresh": REASON }`:
///
/// ```
/// use plimsoll_config::{FreshReason, StateOutcome};
///
/// assert_eq!(serde_json::to_string(&StateOutcome::Preserved)?, r#""preserved""#);
/// assert_eq!(serde_json::to_string(&StateOutcome::Fresh(FreshReason::OtherKey))?, r#"{"fresh":"other_key"}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StateOutcome {
    /// The whole state was preserved.
    Preserved,
    /// The limiter has another kind: usage and permits in use were carried over to it.
    CarriedOver,
    /// The limiter starts with no usage, for this reason.
    Fresh(FreshReason),
}

/// The reason why a limiter starts with no usage.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FreshReason {
    /// The limiter was added.
    New,
    /// It moved to a store, from a store, to another store, or to another name in its store.
    OtherPlace,
    /// Its usage cannot be carried over to the new kind: a store has a state for each kind, and rates and concurrency limits count
    /// different things.
    OtherKind,
    /// It has keys now and had none before, or the other way round.
    Keys,
    /// Its `key` field changed, so that all keys are new.
    OtherKey,
}

impl FreshReason {
    /// Returns the reason as a part of a sentence.
    ///
    /// ```
    /// assert_eq!(plimsoll_config::FreshReason::New.phrase(), "it is new");
    /// ```
    #[must_use]
    pub const fn phrase(self) -> &'static str {
        match self {
            Self::New => "it is new",
            Self::OtherPlace => "it is kept in another place",
            Self::OtherKind => "it counts something else",
            Self::Keys => "it had no keys or has none now",
            Self::OtherKey => "its keys are new ones",
        }
    }
}

/// A changed field of the file. Values are written on one line, as the file could have them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct FieldChange {
    /// The name of the field. `rate` stands for the fields of a greedy token bucket, `routes` for the routes that use a limit.
    pub field: String,
    /// The value before. `None` if the file did not have the field.
    pub from: Option<String>,
    /// The value now. `None` if the file does not have the field.
    pub to: Option<String>,
}

impl fmt::Display for FieldChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let none = "none";
        let (from, to) = (self.from.as_deref(), self.to.as_deref());
        // A rate is recognisable without the name of the field.
        if self.field != effective::RATE {
            write!(f, "{} ", self.field)?;
        }
        write!(f, "{} → {}", from.unwrap_or(none), to.unwrap_or(none))
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.limit)?;
        match self.kind {
            ChangeKind::Added => f.write_str("new")?,
            ChangeKind::Removed => f.write_str("gone")?,
            ChangeKind::Changed | ChangeKind::Replaced => {
                for (index, field) in self.fields.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}{field}")?;
                }
            }
        }
        let in_use = self.in_use.filter(|used| *used > 0);
        let in_use = in_use.map(|used| format!("{used} in use"));
        let waiters = (self.waiters > 0).then(|| match self.waiters {
            1 => "1 waiter".to_owned(),
            waiters => format!("{waiters} waiters"),
        });
        let kept: Vec<String> = in_use.into_iter().chain(waiters).collect();
        let kept = kept.join(" and ");
        match self.state {
            StateOutcome::Preserved | StateOutcome::CarriedOver if kept.is_empty() => Ok(()),
            StateOutcome::Preserved => write!(f, ", {kept} kept"),
            StateOutcome::CarriedOver => write!(f, ", {kept} carried over"),
            StateOutcome::Fresh(FreshReason::New) => Ok(()),
            StateOutcome::Fresh(why) => write!(f, ", begins anew: {}", why.phrase()),
        }
    }
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = self.details.iter().map(ToString::to_string);
        let settings = self.settings.iter().map(ToString::to_string);
        for (index, line) in limits.chain(settings).enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            write!(f, "{end}{line}")?;
        }
        Ok(())
    }
}
