//! Reads scenarios whose steps are requests to the limits of a configuration.

use std::collections::BTreeSet;
use std::net::IpAddr;

use plimsoll_spec::scalar::{cost, expected, nearest, positive, text, word};
use plimsoll_spec::{Entry, Fields, Node, Problem, Read, Value, each, label, quote};

use super::expect::{REASONS, hint};
use super::units::{duration, nanos};
use crate::spec::{
    Act, Admission, Answered, Hint, Remaining, Reply, RequestSpec, RequestStep, Requests,
};

const A_REQUEST: &str = "a request such as GET /login from 10.0.0.7";
const ANSWERS: &str = "allowed, refused, pending, refused by LIMIT or a map";

/// The fields of the expected response to a request.
pub(crate) const ANSWERED: [&str; 6] = [
    "result",
    "refused_by",
    "reason",
    "retry_after",
    "status",
    "within",
];

/// The additional reasons for which requests are refused, but demands are not.
pub(crate) const MORE_REASONS: [&str; 3] = ["no_key", "shed", "unavailable"];

/// The fields of a request and of its response.
pub(crate) const OF_REQUEST: [&str; 9] = [
    "headers",
    "body",
    "claims",
    "descriptors",
    "status",
    "answer",
    "answer_headers",
    "usage",
    "from",
];
/// The fields of an ask by name.
pub(crate) const OF_ASK: [&str; 3] = ["key", "tier", "cost"];
const OTHERS: [&str; 9] = [
    "at",
    "request",
    "ask",
    "finish",
    "as",
    "times",
    "expect",
    "remaining",
    "settled",
];

pub(crate) fn requests(fields: &Fields<'_>) -> Read<Requests> {
    let start = fields.optional("start", nanos)?.unwrap_or(0);
    let config = fields.required("config", text)?;
    let place = fields
        .get("config")
        .map_or(fields.place, |it| it.value.place);
    let mut reader = Reader {
        now: start,
        names: BTreeSet::new(),
    };
    let steps = fields.required("steps", |node| {
        each(node, "a list of steps", |node| reader.step(node))
    })?;
    Ok(Requests {
        config,
        config_place: place,
        start,
        steps,
    })
}

struct Reader {
    now: u64,
    names: BTreeSet<String>,
}

impl Reader {
    fn step(&mut self, node: &Node) -> Read<RequestStep> {
        let what = "a step such as { request: GET / from 10.0.0.7, expect: allowed }";
        let fields = Fields::any(node, what)?;
        let known: Vec<&str> = [&OTHERS[..], &OF_REQUEST, &OF_ASK].concat();
        fields.only("a step", &known)?;
        self.now = fields.optional("at", nanos)?.unwrap_or(self.now);
        let act = self.act(&fields)?;
        let name = fields.optional("as", text)?;
        let times = fields.optional("times", positive)?.unwrap_or(1);
        let asks = matches!(act, Some(Act::Request(_) | Act::Ask { .. }));
        for field in ["as", "times", "expect", "remaining"] {
            if !asks && fields.get(field).is_some() {
                return Err(fields.problem(field, "this goes with `request` or `ask`"));
            }
        }
        if name.is_some() && times > 1 {
            return Err(fields.problem("times", "one name cannot stand for several"));
        }
        self.names.extend(name.clone());
        Ok(RequestStep {
            place: fields.place,
            at: self.now,
            name,
            times,
            expect: fields.optional("expect", answered)?,
            remaining: fields
                .optional("remaining", |node| remaining(node, act.as_ref()))?
                .unwrap_or_default(),
            settled: fields
                .optional("settled", |node| self.settled(node))?
                .unwrap_or_default(),
            act,
        })
    }

    fn act(&self, fields: &Fields<'_>) -> Read<Option<Act>> {
        let verbs = ["request", "ask", "finish"];
        let mut given = verbs.into_iter().filter(|verb| fields.get(verb).is_some());
        let verb = given.next();
        if let Some(second) = given.next() {
            let message = "a step does one thing: `request`, `ask` or `finish`";
            return Err(fields.problem(second, message));
        }
        let strangers: Vec<&str> = match verb {
            Some("request") => OF_ASK.to_vec(),
            Some("ask") => OF_REQUEST.to_vec(),
            _ => [&OF_REQUEST[..], &OF_ASK].concat(),
        };
        if let Some(stranger) = strangers.into_iter().find(|it| fields.get(it).is_some()) {
            let message = match OF_ASK.contains(&stranger) {
                true => "this goes with `ask`",
                false => "this goes with `request`",
            };
            return Err(fields.problem(stranger, message));
        }
        Ok(Some(match verb {
            None => return Ok(None),
            Some("request") => Act::Request(Box::new(request(fields)?)),
            Some("ask") => Act::Ask {
                limit: fields.required("ask", |node| Ok((text(node)?, node.place)))?,
                key: fields.optional("key", text)?,
                tier: fields.optional("tier", text)?,
                cost: fields.optional("cost", cost)?.unwrap_or(1),
            },
            Some(_) => Act::Finish(fields.required("finish", |node| {
                let name = text(node)?;
                self.known(&name)
                    .map_err(|message| Problem::new(node.place, message))?;
                Ok(name)
            })?),
        }))
    }

    fn known(&self, name: &str) -> Result<(), String> {
        if self.names.contains(name) {
            return Ok(());
        }
        let hint = nearest(name, self.names.iter().map(String::as_str));
        Err(format!(
            "no step up to here has `as: {}`{hint}",
            quote(name)
        ))
    }

    fn settled(&self, node: &Node) -> Read<Vec<(String, Answered)>> {
        let fields = Fields::any(node, "a map from names to what became of them")?;
        let one = |Entry { key, place, value }: &Entry| {
            self.known(key)
                .map_err(|message| Problem::new(*place, message).under_key(&label(key)))?;
            let settled = answered(value).map_err(|problem| problem.under_key(&label(key)))?;
            Ok((key.clone(), settled))
        };
        fields.iter().map(one).collect()
    }
}

fn request(fields: &Fields<'_>) -> Read<RequestSpec> {
    let (method, target, from) = fields.required("request", line)?;
    let second = fields.optional("from", address)?;
    if from.is_some() && second.is_some() {
        return Err(fields.problem("from", "`request` says this already"));
    }
    let pairs = |name| Ok(fields.optional(name, pairs)?.unwrap_or_default());
    Ok(RequestSpec {
        method,
        target,
        from: from.or(second),
        headers: pairs("headers")?,
        body: fields.optional("body", body)?.unwrap_or_default(),
        claims: pairs("claims")?,
        descriptors: pairs("descriptors")?,
        reply: Reply {
            status: fields.optional("status", status)?,
            headers: pairs("answer_headers")?,
            body: fields.optional("answer", body)?.unwrap_or_default(),
            usage: fields.optional("usage", cost)?,
        },
    })
}

/// Reads `METHOD TARGET`, optionally followed by `from ADDRESS`.
fn line(node: &Node) -> Read<(String, String, Option<IpAddr>)> {
    let line = text(node)?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let (method, target, from) = match words.as_slice() {
        [method, target] => (method, target, None),
        [method, target, "from", address] => (method, target, Some(*address)),
        _ => return Err(expected(A_REQUEST, node)),
    };
    let is_method = method
        .bytes()
        .all(|byte| byte.is_ascii_uppercase() || byte == b'-');
    if !is_method || !target.starts_with('/') {
        return Err(expected(A_REQUEST, node));
    }
    let from = from.map(|from| from.parse().map_err(|_| not_an_address(node, from)));
    Ok((
        (*method).to_owned(),
        (*target).to_owned(),
        from.transpose()?,
    ))
}

fn not_an_address(node: &Node, found: &str) -> Problem {
    let message = format!(
        "expected an address such as 10.0.0.7 or 2001:db8::1, found {}",
        quote(found)
    );
    Problem::new(node.place, message)
}

fn address(node: &Node) -> Read<IpAddr> {
    let address = text(node)?;
    address.parse().map_err(|_| not_an_address(node, &address))
}

fn pairs(node: &Node) -> Read<Vec<(String, String)>> {
    let fields = Fields::any(node, "a map of names and texts")?;
    let pair = |entry: &Entry| {
        let value = text(&entry.value).map_err(|problem| problem.under_key(&label(&entry.key)));
        Ok((entry.key.clone(), value?))
    };
    fields.iter().map(pair).collect()
}

/// Reads a body: a text, or a number of bytes.
fn body(node: &Node) -> Read<String> {
    const LONGEST: usize = 10_000_000;
    match &node.value {
        Value::Scalar {
            text,
            quoted: false,
        } if text.bytes().all(|it| it.is_ascii_digit()) => {
            let length = text.parse::<usize>().ok().filter(|it| *it <= LONGEST);
            let length = length.ok_or_else(|| expected("at most 10000000 bytes", node))?;
            Ok("x".repeat(length))
        }
        _ => text(node),
    }
}

fn status(node: &Node) -> Read<u16> {
    let number = cost(node)?;
    let status = u16::try_from(number).ok();
    let status = status.filter(|status| (200..=599).contains(status));
    status.ok_or_else(|| expected("a status from 200 to 599", node))
}

fn answered(node: &Node) -> Read<Answered> {
    if let Value::Scalar { text, .. } = &node.value {
        if let Some(limit) = text.strip_prefix("refused by ") {
            return Ok(Answered {
                result: Some(Admission::Refused),
                refused_by: Some((limit.trim().to_owned(), node.place)),
                ..Answered::default()
            });
        }
        return Ok(Answered {
            result: Some(admission(node)?),
            ..Answered::default()
        });
    }
    let fields = Fields::any(node, ANSWERS)?;
    fields.only("an expectation", &ANSWERED)?;
    let answered = Answered {
        result: fields.optional("result", admission)?,
        refused_by: fields.optional("refused_by", |node| Ok((text(node)?, node.place)))?,
        reason: fields.optional("reason", reason)?.map(str::to_owned),
        retry_after: fields.optional("retry_after", hint)?,
        status: fields.optional("status", status)?,
        within: fields.optional("within", duration)?.unwrap_or_default(),
    };
    sense(&fields, &answered)?;
    Ok(answered)
}

/// Reads a reason. Requests are refused for more reasons than demands.
fn reason(node: &Node) -> Read<&'static str> {
    let known = REASONS.into_iter().chain(MORE_REASONS);
    let known: Vec<_> = known.map(|it| (it, it)).collect();
    word(node, &known)
}

fn admission(node: &Node) -> Read<Admission> {
    let words = [Admission::Allowed, Admission::Refused, Admission::Pending];
    word(node, &words.map(|it| (it.word(), it)))
}

/// Rejects fields that contradict each other, or expect nothing.
fn sense(fields: &Fields<'_>, answered: &Answered) -> Read<()> {
    if fields.iter().next().is_none() {
        return Err(Problem::new(fields.place, "nothing is expected here"));
    }
    let other = answered.result.is_some_and(|it| it != Admission::Refused);
    for name in ["refused_by", "reason", "retry_after"] {
        if other && fields.get(name).is_some() {
            let message = "only a refusal has this, and something else is expected";
            return Err(fields.problem(name, message));
        }
    }
    if fields.get("within").is_some() && !matches!(answered.retry_after, Some(Hint::After(_))) {
        let message = "a tolerance for nothing: there is no `retry_after` here";
        return Err(fields.problem("within", message));
    }
    Ok(())
}

/// Reads a number for each limit by name, or a single number beside `ask`.
fn remaining(node: &Node, act: Option<&Act>) -> Read<Vec<Remaining>> {
    if let (Value::Scalar { .. }, Some(Act::Ask { limit, .. })) = (&node.value, act) {
        let amount = cost(node)?;
        let (limit, place) = limit.clone();
        return Ok(vec![Remaining {
            limit,
            place,
            amount,
        }]);
    }
    let fields = Fields::any(
        node,
        "a map from limits to what remains, such as { per_user: 3 }",
    )?;
    let one = |entry: &Entry| {
        let amount = cost(&entry.value).map_err(|problem| problem.under_key(&label(&entry.key)))?;
        Ok(Remaining {
            limit: entry.key.clone(),
            place: entry.place,
            amount,
        })
    };
    fields.iter().map(one).collect()
}
