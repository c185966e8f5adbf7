//! What a new configuration changed, as data.

use std::fmt;

use serde::Serialize;

use crate::effective;

/// What [`Limits::replace`](super::Limits::replace) did, limiter by limiter.
///
/// The lists of names say what became of each; [`details`](Self::details) says what changed of it. A limiter that is described
/// inside of another is called by its path, as `both.of[1]`. Printed, it is one line for each limit of which something changed.
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
    /// The same limiters, with their state and their waiters: their descriptions are the same.
    pub unchanged: Vec<String>,
    /// The same limiters with other limits, or used otherwise: what was used of them stays used, and waiters keep their places.
    pub changed: Vec<String>,
    /// Of another kind, with or without keys, or moved to or from a store. Whoever holds one holds its name, and goes on with
    /// what stands behind it now.
    pub replaced: Vec<String>,
    /// New ones, or back again.
    pub added: Vec<String>,
    /// No longer in the file. Whoever asks one is refused as closed, until the file knows it again.
    pub removed: Vec<String>,
    /// Each limiter that is not unchanged: what changed, and what was kept. Those of the file in its order, then the removed.
    pub details: Vec<Change>,
    /// What changed beside limiters: stores, answers, proxies, and other sections of the file.
    pub settings: Vec<FieldChange>,
}

impl Changes {
    /// Whether everything is as it was.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.details.is_empty() && self.settings.is_empty()
    }
}

/// What changed of one limiter.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Change {
    /// Its name.
    pub limit: String,
    /// What became of it.
    pub what: What,
    /// The fields of the file that changed. Empty for a limiter that is new or gone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldChange>,
    /// What is in use after the change, of all keys together: permits that are out, or what a rate has granted and not yet
    /// refilled. `None` if only a store knows.
    pub in_use: Option<u64>,
    /// How many callers of this process wait after the change.
    pub waiters: u64,
    /// What became of its state.
    pub state: StateKept,
}

/// What became of a limiter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum What {
    /// It has other limits, or is used otherwise.
    Changed,
    /// Another limiter stands behind its name.
    Replaced,
    /// The file did not know it before.
    Added,
    /// The file knows it no more.
    Removed,
}

/// What became of the state of a limiter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StateKept {
    /// All of it is kept.
    Kept,
    /// It has another kind: what was used counts as used in it, and permits that are out count in it.
    CarriedOver,
    /// It begins with nothing used, and why.
    Fresh(Fresh),
}

/// Why a limiter begins with nothing used.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Fresh {
    /// It is new.
    New,
    /// It has moved to a store, from one, to another, or under another name in its store.
    OtherPlace,
    /// A store keeps each kind apart, and rates and limits of what is in flight count different things.
    OtherKind,
    /// It has keys now, or has them no more.
    Keys,
    /// Its `key` is another, so its keys are new ones.
    OtherKey,
}

impl Fresh {
    /// The reason, as a part of a sentence.
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

/// A field of the file with another value, each as it could stand there, on one line.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct FieldChange {
    /// The name of the field. `rate` stands for the fields of a greedy token bucket, `routes` for the routes that ask a limit.
    pub field: String,
    /// Its value before; `None` if it was not there.
    pub from: Option<String>,
    /// Its value now; `None` if it is not there.
    pub to: Option<String>,
}

impl fmt::Display for FieldChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let none = "none";
        let (from, to) = (self.from.as_deref(), self.to.as_deref());
        // A rate is known by its looks.
        if self.field != effective::RATE {
            write!(f, "{} ", self.field)?;
        }
        write!(f, "{} → {}", from.unwrap_or(none), to.unwrap_or(none))
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.limit)?;
        match self.what {
            What::Added => f.write_str("new")?,
            What::Removed => f.write_str("gone")?,
            What::Changed | What::Replaced => {
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
            StateKept::Kept | StateKept::CarriedOver if kept.is_empty() => Ok(()),
            StateKept::Kept => write!(f, ", {kept} kept"),
            StateKept::CarriedOver => write!(f, ", {kept} carried over"),
            StateKept::Fresh(Fresh::New) => Ok(()),
            StateKept::Fresh(why) => write!(f, ", begins anew: {}", why.phrase()),
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
