//! One limit of a file: its terms, and how requests use it.

use std::collections::HashMap;
use std::sync::Arc;

use plimsoll::{Metadata, Standing};
use plimsoll_config::uses::{AnswerSpec, CostSpec, Mode, PrioritySpec, Tier, Use, WithoutKey};
use plimsoll_config::{LimitSet, Part};

use crate::handle::Handle;
use crate::keys::{Client, Source, sources};
use crate::seen::Seen;
use crate::terms::carried;

/// One limit, and how requests use it.
#[derive(Debug)]
pub(crate) struct Limit {
    pub(crate) name: Arc<str>,
    own: Handle,
    /// Whether its own terms are [plain](Handle::is_plain).
    plain: bool,
    /// See [`is_simple`](Self::is_simple).
    simple: bool,
    /// The other terms: those of tiers, then those of single keys.
    others: Vec<Other>,
    tiers: Option<Tiers>,
    overrides: HashMap<Box<str>, usize>,
    /// What its key is made of; nothing for a limit without keys.
    pub(crate) key: Vec<Source>,
    pub(crate) cost: CostSpec,
    pub(crate) shadow: bool,
    pub(crate) without_key: WithoutKey,
    pub(crate) answer: Option<Arc<AnswerSpec>>,
    /// What it says about itself.
    pub(crate) metadata: Option<Metadata>,
    pub(crate) priority: Option<PrioritySpec>,
    pub(crate) seen: Arc<Seen>,
}

/// Terms beside those of the limit itself.
#[derive(Debug)]
pub(crate) struct Other {
    /// The tier, or the key that has them.
    pub(crate) name: String,
    pub(crate) handle: Handle,
    plain: bool,
    /// Its number among those that keys were asked by last; see [`Limit::add`].
    number: Option<u64>,
    /// What its limiter is called in the configuration.
    #[cfg(feature = "redis")]
    id: String,
}

/// Which terms a tier has.
#[derive(Debug)]
struct Tiers {
    by: Source,
    of: HashMap<Box<str>, usize>,
    default: usize,
}

/// The id under which the limiter of a tier runs; `field` is that of the file which describes it.
fn tier_id(limit: &str, field: &str, tier: &str) -> String {
    format!("{limit}.{field}[{tier}]")
}

impl Limit {
    /// Whether it is counted by key, and what has none is refused.
    pub(crate) fn needs_key(&self) -> bool {
        self.own.is_keyed() && matches!(self.without_key, WithoutKey::Refuse)
    }

    /// The limit of this name in `set`, used as `by` says.
    pub(crate) fn new(
        name: &str,
        by: &Use,
        set: &LimitSet,
        client: &Client,
        seen: Arc<Seen>,
    ) -> Option<Self> {
        let own = handle(set, name)?;
        let mut limit = Self {
            name: name.into(),
            plain: own.is_plain(),
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
            seen,
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

    /// Adds other terms, and says which they are.
    fn add(&mut self, set: &LimitSet, field: &str, name: &str, terms: &Tier) -> Option<usize> {
        let id = tier_id(&self.name, field, name);
        let handle = match terms {
            Tier::Unlimited => Handle::Unlimited,
            Tier::Blocked => Handle::Blocked,
            _ => handle(set, &id)?,
        };
        // Nothing is used where anything or nothing is granted: the tier before counts in the next one. Stores keep one state
        // for all tiers.
        let carries = !matches!(handle, Handle::Unlimited | Handle::Blocked) && !handle.is_remote();
        self.others.push(Other {
            name: name.to_owned(),
            plain: handle.is_plain(),
            number: carries.then(|| self.seen.last_terms().number(name)),
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

    /// Whether it is enforced, in memory, with the same terms for all keys: it is asked by its own, and nothing else is to
    /// be looked at.
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

    /// Whether what these terms grant can be undone exactly, in memory. Where another limiter comes to stand there that is
    /// not so, the next plan says so.
    #[inline]
    pub(crate) fn is_plain(&self, number: usize) -> bool {
        match number.checked_sub(1) {
            None => self.plain,
            Some(other) => self.others.get(other).is_some_and(|it| it.plain),
        }
    }

    /// The terms beside its own, by their names.
    pub(crate) fn others(&self) -> &[Other] {
        &self.others
    }

    /// What the limiter of these terms is called in the configuration.
    #[cfg(feature = "redis")]
    pub(crate) fn id(&self, number: usize) -> &str {
        let other = number.checked_sub(1).and_then(|it| self.others.get(it));
        other.map_or(&*self.name, |other| &other.id)
    }

    /// What says which tier a request has, if there are tiers.
    pub(crate) fn tier_source(&self) -> Option<&Source> {
        self.tiers.as_ref().map(|tiers| &tiers.by)
    }

    /// Whether keys may be asked by other terms than before.
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

    /// Takes for a key now if it is enforced by terms that all keys have, and says how the key stands then. `None` decides
    /// nothing.
    #[inline]
    pub(crate) fn take_now(&self, key: &str, cost: u64) -> Option<Standing> {
        if self.shadow || !self.others.is_empty() {
            return None;
        }
        self.own.take_now(key, cost)
    }

    /// Notes that a key is asked by these terms now. If they were others before, what it has used stays used.
    #[inline]
    pub(crate) fn note_terms(&self, key: &str, terms: usize) {
        if let Some(number) = self.number(key, terms)
            && let Some(before) = self.seen.last_terms().note(key, number)
        {
            let more = self.carried_from(before, key, terms);
            self.terms(terms).of(key).charge(more);
        }
    }

    /// What a key has used by other terms, and would be charged if it were asked by these.
    pub(crate) fn carried(&self, key: &str, terms: usize) -> u64 {
        let Some(number) = self.number(key, terms) else {
            return 0;
        };
        match self.seen.last_terms().get(key) {
            before if before == number => 0,
            before => self.carried_from(before, key, terms),
        }
    }

    /// The number of terms between which keys change with what they have used.
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

    /// The number of terms among those that keys were asked by last; `None` for those of the limit itself.
    fn other_number(&self, terms: usize) -> Option<u64> {
        self.others.get(terms.checked_sub(1)?)?.number
    }

    /// The terms of a tier, by its name.
    pub(crate) fn terms_of_tier(&self, tier: &str) -> Option<usize> {
        self.tiers.as_ref()?.of.get(tier).copied()
    }

    /// Whether a key was asked by these terms last, and by others than those of the limit itself.
    pub(crate) fn is_last(&self, key: &str, terms: usize) -> bool {
        let number = self.other_number(terms);
        number.is_some_and(|number| self.seen.last_terms().get(key) == number)
    }

    /// Notes that a key was asked by these terms last, in a process before this one.
    pub(crate) fn note_last(&self, key: &str, terms: usize) {
        if let Some(number) = self.other_number(terms) {
            self.seen.last_terms().note(key, number);
        }
    }

    fn carried_from(&self, before: u64, key: &str, terms: usize) -> u64 {
        let before = self.others.iter().position(|it| it.number == Some(before));
        // Where its tier is gone, what the key has used of the limit itself counts.
        let before = before.map_or(0, |index| index + 1);
        carried(self.terms(before), self.terms(terms), key)
    }

    /// What every key without other terms is promised.
    pub(crate) fn promise(&self) -> Option<Standing> {
        self.own.promise()
    }

    /// Whether its key says who asks.
    pub(crate) fn is_of_caller(&self) -> bool {
        self.key.iter().any(Source::is_of_caller)
    }
}

/// The fields of a limit that hold other terms.
const TIERS: &str = "tiers";
const OVERRIDES: &str = "overrides";

fn handle(set: &LimitSet, id: &str) -> Option<Handle> {
    match set.get(id)? {
        Part::Limiter(limiter) => Some(Handle::One(limiter)),
        Part::Keyed(limiter) => Some(Handle::Keyed(limiter)),
        Part::Provider(_) => None,
    }
}
