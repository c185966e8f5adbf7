//! Reads expectations of the answer of a verb, of earlier requests, and of numbers.
//!
//! An expectation that can never be met, or can never fail, is an error in the file. So each is checked against its verb.

use plimsoll_spec::scalar::{cost, expected, flag, nearest, text, word};
use plimsoll_spec::{Fields, Node, Problem, Read, Value, quote};

use super::units::duration;
use crate::spec::{Expect, Hint, LimiterSpec, Outcome, Settled};

const RESULTS: [(&str, Outcome); 3] = [
    ("granted", Outcome::Granted),
    ("denied", Outcome::Denied),
    ("pending", Outcome::Pending),
];

const SETTLED: [(&str, Outcome); 4] = [
    ("granted", Outcome::Granted),
    ("denied", Outcome::Denied),
    ("pending", Outcome::Pending),
    ("cancelled", Outcome::Cancelled),
];

pub(crate) const REASONS: [&str; 13] = [
    "exhausted",
    "too_large",
    "queue_full",
    "evicted",
    "timed_out",
    "too_soon",
    "soft_throttle",
    "locked_out",
    "keys_full",
    "saturated",
    "no_key",
    "unavailable",
    "closed",
];

pub(crate) const FIELDS: [&str; 9] = [
    "result",
    "reason",
    "retry_after",
    "wait",
    "taken",
    "credit",
    "refused_by",
    "within",
    "sufficient",
];

/// Reads `expect` beside the verb `verb` of a step against `limiter`.
pub(crate) fn expect(node: &Node, verb: &str, limiter: &LimiterSpec) -> Read<Expect> {
    if let Value::Scalar { .. } = node.value {
        let result = Some(result(node, verb)?);
        return Ok(Expect {
            result,
            ..Expect::default()
        });
    }
    let fields = Fields::any(node, "granted, denied, pending or a map")?;
    fields.only("an expectation", &FIELDS)?;
    let expect = Expect {
        result: fields.optional("result", |node| result(node, verb))?,
        reason: fields.optional("reason", reason)?,
        retry_after: fields.optional("retry_after", hint)?,
        wait: fields.optional("wait", duration)?,
        taken: fields.optional("taken", cost)?,
        credit: fields.optional("credit", cost)?,
        refused_by: fields.optional("refused_by", |node| refused_by(node, limiter))?,
        within: fields.optional("within", duration)?.unwrap_or_default(),
        sufficient: fields.optional("sufficient", flag)?.unwrap_or(false),
    };
    let kind = limiter.spec.kind.word();
    if expect.credit.is_some() && kind != "penalty_bucket" {
        let message = format!("`{kind}` does not answer this, only `penalty_bucket` does");
        return Err(fields.problem("credit", message));
    }
    sense(&fields, &expect, verb)?;
    Ok(expect)
}

fn result(node: &Node, verb: &str) -> Read<Outcome> {
    if verb == "take_up_to" {
        return Err(expected(
            "{ taken: N }, which is what `take_up_to` answers",
            node,
        ));
    }
    let result = word(node, &RESULTS)?;
    if result == Outcome::Pending && matches!(verb, "try" | "estimate") {
        return Err(expected(
            &format!("granted or denied: `{verb}` never waits"),
            node,
        ));
    }
    Ok(result)
}

fn reason(node: &Node) -> Read<&'static str> {
    word(node, &REASONS.map(|reason| (reason, reason)))
}

pub(super) fn hint(node: &Node) -> Read<Hint> {
    match &node.value {
        Value::Scalar { text, .. } if text == "none" => Ok(Hint::None),
        _ => duration(node).map(Hint::After),
    }
}

fn refused_by(node: &Node, limiter: &LimiterSpec) -> Read<String> {
    let name = text(node)?;
    let names = limiter.names();
    if names.contains(&name.as_str()) {
        return Ok(name);
    }
    let hint = nearest(&name, names.into_iter());
    let message = format!("no limiter here has the name {}{hint}", quote(&name));
    Err(Problem::new(node.place, message))
}

/// Rejects fields that contradict the verb, the result or each other.
fn sense(fields: &Fields<'_>, expect: &Expect, verb: &str) -> Read<()> {
    let only_with = |name: &str, wanted: &[&str]| match fields.get(name) {
        Some(_) if !wanted.contains(&verb) => Err(fields.problem(
            name,
            format!(
                "`{verb}` does not answer this; it goes with `{}`",
                wanted.join("`, `")
            ),
        )),
        _ => Ok(()),
    };
    only_with("wait", &["reserve"])?;
    only_with("taken", &["take_up_to"])?;
    for name in ["reason", "retry_after", "refused_by"] {
        only_with(name, &["try", "acquire", "reserve", "estimate"])?;
    }

    let hint = matches!(expect.retry_after, Some(Hint::After(_)));
    let refusal = [
        ("reason", expect.reason.is_some()),
        ("retry_after", hint),
        ("refused_by", expect.refused_by.is_some()),
    ];
    for (name, given) in refusal {
        if given
            && (expect.wait.is_some()
                || expect
                    .result
                    .is_some_and(|result| result != Outcome::Denied))
        {
            return Err(fields.problem(
                name,
                "only a refusal has this, and something else is expected",
            ));
        }
    }
    if expect.wait.is_some() && expect.result == Some(Outcome::Denied) {
        return Err(fields.problem("wait", "a refused reservation has nothing to wait for"));
    }
    if fields.get("sufficient").is_some() && !hint {
        return Err(fields.problem(
            "sufficient",
            "this is about `retry_after`, which is not expected here",
        ));
    }
    if fields.get("within").is_some() && !hint && expect.wait.is_none() {
        return Err(fields.problem(
            "within",
            "a tolerance for nothing: there is no `retry_after` or `wait` here",
        ));
    }
    if fields.iter().next().is_none() {
        return Err(Problem::new(fields.place, "nothing is expected here"));
    }
    Ok(())
}

/// Reads the expected state of an earlier request.
pub(crate) fn settled(node: &Node) -> Read<Settled> {
    if let Value::Scalar { .. } = node.value {
        return Ok(Settled {
            result: word(node, &SETTLED)?,
            reason: None,
        });
    }
    let fields = Fields::of(node, "an entry of `settled`", &["result", "reason"])?;
    let settled = Settled {
        result: fields.required("result", |node| word(node, &SETTLED))?,
        reason: fields.optional("reason", reason)?,
    };
    if settled.reason.is_some() && settled.result != Outcome::Denied {
        return Err(fields.problem(
            "reason",
            "only a refusal has this, and something else is expected",
        ));
    }
    Ok(settled)
}
