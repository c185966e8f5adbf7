//! One limit of a file: its limiters, and how requests use them.
//!
//! The *terms* of a limit are numbered: 0 are its own, the others those of its tiers and overrides. Each has a limiter.

use std::collections::HashMap;
use std::sync::Arc;

use plimsoll::{Metadata, Standing};
use plimsoll_config::uses::{AnswerSpec, CostSpec, Mode, PrioritySpec, Tier, Use, WithoutKey};
use plimsoll_config::{LimitSet, Part};

use crate::handle::Handle;
use crate::keys::{Client, Source, sources};
use crate::stats::LimitStats;
use crate::terms::carried;

/// One limit of a file.
#[derive(Debug)]
pub(crate) struct Limit {
    pub(crate) name: Arc<str>,
    own: Handle,
    /// Whether its own terms are [undoable](Handle::is_undoable).
    undoable: bool,
    /// See [`is_simple`](Self::is_simple).
    simple: bool,
    /// The other terms: those of tiers, then those of overrides.
    others: Vec<OtherTerms>,
    tiers: Option<Tiers>,
    overrides: HashMap<Box<str>, usize>,
    /// The sources of the parts of its key; empty for a limit without keys.
    pub(crate) key: Vec<Source>,
    pub(crate) cost: CostSpec,
    pub(crate) shadow: bool,
    pub(crate) without_key: WithoutKey,
    pub(crate) answer: Option<Arc<AnswerSpec>>,
    pub(crate) metadata: Option<Metadata>,
    pub(crate) priority: Option<PrioritySpec>,
    pub(crate) stats: Arc<LimitStats>,
}

/// The terms of a tier or an override.
#[derive(Debug)]
pub(crate) struct OtherTerms {
    /// The name of the tier, or the key of the override.
    pub(crate) name: String,
    pub(crate) handle: Handle,
    undoable: bool,
    /// The number in [`LastTerms`](crate::terms::LastTerms), if usage is carried over between tiers; see [`Limit::add`].
    number: Option<u64>,
    /// The id of its limiter in the configuration.
    #[cfg(feature = "redis")]
    id: String,
}

/// The terms of each tier.
#[derive(Debug)]
struct Tiers {
    by: Source,
    of: HashMap<Box<str>, usize>,
    default: usize,
}

/// The id of the limiter of a tier or an override; `field` is the field of the file that describes it.
fn tier_id(limit: &str, field: &str, tier: &str) -> String {
    format!("{limit}.{field}[{tier}]")
}

impl Limit {
    /// Whether it has keys, and refuses requests without one.
    pub(crate) fn needs_key(&self) -> bool {
        self.own.is_keyed() && matches!(self.without_key, WithoutKey::Refuse)
    }

    /// The limit of this name in `set`. `by` describes how requests use it.
    pub(crate) fn new(
        name: &str,
        by: &Use,
        set: &LimitSet,
        client: &Client,
        stats: Arc<LimitStats>,
    ) -> Option<Self> {
        let own = handle(set, name)?;
        let mut limit = Self {
            name: name.into(),
            undoable: own.is_undoable(),
            simple: false,
            own,
            others: Vec::new(),
            tiers: None,
            overrides: HashMap::new(),
            key: sources(by.key.as_ref().map_or(&[], |key| &key.0), client),
            cost: by.cost.clone(),
            shadow: by.mode == Mode::Shadow,
            without_key: by.without_key,
            answer: by.answer.clone().map(Arc::new),
            metadata: set.config().metadata_of(name),
            priority: by.priority.clone(),
            stats,
        };
        if let Some(tiers) = &by.tiers {
            let of = tiers.of.iter();
            let of = of.filter_map(|(tier, terms)| {
                Some((tier.into(), limit.add(set, TIERS, tier, terms)?))
            });
            let of = of.collect();
            let default = tiers.default.as_ref();
            let default = default.and_then(|terms| limit.add(set, TIERS, "default", terms));
            limit.tiers = Source::new(&tiers.by, client).map(|by| Tiers {
                by,
                of,
                default: default.unwrap_or(0),
            });
        }
        let overrides = by.overrides.iter();
        let overrides = overrides
            .filter_map(|(key, terms)| Some((key.into(), limit.add(set, OVERRIDES, key, terms)?)));
        limit.overrides = overrides.collect();
        limit.simple = !limit.shadow && limit.others.is_empty() && !limit.own.is_remote();
        Some(limit)
    }

    /// Adds other terms, and returns their number.
    fn add(&mut self, set: &LimitSet, field: &str, name: &str, terms: &Tier) -> Option<usize> {
        let id = tier_id(&self.name, field, name);
        let handle = match terms {
            Tier::Unlimited => Handle::Unlimited,
            Tier::Blocked => Handle::Blocked,
            _ => handle(set, &id)?,
        };
        // Unlimited and blocked tiers count no usage: the usage of the tier before them is carried over to the one after. Stores
        // have one state for all tiers.
        let carries = !matches!(handle, Handle::Unlimited | Handle::Blocked) && !handle.is_remote();
        self.others.push(OtherTerms {
            name: name.to_owned(),
            undoable: handle.is_undoable(),
            number: carries.then(|| self.stats.last_terms().number(name)),
            handle,
            #[cfg(feature = "redis")]
            id,
        });
        Some(self.others.len())
    }

    /// Its own terms.
    #[inline]
    pub(crate) const fn own(&self) -> &Handle {
        &self.own
    }

    /// Whether it is enforced, in memory, and without tiers or overrides: its own limiter alone decides.
    #[inline]
    pub(crate) const fn is_simple(&self) -> bool {
        self.simple
    }

    /// The terms of this number: 0 are its own.
    #[inline]
    pub(crate) fn terms(&self, number: usize) -> &Handle {
        match number.checked_sub(1) {
            None => &self.own,
            Some(other) => self.others.get(other).map_or(&self.own, |it| &it.handle),
        }
    }

    /// Whether grants by these terms are in memory and can be undone exactly. Computed when the plan is built.
    #[inline]
    pub(crate) fn is_undoable(&self, number: usize) -> bool {
        match number.checked_sub(1) {
            None => self.undoable,
            Some(other) => self.others.get(other).is_some_and(|it| it.undoable),
        }
    }

    /// The terms of tiers and overrides.
    pub(crate) fn others(&self) -> &[OtherTerms] {
        &self.others
    }

    /// The id of the limiter of these terms in the configuration.
    #[cfg(feature = "redis")]
    pub(crate) fn id(&self, number: usize) -> &str {
        let other = number.checked_sub(1).and_then(|it| self.others.get(it));
        other.map_or(&*self.name, |other| &other.id)
    }

    /// The source of the tier of a request, if there are tiers.
    pub(crate) fn tier_source(&self) -> Option<&Source> {
        self.tiers.as_ref().map(|tiers| &tiers.by)
    }

    /// Whether it has tiers, so that the terms of a key may change.
    #[inline]
    pub(crate) const fn has_tiers(&self) -> bool {
        self.tiers.is_some()
    }

    /// The terms of a key in this tier.
    #[inline]
    pub(crate) fn terms_of(&self, key: &str, tier: Option<&str>) -> usize {
        if self.others.is_empty() {
            return 0;
        }
        self.other_terms_of(key, tier)
    }

    fn other_terms_of(&self, key: &str, tier: Option<&str>) -> usize {
        if let Some(terms) = self.overrides.get(key) {
            return *terms;
        }
        let Some(tiers) = &self.tiers else {
            return 0;
        };
        let terms = tier.and_then(|tier| tiers.of.get(tier).copied());
        terms.unwrap_or(tiers.default)
    }

    /// Takes for a key now, if the limit is enforced and has no tiers or overrides, and returns the standing of the key. `None` is
    /// no refusal: nothing was decided.
    #[inline]
    pub(crate) fn take_now(&self, key: &str, cost: u64) -> Option<Standing> {
        if self.shadow || !self.others.is_empty() {
            return None;
        }
        self.own.take_now(key, cost)
    }

    /// Stores the terms of a key. If they differ from those before, its usage is carried over.
    #[inline]
    pub(crate) fn note_terms(&self, key: &str, terms: usize) {
        if let Some(number) = self.number(key, terms)
            && let Some(before) = self.stats.last_terms().note(key, number)
        {
            let more = self.carried_from(before, key, terms);
            self.terms(terms).of(key).charge(more);
        }
    }

    /// The usage that a key would carry over to these terms.
    pub(crate) fn carried(&self, key: &str, terms: usize) -> u64 {
        let Some(number) = self.number(key, terms) else {
            return 0;
        };
        match self.stats.last_terms().get(key) {
            before if before == number => 0,
            before => self.carried_from(before, key, terms),
        }
    }

    /// The number of these terms in [`LastTerms`](crate::terms::LastTerms). `None` if usage is not carried over for this key.
    #[inline]
    fn number(&self, key: &str, terms: usize) -> Option<u64> {
        if self.tiers.is_none() || self.overrides.contains_key(key) {
            return None;
        }
        match terms {
            0 => Some(0),
            _ => self.other_number(terms),
        }
    }

    /// The number of other terms in [`LastTerms`](crate::terms::LastTerms). `None` for the limit's own.
    fn other_number(&self, terms: usize) -> Option<u64> {
        self.others.get(terms.checked_sub(1)?)?.number
    }

    /// The terms of a tier, by its name.
    pub(crate) fn terms_of_tier(&self, tier: &str) -> Option<usize> {
        self.tiers.as_ref()?.of.get(tier).copied()
    }

    /// Whether these are the last terms of a key, and not the limit's own.
    pub(crate) fn is_last(&self, key: &str, terms: usize) -> bool {
        let number = self.other_number(terms);
        number.is_some_and(|number| self.stats.last_terms().get(key) == number)
    }

    /// Restores the last terms of a key, from a process before this one.
    pub(crate) fn note_last(&self, key: &str, terms: usize) {
        if let Some(number) = self.other_number(terms) {
            self.stats.last_terms().note(key, number);
        }
    }

    fn carried_from(&self, before: u64, key: &str, terms: usize) -> u64 {
        let before = self.others.iter().position(|it| it.number == Some(before));
        // If its tier is gone, the usage under the limit's own terms counts.
        let before = before.map_or(0, |index| index + 1);
        carried(self.terms(before), self.terms(terms), key)
    }

    /// The limit and the window of every key without other terms.
    pub(crate) fn promise(&self) -> Option<Standing> {
        self.own.promise()
    }

    /// Whether its key identifies the caller.
    pub(crate) fn is_of_caller(&self) -> bool {
        self.key.iter().any(Source::is_of_caller)
    }
}

/// The fields of the file that describe other terms.
const TIERS: &str = "tiers";
const OVERRIDES: &str = "overrides";

fn handle(set: &LimitSet, id: &str) -> Option<Handle> {
    match set.get(id)? {
        Part::Limiter(limiter) => Some(Handle::One(limiter)),
        Part::Keyed(limiter) => Some(Handle::Keyed(limiter)),
        // A provider, which no route and no ask can name as a limit.
        _ => None,
    }
}
