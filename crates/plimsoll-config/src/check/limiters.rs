//! Checks limiters: fields that go together, members that exist, and no cycles.

use std::collections::HashMap;

use plimsoll_kinds::LimiterKind as Class;
use plimsoll_spec::scalar::nearest;
use plimsoll_spec::{InvalidSpec, Kind, Limiter, Member, Order, Path, Place, Problem, Step, below};

use super::{Context, MOST};
use crate::spec::SECTIONS;
use crate::uses::Tier;

/// A limiter that is to be built, with all its defaults.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    /// Its name in the file, or its path below the limiter in which it is described.
    pub(crate) id: String,
    /// The section of the file that it is in.
    pub(crate) section: &'static str,
    /// The path of its description.
    pub(crate) place: Place,
    pub(crate) limiter: Limiter,
    /// The members of `all`, by their ids.
    pub(crate) members: Vec<String>,
    pub(crate) class: Class,
    /// Whether it, or one of its members, is in a store.
    pub(crate) stored: bool,
    /// The name of the limit, for one of its tiers.
    tier_of: Option<String>,
}

impl Definition {
    /// The name that refusals carry.
    pub(crate) fn name(&self) -> &str {
        let name = self.limiter.common.name.as_ref();
        name.unwrap_or(&self.id)
    }

    /// Its name in a store. Tiers use the name of their limit, so that a key that changes its tier keeps its state.
    #[cfg_attr(
        not(feature = "redis"),
        expect(dead_code, reason = "without a client nothing is kept in stores")
    )]
    pub(crate) fn name_in_store(&self) -> &str {
        self.tier_of.as_deref().unwrap_or_else(|| self.name())
    }

    pub(crate) const fn is_keyed(&self) -> bool {
        self.limiter.common.keyed
    }
}

/// All limiters of a file, with members before the limiters that contain them.
pub(crate) fn definitions(context: &Context<'_>) -> Vec<Definition> {
    let mut drafts = Vec::new();
    for (section, name, limit) in context.file.all() {
        let path = vec![Step::Key(section), Step::Key(name)];
        super::uses::uses(limit, &path, context);
        for (field, tier, is) in limit.uses.tiers() {
            if let Tier::Limit(limiter) = is {
                let path = below(&below(&path, Step::Key(field)), Step::Key(tier));
                let id = format!("{name}.{field}[{tier}]");
                draft(id, limiter, path, context, &mut drafts);
                if let Some(draft) = drafts.last_mut() {
                    draft.tier_of = Some(limit.limiter.common.name.as_deref().unwrap_or(name));
                }
            }
        }
        draft(name.to_owned(), &limit.limiter, path, context, &mut drafts);
    }
    names_are_unique(&drafts, context);
    let by_id = drafts.iter().enumerate();
    let by_id = by_id.map(|(index, draft)| (draft.id.as_str(), index));
    let mut sorter = Sorter {
        context,
        by_id: by_id.collect(),
        state: vec![State::New; drafts.len()],
        drafts: &drafts,
        trail: Vec::new(),
        sorted: Vec::new(),
    };
    for index in 0..drafts.len() {
        sorter.visit(index);
    }
    sorter.sorted
}

/// A limiter with its path, before its members are known.
struct Draft<'a> {
    id: String,
    path: Path<'a>,
    limiter: &'a Limiter,
    tier_of: Option<&'a str>,
}

impl Draft<'_> {
    fn section(&self) -> &'static str {
        let is = |section: &&str| self.path.first() == Some(&Step::Key(section));
        SECTIONS.into_iter().find(is).unwrap_or(SECTIONS[0])
    }
}

fn draft<'a>(
    id: String,
    limiter: &'a Limiter,
    path: Path<'a>,
    context: &Context<'_>,
    drafts: &mut Vec<Draft<'a>>,
) {
    if context.is_full() {
        return;
    }
    let stored = context.check(super::stores::store_fields(limiter, &path, context));
    goes_together(limiter, &path, stored.is_some(), context);
    super::warnings::odd(limiter, &path, context);
    if let Kind::All { of } = &limiter.kind {
        for (index, member) in of.iter().enumerate() {
            if let Member::Inline(inline) = member {
                let path = below(&below(&path, Step::Key("of")), Step::Index(index));
                let id = format!("{id}.of[{index}]");
                draft(id, inline, path, context, drafts);
            }
        }
    }
    drafts.push(Draft {
        id,
        path,
        limiter,
        tier_of: None,
    });
}

/// Checks fields that are valid on their own and invalid together.
fn goes_together(limiter: &Limiter, path: &[Step<'_>], stored: bool, context: &Context<'_>) {
    let places = context.places;
    let (common, word) = (&limiter.common, limiter.kind.word());
    let field = |name| below(path, Step::Key(name));
    let no_rule = matches!(
        limiter.kind,
        Kind::All { .. } | Kind::Memory { .. } | Kind::Cpu { .. }
    );
    if common.keyed && no_rule {
        let message = format!("`{word}` has no keys: expected a limiter of another kind");
        let name = if places.has(&field("key")) {
            "key"
        } else {
            "keyed"
        };
        context.note(places.name(&field(name), message));
    }
    if common.queue.is_some() && matches!(limiter.kind, Kind::All { .. }) {
        let message = format!("`{word}` has no queue: requests wait in the queues of its members");
        context.note(places.name(&field("queue"), message));
    }
    if let Some(queue) = &common.queue
        && queue.seed.is_some()
        && queue.order != Order::Random
    {
        let seed = below(&field("queue"), Step::Key("seed"));
        let message = "only a queue with `order: random` has a seed";
        context.note(places.name(&seed, message));
    }
    let bucket = matches!(limiter.kind, Kind::PenaltyBucket(_));
    // Defaults are not reported.
    if common.max_keys.is_some() && !common.keyed && !bucket && places.has(&field("max_keys")) {
        let message = "only a limiter with `keyed: true` has keys";
        context.note(places.name(&field("max_keys"), message));
    }
    let empty = |name, what: &str| {
        let message = format!("expected {what}, found an empty list");
        context.note(places.value(&field(name), message));
    };
    match &limiter.kind {
        Kind::All { of } if of.is_empty() => empty("of", "a list of limiters"),
        Kind::Bandwidths(buckets) if buckets.limits.is_empty() => {
            return empty("limits", "a list of bandwidths");
        }
        Kind::Bandwidths(buckets) if buckets.limits.len() > MOST => {
            let count = buckets.limits.len();
            let message = format!("expected at most {MOST} bandwidths, found {count}");
            return context.note(places.value(&field("limits"), message));
        }
        _ => {}
    }
    let bound = matches!(limiter.kind, Kind::Partitions(_)) && common.max_keys.is_some();
    if bound && places.has(&field("max_keys")) {
        let message = "the keys of `partitions` are its shares: expected no bound";
        context.note(places.name(&field("max_keys"), message));
    }
    if common.queue.is_some() && matches!(limiter.kind, Kind::Policies(_)) {
        let message = "`policies` has no queue: a refusal counts towards a lockout";
        context.note(places.name(&field("queue"), message));
    }
    if let Err(invalid) = common.check() {
        context.note(invalid.problem(path, places));
    }
    let fits = limiter.kind.check();
    let fits = fits.and_then(|()| if stored { in_store(limiter) } else { Ok(()) });
    if let Err(invalid) = fits {
        context.note(invalid.problem(path, places));
    }
}

/// Checks that a store can hold it, if it has a store.
#[cfg(feature = "redis")]
fn in_store(limiter: &Limiter) -> Result<(), InvalidSpec> {
    if limiter.common.store.is_none() {
        return Ok(());
    }
    match plimsoll_redis::Store::open("redis://127.0.0.1") {
        Ok(store) => crate::redis::fleet(limiter, "", &store).map(drop),
        Err(_) => Ok(()),
    }
}

#[cfg(not(feature = "redis"))]
fn in_store(_limiter: &Limiter) -> Result<(), InvalidSpec> {
    Ok(())
}

/// The class of a limiter; `None` for `all`, where it depends on the members.
const fn class(kind: &Kind) -> Option<Class> {
    Some(match kind {
        Kind::All { .. } => return None,
        Kind::Memory { .. } | Kind::Cpu { .. } => Class::Basic,
        Kind::Policies(_) => Class::Rate,
        kind if kind.is_rate() => Class::Rate,
        _ => Class::Resource,
    })
}

/// Checks that names are unique, because refusals and metrics carry them.
fn names_are_unique(drafts: &[Draft<'_>], context: &Context<'_>) {
    let places = context.places;
    let mut seen: HashMap<&str, &Draft<'_>> = HashMap::new();
    // Names of entries come first, so that the problem is reported at the `name` field.
    let (given, own): (Vec<&Draft<'_>>, Vec<_>) =
        (drafts.iter()).partition(|draft| draft.limiter.common.name.is_some());
    for draft in own.into_iter().chain(given) {
        let name = draft.limiter.common.name.as_ref();
        let name = name.map_or(draft.id.as_str(), String::as_str);
        // Two entries of the same name are reported where names are checked.
        let is_given = |draft: &Draft<'_>| draft.limiter.common.name.is_some();
        if let Some(first) = seen.insert(name, draft)
            && (is_given(first) || is_given(draft))
        {
            let line = context.line_of(&first.path, &draft.path);
            let message = format!("the name `{name}` is here twice: first in {line}");
            context.note(places.value(&below(&draft.path, Step::Key("name")), message));
        }
    }
}

#[derive(Clone, PartialEq)]
enum State {
    New,
    Open,
    /// The limiters behind it that are not `all`.
    Done(Vec<usize>, Class, bool),
}

/// Sorts members before the limiters that contain them.
struct Sorter<'a, 'd> {
    context: &'a Context<'a>,
    by_id: HashMap<&'d str, usize>,
    drafts: &'d [Draft<'a>],
    state: Vec<State>,
    trail: Vec<usize>,
    sorted: Vec<Definition>,
}

impl Sorter<'_, '_> {
    fn visit(&mut self, index: usize) {
        if self.state[index] != State::New {
            return;
        }
        self.state[index] = State::Open;
        self.trail.push(index);
        let draft = &self.drafts[index];
        let mut members = Vec::new();
        let (mut behind, mut class) = (vec![index], class(&draft.limiter.kind));
        let mut stored = draft.limiter.common.store.is_some();
        if let Kind::All { of } = &draft.limiter.kind {
            behind.clear();
            for (at, member) in of.iter().enumerate() {
                let path = below(&below(&draft.path, Step::Key("of")), Step::Index(at));
                let id = match member {
                    Member::Name(name) => name.0.clone(),
                    Member::Inline(_) => format!("{}.of[{at}]", draft.id),
                };
                let Some(member) = self.member(&id, &path) else {
                    continue;
                };
                let State::Done(leaves, kind, in_store) = &self.state[member] else {
                    continue;
                };
                stored |= in_store;
                class = class.max(Some(*kind));
                let places = self.context.places;
                if let Some(twice) = leaves.iter().find(|leaf| behind.contains(leaf)) {
                    let twice = &self.drafts[*twice].id;
                    let message = format!("`{twice}` would be charged twice");
                    self.context.note(places.value(&path, message));
                    continue;
                }
                behind.extend(leaves);
                if behind.len() > MOST {
                    let message = format!("more than {MOST} limiters behind one `all`");
                    self.context.note(places.value(&path, message));
                    break;
                }
                members.push(id);
            }
        }
        self.trail.pop();
        let class = class.unwrap_or(Class::Resource);
        self.state[index] = State::Done(behind, class, stored);
        self.sorted.push(Definition {
            id: draft.id.clone(),
            section: draft.section(),
            place: self.context.places.find(&draft.path).0,
            limiter: draft.limiter.clone(),
            members,
            class,
            stored,
            tier_of: draft.tier_of.map(str::to_owned),
        });
    }

    /// Finds a member of an `all` and visits it. `None` after a problem was reported.
    fn member(&mut self, id: &str, path: &[Step<'_>]) -> Option<usize> {
        let (context, places) = (self.context, self.context.places);
        let Some(index) = self.by_id.get(id).copied() else {
            if !context.broken.has(id) && !context.is_full() {
                context.note(self.no_limiter(id, path));
            }
            return None;
        };
        if self.drafts[index].limiter.common.keyed {
            let message = format!(
                "`{id}` has keys, and `all` knows none: expected a limiter without `keyed`"
            );
            context.note(places.value(path, message));
            return None;
        }
        if self.state[index] == State::Open {
            let from = self.trail.iter().position(|open| *open == index);
            let round = self.trail[from.unwrap_or_default()..].iter();
            let mut round: Vec<&str> = round.map(|at| self.drafts[*at].id.as_str()).collect();
            round.push(id);
            let message = format!("a cycle: {}", round.join(" -> "));
            context.note(places.value(path, message));
            return None;
        }
        if self.trail.len() >= MOST {
            let message = format!("`all` nested more than {MOST} deep");
            context.note(places.value(path, message));
            return None;
        }
        self.visit(index);
        Some(index)
    }

    fn no_limiter(&self, name: &str, path: &[Step<'_>]) -> Problem {
        let (file, places) = (self.context.file, self.context.places);
        let what = if file.providers.get(name).is_some() {
            "is a provider: expected a limiter"
        } else if file.middleware.get(name).is_some() {
            "is a list of middleware: expected a limiter"
        } else {
            let known = file.all().map(|(_, name, _)| name);
            let known: Vec<&str> = known.chain(self.context.broken.names()).collect();
            let hint = nearest(name, known.iter().copied());
            return places.value(path, format!("there is no limiter `{name}`{hint}"));
        };
        places.value(path, format!("`{name}` {what}"))
    }
}
