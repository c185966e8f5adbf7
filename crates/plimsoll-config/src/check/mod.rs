//! Checks a file as a whole, after all of it has been read.
//!
//! The types have no places, so that two descriptions can be compared. A problem has a path, whose place is looked up in the
//! tree.

mod context;
mod gateway;
mod limiters;
mod partners;
mod routes;
mod shadowed;
mod stores;
mod uses;
mod warnings;

use std::collections::{HashMap, HashSet};

use plimsoll_kinds::{LimiterKind as Class, Weight};
use plimsoll_spec::scalar::nearest;
use plimsoll_spec::{Name, Path, Problem, Step, below, keys, quote};

use crate::route::RouteSpec;
use crate::spec::Words;

pub(crate) use context::Context;
pub(crate) use limiters::Definition;

/// The maximum number of limiters behind one name. With more, a small file could be expensive.
const MOST: usize = 64;

/// The field of a provider for limiters without a weight.
pub(crate) const BASIC: &str = "basic";

/// A file that can be built.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// With members before the limiters that contain them.
    pub(crate) definitions: Vec<Definition>,
    pub(crate) by_id: HashMap<String, usize>,
    /// The limiters and providers of each list, then of each route, in order.
    pub(crate) lists: HashMap<String, Vec<String>>,
    pub(crate) routes: Vec<RouteSpec>,
}

impl Plan {
    pub(crate) fn definition(&self, id: &str) -> Option<&Definition> {
        self.definitions.get(*self.by_id.get(id)?)
    }
}

/// Checks a file whose defaults are filled in. The plan is valid only if there are no problems.
pub(crate) fn plan(context: &Context<'_>) -> Plan {
    stores::stores(context);
    let definitions = limiters::definitions(context);
    let by_id = definitions.iter().map(|it| (it.id.as_str(), it));
    let mut checker = Checker {
        context,
        limiters: by_id.collect(),
        lists: HashMap::new(),
    };
    checker.names();
    checker.weights();
    checker.providers();
    for (name, _) in context.file.middleware.iter() {
        checker.list(name, &mut Vec::new());
    }
    let routes = checker.routes();
    warnings::unused(&routes, context);
    routes::client(context);
    gateway::gateway(&routes, context);
    partners::partners(context);
    if let Some(settings) = &context.file.policies
        && let Err(invalid) = settings.check()
    {
        context.note(invalid.problem(&keys(&["policies"]), context.places));
    }
    if let Some(answer) = &context.file.answer {
        uses::answer(answer, &keys(&["answer"]), context);
    }
    let lists = checker.lists;
    let by_id = definitions.iter().enumerate();
    let by_id = by_id.map(|(index, it)| (it.id.clone(), index));
    Plan {
        by_id: by_id.collect(),
        definitions,
        lists,
        routes,
    }
}

struct Checker<'a> {
    context: &'a Context<'a>,
    limiters: HashMap<&'a str, &'a Definition>,
    /// The checked lists of middleware, with nested lists expanded.
    lists: HashMap<String, Vec<String>>,
}

impl<'a> Checker<'a> {
    /// Checks that limiters, providers and lists have different names, because the same fields refer to them.
    fn names(&self) {
        let Context { file, places, .. } = self.context;
        let limiters = file.all().map(|(section, name, _)| (section, name));
        let providers = file.providers.iter().map(|(name, _)| ("providers", name));
        let lists = file.middleware.iter().map(|(name, _)| ("middleware", name));
        let mut seen = HashMap::new();
        for (section, name) in limiters.chain(providers).chain(lists) {
            let path = keys(&[section, name]);
            if !Name::is_valid(name) {
                let message = format!("expected {}, found {}", Name::WANTED, quote(name));
                self.context.note(places.name(&path, message));
            }
            if let Some(first) = seen.insert(name, section) {
                let line = self.context.line_of(&keys(&[first, name]), &path);
                let message =
                    format!("the name `{name}` is here twice: first in {line}, in `{first}`");
                self.context.note(places.name(&path, message));
            }
        }
    }

    fn weights(&self) {
        let Context { file, places, .. } = self.context;
        let known = Weight::KNOWN.map(Weight::as_str);
        let mut seen = HashSet::new();
        let at = self.context.broken.places("weights");
        for (index, weight) in at.zip(&file.weights) {
            let path = [Step::Key("weights"), Step::Index(index)];
            let message = if known.contains(&weight.0.as_str()) || weight.0 == BASIC {
                format!("`{weight}` is known without being named here")
            } else if !seen.insert(weight) {
                format!("the name `{weight}` is here twice")
            } else {
                continue;
            };
            self.context.note(places.value(&path, message));
        }
    }

    fn providers(&self) {
        let Context { file, places, .. } = self.context;
        let known = Weight::KNOWN.into_iter().map(Weight::as_str);
        let more = file.weights.iter().map(|weight| weight.0.as_str());
        let mut known: Vec<&str> = [BASIC].into_iter().chain(known).collect();
        known.extend(more);
        for (name, provider) in file.providers.iter() {
            let path = keys(&["providers", name]);
            if provider.0.is_empty() {
                let message = "expected at least one limiter, found none";
                self.context.note(places.value(&path, message));
            }
            for (weight, words) in provider.0.iter() {
                let path = below(&path, Step::Key(weight));
                if !known.contains(&weight) {
                    let hint = nearest(weight, known.iter().copied());
                    let message = format!("unknown weight{hint} (others are named in `weights`)");
                    self.context.note(places.name(&path, message));
                    continue;
                }
                if weight != BASIC && matches!(words, Words::Many(_)) {
                    let wanted = "the name of one limiter; several go together as `kind: all`";
                    let message = format!("expected {wanted}, found a list");
                    self.context.note(places.value(&path, message));
                    continue;
                }
                for (path, limiter) in each(words, &path) {
                    self.provided(limiter, weight, &path);
                }
            }
        }
    }

    /// A limiter of a provider.
    fn provided(&self, limiter: &Name, weight: &str, path: &[Step<'_>]) {
        let Some(limiter) = self.limiter(limiter, path) else {
            return;
        };
        if limiter.stored {
            let message = format!(
                "`{}` is kept in a store, and all weights are taken at once: expected a limiter in memory",
                limiter.id
            );
            self.context.note(self.context.places.value(path, message));
        } else if weight == BASIC && limiter.class != Class::Basic {
            self.context
                .note(self.wrong_class(limiter, "a basic one", path));
        }
    }

    /// A limiter without keys.
    fn limiter(&self, name: &Name, path: &[Step<'_>]) -> Option<&'a Definition> {
        let Some(limiter) = self.limiters.get(name.0.as_str()) else {
            self.unknown(name, path, false);
            return None;
        };
        if limiter.is_keyed() {
            let message = format!(
                "`{name}` has keys, and there is no key here: expected a limiter without `keyed`"
            );
            self.context.note(self.context.places.value(path, message));
            return None;
        }
        Some(limiter)
    }

    /// Reports an unknown name, unless it may be that of an entry that could not be read.
    fn unknown(&self, name: &Name, path: &[Step<'_>], any: bool) {
        let Context { file, places, .. } = self.context;
        if self.context.broken.has(&name.0) || self.context.is_full() {
            return;
        }
        let limiters = file.all().map(|(_, name, _)| name);
        let providers = file.providers.iter().map(|(name, _)| name);
        let lists = file.middleware.iter().map(|(name, _)| name);
        let others: Vec<&str> = providers.chain(lists).collect();
        if !any && others.contains(&name.0.as_str()) {
            let message = format!("`{name}` is no limiter: expected the name of one");
            return self.context.note(places.value(path, message));
        }
        let known = limiters.chain(others.iter().copied().filter(|_| any));
        let known = known.chain(self.context.broken.names());
        let known: Vec<&str> = known.collect();
        let what = if any {
            "limiter, provider or list of middleware"
        } else {
            "limiter"
        };
        let hint = nearest(&name.0, known.iter().copied());
        let message = format!("there is no {what} `{name}`{hint}");
        self.context.note(places.value(path, message));
    }

    fn wrong_class(&self, limiter: &Definition, wanted: &str, path: &[Step<'_>]) -> Problem {
        let Definition { id, class, .. } = limiter;
        let word = limiter.limiter.kind.word();
        let message = format!("`{id}` ({word}) is a {class} limiter: expected {wanted}");
        self.context.places.value(path, message)
    }

    /// Checks a list of middleware, and the lists in it.
    fn list(&mut self, name: &'a str, trail: &mut Vec<&'a str>) {
        if self.lists.contains_key(name) {
            return;
        }
        let Some(names) = self.context.file.middleware.get(name) else {
            return;
        };
        trail.push(name);
        let parts = self.parts(names, &keys(&["middleware", name]), true, trail);
        trail.pop();
        self.lists.insert(name.to_owned(), parts);
    }

    /// The limiters and providers of `names`, with lists expanded.
    fn parts(
        &mut self,
        names: &'a [Name],
        path: &[Step<'a>],
        several: bool,
        trail: &mut Vec<&'a str>,
    ) -> Vec<String> {
        let (context, places) = (self.context, self.context.places);
        if names.is_empty() {
            let message = "expected a list of names, found an empty list";
            context.note(places.value(path, message));
        }
        let mut parts: Vec<String> = Vec::new();
        for (index, name) in names.iter().enumerate() {
            let path = match several {
                true => below(path, Step::Index(index)),
                false => path.to_vec(),
            };
            let more = self.part(name, &path, trail);
            if let Some(twice) = more.iter().find(|part| parts.contains(part)) {
                let message = format!("`{twice}` would be applied twice");
                context.note(places.value(&path, message));
                continue;
            }
            parts.extend(more);
            if parts.len() > MOST {
                let message = format!("more than {MOST} limiters in one list");
                context.note(places.value(&path, message));
                break;
            }
        }
        parts
    }

    fn part(&mut self, name: &'a Name, path: &[Step<'a>], trail: &mut Vec<&'a str>) -> Vec<String> {
        let Context { file, places, .. } = self.context;
        let word = name.0.as_str();
        if self.limiters.contains_key(word) || file.providers.get(word).is_some() {
            return vec![word.to_owned()];
        }
        if file.middleware.get(word).is_none() {
            self.unknown(name, path, true);
            return Vec::new();
        }
        if let Some(from) = trail.iter().position(|open| *open == word) {
            let round = [&trail[from..], &[word]].concat();
            let message = format!("a cycle: {}", round.join(" -> "));
            self.context.note(places.value(path, message));
            return Vec::new();
        }
        if trail.len() >= MOST {
            let message = format!("lists nested more than {MOST} deep");
            self.context.note(places.value(path, message));
            return Vec::new();
        }
        self.list(word, trail);
        self.lists.get(word).cloned().unwrap_or_default()
    }
}

/// Words with their paths.
fn each<'a>(words: &'a Words, path: &[Step<'a>]) -> Vec<(Path<'a>, &'a Name)> {
    match words {
        Words::One(name) => vec![(path.to_vec(), name)],
        Words::Many(names) => {
            let names = names.iter().enumerate();
            let item = |(index, name)| (below(path, Step::Index(index)), name);
            names.map(item).collect()
        }
    }
}
