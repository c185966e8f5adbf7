//! Short forms of limiters: `rate: 100/s`, `concurrency: 10`, `concurrency: adaptive`.
//!
//! A short form is expanded in the tree, before types are read from it: `{ rate: 5/10m, burst: 10 }` becomes
//! `{ kind: token_bucket, refill: 5, every: 10m, burst: 10 }`, at the same places. Mistakes in a rate are reported here, so that
//! no message names a field that the file does not have.

use std::time::Duration;

use crate::buckets::TokenBucket;
use crate::de::read_one;
use crate::place::Place;
use crate::problem::{Problem, quote};
use crate::rates::Rate;
use crate::scalar::{self, Units, expected, nearest};
use crate::tree::{Entry, Node, Value};

/// The description of a limiter in messages, in files with short forms.
const WANTED: &str = "a limit such as 100/s, or a map with `rate`, `concurrency` or `kind`";
const A_RATE: &str = "a rate such as 100/s, 5000/hour, 5/10min, 100k/min or 0.5/s";
const SLOTS: &str = "how many at the same time, or `adaptive`";
const RATE: &str = "rate";
const CONCURRENCY: &str = "concurrency";
/// The algorithm of `concurrency: adaptive`: the one that needs no tuning.
const ALGORITHM: &str = "verdict";

/// The parameters of a token bucket that a rate describes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Shortened {
    refill: u64,
    /// In nanoseconds.
    every: u64,
    /// The amount of the rate, rounded up.
    burst: u64,
}

/// Expands the short form of a limiter. Mistakes in it are added to `problems`, and a valid limiter replaces it.
#[must_use]
pub fn long_form(node: &Node, problems: &mut Vec<Problem>) -> Node {
    let entries = match &node.value {
        Value::Map(entries) => entries,
        Value::Scalar { .. } if !node.is_null() => {
            let rate = bucket(node, None).unwrap_or_else(|problem| {
                problems.push(match text_of(node) {
                    Some(text) if !is_rate(text) => {
                        hinted(expected(WANTED, node), &rewritten(text))
                    }
                    _ => problem,
                });
                any_bucket(node.place)
            });
            return map(node.place, rate);
        }
        _ => {
            problems.push(expected(WANTED, node));
            return map(node.place, any_bucket(node.place));
        }
    };
    let find = |name: &str| entries.iter().find(|entry| entry.key == name);
    if find("kind").is_some() {
        return node.clone();
    }
    let (long, said): (Vec<Entry>, &[&str]) = match (find(RATE), find(CONCURRENCY)) {
        (None, None) => return node.clone(),
        (Some(rate), None) => {
            let long = bucket(&rate.value, find("burst")).unwrap_or_else(|problem| {
                problems.push(problem.under_key(RATE));
                any_bucket(rate.place)
            });
            (long, &["refill", "every"])
        }
        (None, Some(slots)) => match text_of(&slots.value) {
            Some("adaptive") => {
                let place = slots.value.place;
                let kind = Entry::word("kind", "adaptive", place);
                let algorithm = Entry::word("algorithm", ALGORITHM, place);
                (vec![kind, algorithm], &["algorithm"])
            }
            _ => (
                slots_of(&slots.value).unwrap_or_else(|problem| {
                    problems.push(problem.under_key(CONCURRENCY));
                    any_slots(slots.place)
                }),
                &["limit"],
            ),
        },
        (Some(_), Some(slots)) => {
            let message = "a limit is a `rate` or a `concurrency`: two limits go together as `kind: all`, or side by side";
            problems.push(Problem::new(slots.place, message).under_key(CONCURRENCY));
            (any_slots(slots.place), &["limit"])
        }
    };
    let short = if find(RATE).is_some() {
        RATE
    } else {
        CONCURRENCY
    };
    let mut fields = long;
    for entry in entries {
        let name = entry.key.as_str();
        if said.contains(&name) {
            let message = format!("`{short}` says this already: expected no `{name}` beside it");
            problems.push(Problem::new(entry.place, message).under_key(name));
        } else if ![RATE, CONCURRENCY].contains(&name) && !fields.iter().any(|it| it.key == name) {
            fields.push(entry.clone());
        }
    }
    map(node.place, fields)
}

/// Returns whether `text` looks like a rate, valid or not.
#[must_use]
pub fn is_rate(text: &str) -> bool {
    text.contains('/')
}

/// Parses a rate such as `100/s` or `0.5/10min` to an amount and a period.
///
/// # Errors
///
/// Returns a hint at the probable meaning, to be appended to a message. It may be empty.
pub fn read_rate(text: &str) -> Result<(u64, Duration), String> {
    let hint = |hint: String| match hint.as_str() {
        "" => hint,
        _ => format!(", {hint}"),
    };
    let short = shortened(text).map_err(hint)?;
    Ok((short.refill, Duration::from_nanos(short.every)))
}

/// The fields of a greedy token bucket.
fn bucket(rate: &Node, burst: Option<&Entry>) -> Result<Vec<Entry>, Problem> {
    let place = rate.place;
    let text = text_of(rate).ok_or_else(|| expected(A_RATE, rate))?;
    let short = shortened(text).map_err(|hint| hinted(expected(A_RATE, rate), &hint))?;
    let mut fields = vec![
        Entry::word("kind", "token_bucket", place),
        plain("refill", short.refill.to_string(), place),
        plain("every", format!("{}ns", short.every), place),
    ];
    let whole = plain("burst", short.burst.to_string(), place);
    let probe = map(place, [&fields[1..], std::slice::from_ref(&whole)].concat());
    let rule = read_one::<TokenBucket>(&probe, Units::Required);
    let rule = rule.map(|bucket| bucket.rule());
    match rule {
        Ok(Ok(_)) => {}
        Ok(Err(invalid)) => {
            let invalid = invalid.invalid();
            let (rule, field, value) = (invalid.rule(), invalid.field(), invalid.value());
            let text = quote(text);
            let message = format!("expected {rule} as its {field}, found {value}, which is {text}");
            return Err(Problem::new(place, message));
        }
        Err(_) => {
            let text = quote(text);
            let message =
                format!("expected {A_RATE}, found {text}, which is more than can be counted");
            return Err(Problem::new(place, message));
        }
    }
    // A burst may have a suffix for thousands, as the rate may.
    fields.push(match burst {
        None => whole,
        Some(burst) => match text_of(&burst.value).and_then(scalar::amount) {
            Some(amount) if !is_quoted(&burst.value) => Entry {
                value: plain("burst", amount.to_string(), burst.value.place).value,
                ..burst.clone()
            },
            _ => burst.clone(),
        },
    });
    Ok(fields)
}

fn hinted(problem: Problem, hint: &str) -> Problem {
    match hint {
        "" => problem,
        hint => problem.hint(hint),
    }
}

/// Parses a rate. The error is a hint.
fn shortened(text: &str) -> Result<Shortened, String> {
    let Some((amount, period)) = text.split_once('/') else {
        return Err(rewritten(text));
    };
    let wrong = || rewritten(text);
    let (number, scale) = ["k", "M", "G"]
        .into_iter()
        .zip([1_000u128, 1_000_000, 1_000_000_000])
        .find_map(|(unit, scale)| Some((amount.strip_suffix(unit)?, scale)))
        .unwrap_or((amount, 1));
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let few = whole.len() + part.len() <= 18;
    let dotted = number.contains('.') && part.is_empty();
    if whole.is_empty() || dotted || !digits(whole) || !digits(part) || !few {
        return Err(wrong());
    }
    let places = u32::try_from(part.len()).map_err(|_| wrong())?;
    let tenths = 10u128.pow(places);
    let amount: u128 = format!("{whole}{part}").parse().map_err(|_| wrong())?;
    let amount = amount * scale;
    if amount == 0 {
        return Err("which grants nothing".to_owned());
    }
    let unit = period.trim_start_matches(|c: char| c.is_ascii_digit());
    let count = &period[..period.len() - unit.len()];
    let count: u128 = match count {
        "" => 1,
        count => count.parse::<u64>().map_err(|_| wrong())?.into(),
    };
    let Some(scale) = unit_of(unit) else {
        let hint = nearest(unit, UNITS.iter().flat_map(|(words, _)| *words).copied());
        let said = hint.trim_start_matches(", ");
        return Err(match rewritten(text) {
            rewritten if rewritten.is_empty() => said.to_owned(),
            rewritten => rewritten,
        });
    };
    let period = count * u128::from(scale);
    if period == 0 {
        return Err("which has no time".to_owned());
    }
    // An amount in tenths per period is the same whole amount in ten periods.
    let common = gcd(amount, tenths);
    let every = period * (tenths / common);
    let too_much = |_| "which is more than can be counted".to_owned();
    Ok(Shortened {
        refill: u64::try_from(amount / common).map_err(too_much)?,
        every: u64::try_from(every).map_err(too_much)?,
        burst: u64::try_from(amount.div_ceil(tenths)).map_err(too_much)?,
    })
}

const SECOND: u64 = 1_000_000_000;
const UNITS: [(&[&str], u64); 5] = [
    (&["ms"], SECOND / 1000),
    (&["s", "sec", "second", "seconds"], SECOND),
    (&["m", "min", "minute", "minutes"], 60 * SECOND),
    (&["h", "hour", "hours"], 3600 * SECOND),
    (&["d", "day", "days"], 86_400 * SECOND),
];

fn unit_of(word: &str) -> Option<u64> {
    let unit = UNITS.iter().find(|(words, _)| words.contains(&word));
    unit.map(|(_, nanos)| *nanos)
}

/// A hint with the correct spelling of a rate; empty if there is none.
fn rewritten(text: &str) -> String {
    let plain = text.to_ascii_lowercase().replace(" per ", "/");
    let plain: String = plain
        .chars()
        .filter(|c| !c.is_whitespace() && *c != '_')
        .collect();
    if let Some(number) = plain
        .strip_suffix("rps")
        .or_else(|| plain.strip_suffix("qps"))
        && scalar::amount(number).is_some()
    {
        return format!("did you mean `{number}/s`?");
    }
    if plain != text && plain.contains('/') && shortened(&plain).is_ok() {
        return format!("did you mean `{plain}`?");
    }
    match scalar::amount(&plain) {
        Some(_) => format!("did you mean `{plain}/s`?"),
        None => String::new(),
    }
}

fn slots_of(slots: &Node) -> Result<Vec<Entry>, Problem> {
    scalar::positive(slots).map_err(|problem| match text_of(slots) {
        Some(text) if text.parse::<u64>().is_err() => {
            let problem = expected(SLOTS, slots);
            match nearest(text, ["adaptive"].into_iter()) {
                hint if hint.contains("did you mean") => {
                    problem.hint(hint.trim_start_matches(", "))
                }
                _ => problem,
            }
        }
        Some(_) => problem,
        None => expected(SLOTS, slots),
    })?;
    let kind = Entry::word("kind", "concurrency", slots.place);
    let limit = Entry {
        key: "limit".to_owned(),
        place: slots.place,
        value: slots.clone(),
    };
    Ok(vec![kind, limit])
}

/// Replaces an invalid rate.
fn any_bucket(place: Place) -> Vec<Entry> {
    let one = |name| plain(name, "1".to_owned(), place);
    let every = plain("every", "1s".to_owned(), place);
    let kind = Entry::word("kind", "token_bucket", place);
    vec![kind, one("refill"), every, one("burst")]
}

/// Replaces an invalid concurrency.
fn any_slots(place: Place) -> Vec<Entry> {
    let limit = plain("limit", "1".to_owned(), place);
    vec![Entry::word("kind", "concurrency", place), limit]
}

const fn map(place: Place, entries: Vec<Entry>) -> Node {
    let value = Value::Map(entries);
    Node::new(place, value)
}

fn plain(key: &str, text: String, place: Place) -> Entry {
    let value = Value::Scalar {
        text,
        quoted: false,
    };
    Entry {
        key: key.to_owned(),
        place,
        value: Node::new(place, value),
    }
}

fn text_of(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Scalar { text, .. } if !node.is_null() => Some(text),
        _ => None,
    }
}

const fn is_quoted(node: &Node) -> bool {
    matches!(node.value, Value::Scalar { quoted: true, .. })
}

const fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_whole_numbers_over_whole_times() {
        let minute = 60 * SECOND;
        for (text, refill, every, burst) in [
            ("100/s", 100, SECOND, 100),
            ("5000/hour", 5000, 60 * minute, 5000),
            ("5/10min", 5, 10 * minute, 5),
            ("100k/min", 100_000, minute, 100_000),
            ("1.5k/m", 1500, minute, 1500),
            ("0.5/s", 1, 2 * SECOND, 1),
            ("2.5/s", 5, 2 * SECOND, 3),
            ("0.1/s", 1, 10 * SECOND, 1),
            ("1.10/d", 11, 864_000 * SECOND, 2),
            ("3/250ms", 3, SECOND / 4, 3),
            ("2M/second", 2_000_000, SECOND, 2_000_000),
        ] {
            let wanted = Shortened {
                refill,
                every,
                burst,
            };
            assert_eq!(shortened(text), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn what_is_no_rate_is_told_what_it_could_be() {
        for (text, hint) in [
            ("100", "did you mean `100/s`?"),
            ("100 / s", "did you mean `100/s`?"),
            ("100 per minute", "did you mean `100/minute`?"),
            ("100rps", "did you mean `100/s`?"),
            ("1_000/s", "did you mean `1000/s`?"),
            ("100/minuet", "did you mean `minute`?"),
            ("0/s", "which grants nothing"),
            ("0.000/s", "which grants nothing"),
            ("5/0s", "which has no time"),
            ("-1/s", ""),
            ("1e3/s", ""),
            ("/s", ""),
            (".5/s", ""),
            ("5./s", ""),
            ("5/99999999999999999999s", ""),
            ("999999999999999999G/s", "which is more than can be counted"),
        ] {
            let said = shortened(text).expect_err(text);
            assert!(
                said == hint || !hint.is_empty() && said.contains(hint),
                "{text}: {said}"
            );
        }
        assert!(shortened("5/").is_err() && shortened("").is_err());
    }
}
