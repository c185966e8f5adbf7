//! Checks how requests use a limit.

use plimsoll_spec::{Kind, Limiter, Path, Places, Step, below};

use super::Context;
use crate::spec::Limit;
use crate::uses::{AnswerSpec, CostSpec, Tier, Use};

/// Fields that every limit may have, and a tier may not, because it is used as the limit that it belongs to.
const OF_THE_LIMIT: [&str; 7] = [
    "queue", "keyed", "max_keys", "name", "store", "outage", "borrow",
];

/// Checks how requests use a limit.
pub(super) fn uses(limit: &Limit, path: &[Step<'_>], context: &Context<'_>) {
    let Limit { uses, limiter } = limit;
    let places = context.places;
    let field = |name| below(path, Step::Key(name));
    if uses.key.as_ref().is_some_and(|key| key.0.is_empty()) {
        let message = "expected what a key is read from, found an empty list";
        context.note(places.value(&field("key"), message));
    }
    if uses.key.is_none() {
        for name in ["without_key", "overrides"] {
            if places.has(&field(name)) {
                let message = "only a limit with a `key` has keys";
                context.note(places.name(&field(name), message));
            }
        }
    }
    if let Some(message) = no_cost(&uses.cost, limiter) {
        context.note(places.value(&field("cost"), message));
    }
    if let Some(it) = &uses.answer {
        answer(it, &field("answer"), context);
    }
    if uses
        .tiers
        .as_ref()
        .is_some_and(|it| it.of.is_empty() && it.default.is_none())
    {
        let message =
            "expected some tiers such as { by: header:x-plan, pro: 1000/min }, found none";
        context.note(places.value(&field("tiers"), message));
    }
    tiers(uses, limiter, path, context);
    super::warnings::odd_use(limit, path, context);
}

fn tiers(uses: &Use, limiter: &Limiter, path: &[Step<'_>], context: &Context<'_>) {
    let (places, word) = (context.places, limiter.kind.word());
    for (field, name, tier) in uses.tiers() {
        let path: Path<'_> = [path, &[Step::Key(field), Step::Key(name)]].concat();
        let whole = matches!(
            limiter.kind,
            Kind::All { .. } | Kind::Memory { .. } | Kind::Cpu { .. }
        );
        if whole || limiter.kind.is_by_key() {
            let message = format!("`{word}` has no tiers: expected a limit of another kind");
            return context.note(places.name(&path[..path.len() - 1], message));
        }
        let Tier::Limit(tier) = tier else {
            continue;
        };
        let other = tier.kind.word();
        if word != other && !(tier.kind.is_rate() && limiter.kind.is_rate()) {
            let message = format!(
                "this is `{other}`, and its limit is `{word}`: expected {}",
                like(limiter)
            );
            context.note(places.value(&path, message));
        }
        for name in OF_THE_LIMIT {
            let path = below(&path, Step::Key(name));
            if places.has(&path) {
                let message = format!(
                    "a tier has other numbers only: expected `{name}` beside the kind of its limit"
                );
                context.note(places.name(&path, message));
            }
        }
    }
}

fn like(limiter: &Limiter) -> String {
    match limiter.kind.is_rate() {
        true => "a rate too".to_owned(),
        false => format!("`{}` too", limiter.kind.word()),
    }
}

/// The reason why a limiter does not support a cost, if it does not.
fn no_cost(cost: &CostSpec, limiter: &Limiter) -> Option<String> {
    let word = limiter.kind.word();
    let late = match cost {
        CostSpec::Measured(part) => part.is_late(),
        CostSpec::Estimated { actual, .. } => actual.is_some(),
        CostSpec::Status(_) => true,
        CostSpec::Fixed(_) => false,
    };
    if *cost != CostSpec::default()
        && matches!(limiter.kind, Kind::Memory { .. } | Kind::Cpu { .. })
    {
        return Some(format!(
            "`{word}` says yes or no, and has no cost: expected none"
        ));
    }
    let rate = limiter.kind.is_rate() || matches!(limiter.kind, Kind::Policies(_));
    (late && !rate).then(|| {
        format!("what is known only afterwards can be charged to a rate: `{word}` is none")
    })
}

/// Checks the response to refused requests.
pub(super) fn answer(answer: &AnswerSpec, path: &[Step<'_>], context: &Context<'_>) {
    let places = context.places;
    let field = |name| below(path, Step::Key(name));
    if answer.problem.is_some() {
        for name in ["body", "content_type"] {
            if places.has(&field(name)) {
                let message = format!("a `problem` is the body: expected no `{name}` beside it");
                context.note(places.name(&field(name), message));
            }
        }
    } else if answer.content_type.is_some() && answer.body.is_none() {
        let message = "this says what the `body` is: expected a `body` beside it";
        context.note(places.name(&field("content_type"), message));
    }
    if let Some(kind) = &answer.content_type {
        value(kind, &field("content_type"), places, context);
    }
    for (name, text) in answer.headers.iter() {
        let path = below(&field("headers"), Step::Key(name));
        header(name, &path, context);
        value(text, &path, places, context);
    }
}

/// Checks the name of a header field, which is that of the field at `path`.
pub(super) fn header(name: &str, path: &[Step<'_>], context: &Context<'_>) {
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(token) {
        let message = "expected the name of a header field: letters, digits and `-`";
        context.note(context.places.name(path, message));
    }
}

fn value(text: &str, path: &[Step<'_>], places: &Places<'_>, context: &Context<'_>) {
    if text.chars().any(|c| c.is_control() && c != '\t') {
        let message = "expected the value of a header field: one line without control characters";
        context.note(places.value(path, message));
    }
}
