//! Compares two configurations, and finds the change of each limiter.

use std::collections::HashMap;
use std::sync::Arc;

use plimsoll::LimiterExt;
use plimsoll_kinds::LimiterKind as Class;
use plimsoll_spec::{Kind, Style};

use super::changes::{Change, ChangeKind, Changes, FieldChange, FreshReason, StateOutcome};
use super::gates::Live;
use crate::check::Definition;
use crate::{Config, effective};

impl Changes {
    /// Adds the change of a limiter.
    pub(super) fn note(&mut self, outcome: Outcome) {
        let id = outcome.live.definition.id.clone();
        let names = match outcome.kind {
            None => &mut self.unchanged,
            Some(ChangeKind::Changed) => &mut self.changed,
            Some(ChangeKind::Replaced) => &mut self.replaced,
            Some(ChangeKind::Added) => &mut self.added,
            Some(ChangeKind::Removed) => &mut self.removed,
        };
        names.push(id.clone());
        let Some(kind) = outcome.kind else {
            return;
        };
        let now = outcome.live.binding.latest();
        self.details.push(Change {
            limit: id,
            kind,
            fields: outcome.fields,
            in_use: (!now.one.is_remote()).then(|| now.in_use()),
            waiters: now.waiters(),
            state: outcome.state,
        });
    }
}

/// The change of a limiter, before it is applied.
pub(super) struct Outcome {
    live: Arc<Live>,
    /// `None` if nothing changes.
    kind: Option<ChangeKind>,
    fields: Vec<FieldChange>,
    state: StateOutcome,
}

impl Outcome {
    /// The removal of a limiter.
    pub(super) fn removed(live: &Arc<Live>) -> Self {
        Self {
            live: Arc::clone(live),
            kind: Some(ChangeKind::Removed),
            fields: Vec::new(),
            state: StateOutcome::Preserved,
        }
    }
}

impl StateOutcome {
    /// The state of a limiter that replaces another one.
    pub(super) fn behind_another(from: &Definition, to: &Definition, same_place: bool) -> Self {
        let is_rate = |it: &Definition| it.class == Class::Rate;
        let (from_rate, to_rate) = (is_rate(from), is_rate(to));
        let stored = |it: &Definition| it.limiter.common.store.is_some();
        if [from, to]
            .iter()
            .any(|it| it.class == Class::Basic || matches!(it.limiter.kind, Kind::All { .. }))
        {
            // Their measurements or their members stay.
            return Self::Preserved;
        }
        let fresh = if !same_place || stored(to) && from.name() != to.name() {
            FreshReason::OtherPlace
        } else if from.is_keyed() != to.is_keyed() && !(from.is_keyed() && from_rate && to_rate) {
            FreshReason::Keys
        } else if stored(to) || from_rate != to_rate {
            FreshReason::OtherKind
        } else {
            return Self::CarriedOver;
        };
        Self::Fresh(fresh)
    }
}

/// The fields that differ: first the old ones in their order, then the new ones.
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

/// Two configurations, and the routes that use each limit in them.
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

    /// The change of a limiter. `before` is the limiter of the last configuration.
    pub(super) fn outcome(
        &self,
        before: Option<&Arc<Live>>,
        live: &Arc<Live>,
        mut kind: Option<ChangeKind>,
        mut state: StateOutcome,
    ) -> Outcome {
        let to = &live.definition;
        if kind.is_none() && self.is_used_otherwise(&to.id) {
            kind = Some(ChangeKind::Changed);
        }
        if state == StateOutcome::Preserved && to.is_keyed() && self.has_other_key(&to.id) {
            state = StateOutcome::Fresh(FreshReason::OtherKey);
        }
        let from = before.filter(|_| kind.is_some());
        Outcome {
            live: Arc::clone(live),
            kind,
            fields: from.map_or_else(Vec::new, |from| self.fields(&from.definition, to)),
            state,
        }
    }

    /// Whether requests use a limiter in another way, by its own fields or by routes.
    fn is_used_otherwise(&self, id: &str) -> bool {
        let [from, to] = [self.from, self.to].map(|config| config.use_of(id));
        from != to || self.asked[0].get(id) != self.asked[1].get(id)
    }

    /// Whether its keys are read from other parts of the request.
    fn has_other_key(&self, id: &str) -> bool {
        let key = |config: &Config| config.use_of(id).map(|by| by.key.clone());
        let [from, to] = [self.from, self.to].map(key);
        from.flatten()
            .is_some_and(|from| to.flatten() != Some(from))
    }

    /// The changed fields of a limiter.
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

    /// The changes of other sections than limiters and routes.
    pub(super) fn settings(&self) -> Vec<FieldChange> {
        let [from, to] = [self.from, self.to].map(|config| config.spec.without_limiters());
        if from == to {
            return Vec::new();
        }
        differing(&effective::settings(&from), &effective::settings(&to))
    }
}

/// The labels of the routes that use each limit, in the order of the file.
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
