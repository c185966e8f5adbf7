//! Two configurations, and what becomes of each limiter.

use std::collections::HashMap;
use std::sync::Arc;

use plimsoll::LimiterExt;
use plimsoll_kinds::LimiterKind as Class;
use plimsoll_spec::{Kind, Style};

use super::changes::{Change, Changes, FieldChange, Fresh, StateKept, What};
use super::gates::Live;
use crate::check::Definition;
use crate::{Config, effective};

impl Changes {
    /// Adds what has become of a limiter.
    pub(super) fn note(&mut self, outcome: Outcome) {
        let id = outcome.live.definition.id.clone();
        let names = match outcome.what {
            None => &mut self.unchanged,
            Some(What::Changed) => &mut self.changed,
            Some(What::Replaced) => &mut self.replaced,
            Some(What::Added) => &mut self.added,
            Some(What::Removed) => &mut self.removed,
        };
        names.push(id.clone());
        let Some(what) = outcome.what else {
            return;
        };
        let now = outcome.live.binding.latest();
        self.details.push(Change {
            limit: id,
            what,
            fields: outcome.fields,
            in_use: (!now.one.is_remote()).then(|| now.in_use()),
            waiters: now.waiters(),
            state: outcome.state,
        });
    }
}

/// What becomes of a limiter, known before it is done.
pub(super) struct Outcome {
    live: Arc<Live>,
    /// `None` if nothing changes.
    what: Option<What>,
    fields: Vec<FieldChange>,
    state: StateKept,
}

impl Outcome {
    /// The file knows it no more.
    pub(super) fn removed(live: &Arc<Live>) -> Self {
        Self {
            live: Arc::clone(live),
            what: Some(What::Removed),
            fields: Vec::new(),
            state: StateKept::Kept,
        }
    }
}

impl StateKept {
    /// What another limiter has of the state of the one before it.
    pub(super) fn behind_another(from: &Definition, to: &Definition, same_place: bool) -> Self {
        let is_rate = |it: &Definition| it.class == Class::Rate;
        let (from_rate, to_rate) = (is_rate(from), is_rate(to));
        let stored = |it: &Definition| it.limiter.common.store.is_some();
        if [from, to]
            .iter()
            .any(|it| it.class == Class::Basic || matches!(it.limiter.kind, Kind::All { .. }))
        {
            // What they measure, or their members, goes on.
            return Self::Kept;
        }
        let fresh = if !same_place || stored(to) && from.name() != to.name() {
            Fresh::OtherPlace
        } else if from.is_keyed() != to.is_keyed() && !(from.is_keyed() && from_rate && to_rate) {
            Fresh::Keys
        } else if stored(to) || from_rate != to_rate {
            Fresh::OtherKind
        } else {
            return Self::CarriedOver;
        };
        Self::Fresh(fresh)
    }
}

/// The fields that differ: those of before in their order, then those that are new.
fn differing(from: &[(String, String)], to: &[(String, String)]) -> Vec<FieldChange> {
    let value = |of: &[(String, String)], name: &str| {
        let found = of.iter().find(|(field, _)| field == name);
        found.map(|(_, value)| value.clone())
    };
    let new = to.iter().filter(|(name, _)| value(from, name).is_none());
    let names = from.iter().chain(new).map(|(name, _)| name);
    let changes = names.map(|name| FieldChange {
        field: name.clone(),
        from: value(from, name),
        to: value(to, name),
    });
    changes.filter(|it| it.from != it.to).collect()
}

/// Whether it has the short form `rate`.
fn is_short(definition: &Definition) -> bool {
    matches!(&definition.limiter.kind, Kind::TokenBucket(bucket) if bucket.style == Style::Greedy)
}

/// Two configurations, and where each limit of them is asked.
pub(super) struct Compared<'a> {
    from: &'a Config,
    to: &'a Config,
    asked: [HashMap<&'a str, Vec<&'a str>>; 2],
}

impl<'a> Compared<'a> {
    pub(super) fn new(from: &'a Config, to: &'a Config) -> Self {
        let asked = [from, to].map(asked);
        Self { from, to, asked }
    }

    /// What becomes of a limiter. `before` is the one of the file before.
    pub(super) fn outcome(
        &self,
        before: Option<&Arc<Live>>,
        live: &Arc<Live>,
        mut what: Option<What>,
        mut state: StateKept,
    ) -> Outcome {
        let to = &live.definition;
        if what.is_none() && self.is_used_otherwise(&to.id) {
            what = Some(What::Changed);
        }
        if state == StateKept::Kept && to.is_keyed() && self.has_other_key(&to.id) {
            state = StateKept::Fresh(Fresh::OtherKey);
        }
        let from = before.filter(|_| what.is_some());
        Outcome {
            live: Arc::clone(live),
            what,
            fields: from.map_or_else(Vec::new, |from| self.fields(&from.definition, to)),
            state,
        }
    }

    /// Whether a limiter is used otherwise: by its own fields, or by routes.
    fn is_used_otherwise(&self, id: &str) -> bool {
        let [from, to] = [self.from, self.to].map(|config| config.use_of(id));
        from != to || self.asked[0].get(id) != self.asked[1].get(id)
    }

    /// Whether its keys are read from something else.
    fn has_other_key(&self, id: &str) -> bool {
        let key = |config: &Config| config.use_of(id).map(|by| by.key.clone());
        let [from, to] = [self.from, self.to].map(key);
        from.flatten()
            .is_some_and(|from| to.flatten() != Some(from))
    }

    /// What the file says otherwise of a limiter.
    fn fields(&self, from: &Definition, to: &Definition) -> Vec<FieldChange> {
        let short = is_short(from) && is_short(to);
        let [before, after] = [(self.from, from, 0), (self.to, to, 1)].map(|(config, it, side)| {
            let mut fields = effective::fields(&it.limiter, config.use_of(&it.id));
            if short {
                effective::as_rate(&mut fields);
            }
            if let Some(routes) = self.asked[side].get(it.id.as_str()) {
                fields.push(("routes".to_owned(), format!("[{}]", routes.join(", "))));
            }
            fields
        });
        differing(&before, &after)
    }

    /// What changed beside limiters and routes.
    pub(super) fn settings(&self) -> Vec<FieldChange> {
        let [from, to] = [self.from, self.to].map(|config| config.spec.without_limiters());
        if from == to {
            return Vec::new();
        }
        differing(&effective::settings(&from), &effective::settings(&to))
    }
}

/// The routes that ask each limit, by their labels, in the order of the file.
fn asked(config: &Config) -> HashMap<&str, Vec<&str>> {
    let mut asked: HashMap<&str, Vec<&str>> = HashMap::new();
    for route in config.route_specs() {
        let bytes = route.bytes.iter();
        for name in route.limits.iter().chain(bytes) {
            let provided = config.provided(name).map(|(_, limit)| limit);
            for limit in std::iter::once(name.as_str()).chain(provided) {
                let routes = asked.entry(limit).or_default();
                if routes.last() != Some(&route.label()) {
                    routes.push(route.label());
                }
            }
        }
    }
    asked
}
