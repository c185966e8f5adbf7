//! Reads the verb of a step, and checks that it fits the other fields and the limiter.

use plimsoll::{Carry, Priority};
use plimsoll_spec::scalar::{cost, expected, flag, positive, rate, text, word};
use plimsoll_spec::{Fields, Kind, Node, Problem, Read, Units, each, read_one};

use super::expect;
use super::limiter::bandwidths;
use super::units::duration;
use crate::spec::{Ask, Expect, LimiterSpec, Verb};

/// Every verb of the format, with the fields that change it.
pub(crate) const VERBS: [(&str, &[&str]); 19] = [
    ("try", &["as", "priority", "expect"]),
    ("acquire", &["as", "priority", "timeout", "expect"]),
    ("reserve", &["as", "priority", "max_wait", "expect"]),
    ("estimate", &["priority", "expect"]),
    ("take_up_to", &["as", "expect"]),
    ("release", &[]),
    ("split", &[]),
    ("merge", &[]),
    ("forget_permit", &[]),
    ("cancel", &[]),
    ("add", &[]),
    ("reset", &[]),
    ("set_rate", &[]),
    ("resize", &[]),
    ("set_queue_bound", &[]),
    ("replace", &["carry"]),
    ("forget", &[]),
    ("sample", &[]),
    ("close", &[]),
];

/// The fields that only some verbs have.
pub(crate) const MODIFIERS: [&str; 6] =
    ["as", "priority", "timeout", "max_wait", "carry", "expect"];

/// Reads the verb of a step, if it has one, and its expected answer.
pub(crate) fn verb(
    fields: &Fields<'_>,
    limiter: &LimiterSpec,
) -> Read<(Option<Verb>, Option<Expect>)> {
    let mut verbs = fields
        .iter()
        .filter_map(|entry| VERBS.iter().find(|(word, _)| *word == entry.key));
    let Some((word, modifiers)) = verbs.next() else {
        return match MODIFIERS.iter().find(|name| fields.get(name).is_some()) {
            Some(name) => {
                Err(fields.problem(name, format!("this step has no verb; {}", goes_with(name))))
            }
            None => Ok((None, None)),
        };
    };
    if let Some((second, _)) = verbs.next() {
        return Err(fields.problem(
            second,
            format!("a step has one verb, and this one already has `{word}`"),
        ));
    }
    if let Some(name) = MODIFIERS
        .iter()
        .find(|name| !modifiers.contains(name) && fields.get(name).is_some())
    {
        return Err(fields.problem(
            name,
            format!("this does not go with `{word}`; {}", goes_with(name)),
        ));
    }
    if let Some(why) = missing(word, limiter) {
        return Err(fields.problem(word, why));
    }
    let ask = Ask {
        cost: 0,
        priority: fields
            .optional("priority", priority)?
            .unwrap_or(Priority::Normal),
        within: fields
            .optional("timeout", duration)?
            .or(fields.optional("max_wait", duration)?),
    };
    let verb = match *word {
        "replace" => Verb::Replace {
            by: fields.required(word, bandwidths)?,
            carry: fields.required("carry", carry)?,
        },
        _ => fields.required(word, |node| read(word, node, ask))?,
    };
    let expect = fields.optional("expect", |node| expect::expect(node, word, limiter))?;
    Ok((Some(verb), expect))
}

fn goes_with(modifier: &str) -> String {
    let verbs = VERBS
        .iter()
        .filter(|(_, modifiers)| modifiers.contains(&modifier));
    let verbs: Vec<String> = verbs.map(|(word, _)| format!("`{word}`")).collect();
    format!("`{modifier}` goes with {}", verbs.join(", "))
}

/// Why this limiter does not have this verb. `None` if it does.
fn missing(verb: &str, limiter: &LimiterSpec) -> Option<String> {
    let kind = limiter.spec.kind.word();
    let only = |kinds: &[&str]| {
        let message = || {
            format!(
                "the limiter `{kind}` does not have this; it goes with `{}`",
                kinds.join("`, `")
            )
        };
        (!kinds.contains(&kind)).then(message)
    };
    match verb {
        "add" => only(&["token_bucket", "bandwidths", "penalty_bucket"]),
        "set_rate" => only(&["smooth_bursty", "smooth_warmup"]),
        "resize" => only(&["concurrency"]),
        "sample" => only(&["memory", "cpu"]),
        "take_up_to" | "reset" | "forget" if limiter.spec.kind.is_by_key() => {
            Some(format!("the limiter `{kind}` does not have this"))
        }
        "replace" => only(&["bandwidths"]),
        "take_up_to" | "reset" if matches!(limiter.spec.kind, Kind::All { .. }) => Some(format!(
            "the limiter `{kind}` does not have this; its members do"
        )),
        "set_queue_bound" if limiter.spec.common.queue.is_none() => {
            Some("this limiter has no `queue`".to_owned())
        }
        "forget" if !limiter.spec.common.keyed => {
            Some("only a limiter with `keyed: true` has keys".to_owned())
        }
        _ => None,
    }
}

/// Reads the value of a verb. `ask` has all of a demand but its cost.
fn read(word: &str, node: &Node, ask: Ask) -> Read<Verb> {
    let ask = |node| {
        Ok(Ask {
            cost: cost(node)?,
            ..ask
        })
    };
    Ok(match word {
        "try" => Verb::Try(ask(node)?),
        "acquire" => Verb::Acquire(ask(node)?),
        "reserve" => Verb::Reserve(ask(node)?),
        "estimate" => Verb::Estimate(ask(node)?),
        "take_up_to" => Verb::TakeUpTo(cost(node)?),
        "release" => Verb::Release(text(node)?),
        "split" => split(node)?,
        "merge" => merge(node)?,
        "forget_permit" => Verb::ForgetPermit(text(node)?),
        "cancel" => Verb::Cancel(text(node)?),
        "add" => Verb::Add(cost(node)?),
        "reset" => yes(node, Verb::Reset)?,
        "set_rate" => Verb::SetRate(rate(node)?),
        "resize" => Verb::Resize(positive(node)?),
        "set_queue_bound" => Verb::SetQueueBound(cost(node)?),
        "forget" => Verb::Forget(text(node)?),
        "sample" => Verb::Sample(read_one(node, Units::OrNanos)?),
        _ => yes(node, Verb::Close)?,
    })
}

fn priority(node: &Node) -> Read<Priority> {
    const PRIORITIES: [(&str, Priority); 3] = [
        ("critical", Priority::Critical),
        ("normal", Priority::Normal),
        ("non-critical", Priority::NonCritical),
    ];
    word(node, &PRIORITIES)
}

fn split(node: &Node) -> Read<Verb> {
    let fields = Fields::of(
        node,
        "a split: { name: a, cost: 2, as: b }",
        &["name", "cost", "as"],
    )?;
    Ok(Verb::Split {
        name: fields.required("name", text)?,
        cost: fields.required("cost", cost)?,
        part: fields.required("as", text)?,
    })
}

fn merge(node: &Node) -> Read<Verb> {
    let names = each(node, "two names: [a, b]", text)?;
    match <[String; 2]>::try_from(names) {
        Ok([name, other]) if name != other => Ok(Verb::Merge { name, other }),
        Ok(_) => Err(Problem::new(node.place, "a permit cannot join itself")),
        Err(names) => Err(Problem::new(
            node.place,
            format!("expected two names: [a, b], found {}", names.len()),
        )),
    }
}

fn carry(node: &Node) -> Read<Carry> {
    word(
        node,
        &[
            ("as_is", Carry::AsIs),
            ("proportional", Carry::Proportional),
            ("reset", Carry::Reset),
        ],
    )
}

/// Reads a verb whose only value is `true`. A step with `false` would do nothing.
fn yes(node: &Node, verb: Verb) -> Read<Verb> {
    if flag(node)? {
        Ok(verb)
    } else {
        Err(expected("true, or no such field", node))
    }
}
