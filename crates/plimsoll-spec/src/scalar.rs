//! Readers of single values: words, numbers, durations.

use std::time::Duration;

use crate::problem::{Problem, Read, quote};
use crate::tree::{Node, Value, Written};

const SECOND: u64 = 1_000_000_000;
const UNITS: [(&str, u64); 7] = [
    ("ns", 1),
    ("us", SECOND / 1_000_000),
    ("ms", SECOND / 1000),
    ("s", SECOND),
    ("m", 60 * SECOND),
    ("h", 3600 * SECOND),
    ("d", 86_400 * SECOND),
];
/// The largest number of words that a hint lists.
const FEW: usize = 20;
const A_DURATION: &str = "a duration with its unit such as 250ms, 1s, 5m, 1h or 1d";
const A_DURATION_OR_NANOS: &str =
    "a duration such as 250ms, 1s, 5m, 1h or 1d, or a whole number of nanoseconds";

/// The meaning of a duration without a unit.
///
/// ```
/// use plimsoll_spec::{Units, document};
///
/// let node = document("1500", "a duration")?;
/// assert!(Units::Required.nanos(&node).is_err());
/// assert_eq!(Units::OrNanos.nanos(&node)?, 1500);
/// # Ok::<(), plimsoll_spec::Problem>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Units {
    /// An error, for files that people write: `every: 60` is ambiguous. Only 0 needs no unit.
    Required,
    /// Nanoseconds, in scenarios, whose traces programs write.
    OrNanos,
}

impl Units {
    /// Reads a duration, 0 allowed.
    ///
    /// # Errors
    ///
    /// Returns an error if `node` holds another value.
    pub fn duration(self, node: &Node) -> Read<Duration> {
        self.nanos(node).map(Duration::from_nanos)
    }

    /// Reads a duration of at least a nanosecond.
    ///
    /// # Errors
    ///
    /// Returns an error if `node` holds another value.
    pub fn period(self, node: &Node) -> Read<Duration> {
        let period = self.duration(node)?;
        if period.is_zero() {
            return Err(expected("a duration above 0", node));
        }
        Ok(period)
    }

    /// Reads a duration or a moment, in nanoseconds.
    ///
    /// # Errors
    ///
    /// Returns an error if `node` holds another value.
    pub fn nanos(self, node: &Node) -> Read<u64> {
        match digits(node) {
            Some(0) => return Ok(0),
            Some(nanos) if self == Self::OrNanos => return Ok(nanos),
            _ => {}
        }
        let wanted = match self {
            Self::Required => A_DURATION,
            Self::OrNanos => A_DURATION_OR_NANOS,
        };
        let Value::Scalar { text, .. } = &node.value else {
            return Err(expected(wanted, node));
        };
        let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
        let number = &text[..text.len() - unit.len()];
        let scale = UNITS.iter().find(|(known, _)| *known == unit);
        let (false, Some((_, scale))) = (number.is_empty(), scale) else {
            let problem = expected(wanted, node);
            return Err(match written_with_unit(text) {
                Some(hint) if self == Self::Required => problem.hint(&hint),
                _ => problem,
            });
        };
        let longest = || expected("a duration of at most 213503d", node);
        number
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(*scale))
            .ok_or_else(longest)
    }
}

/// A hint with the correct spelling of a duration.
fn written_with_unit(text: &str) -> Option<String> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let number: u64 = text[..text.len() - unit.len()].parse().ok()?;
    let known = match unit.trim().to_ascii_lowercase().as_str() {
        // A plain number: the most likely unit for its size.
        "" if number < 1000 => "s",
        "" if number < 1_000_000 => "ms",
        "" => "ns",
        "s" | "sec" | "secs" | "second" | "seconds" => "s",
        "ns" | "nanos" | "nanoseconds" => "ns",
        "us" | "µs" | "μs" | "micros" | "microseconds" => "us",
        "ms" | "msec" | "millis" | "milliseconds" => "ms",
        "m" | "min" | "mins" | "minute" | "minutes" => "m",
        "h" | "hr" | "hour" | "hours" => "h",
        "d" | "day" | "days" => "d",
        _ => return None,
    };
    Some(format!("did you mean `{number}{known}`?"))
}

/// Creates the problem that `node` is not `what`: `expected WHAT, found …`. A value that was substituted is shown as it
/// is in the file.
#[must_use]
pub fn expected(what: &str, node: &Node) -> Problem {
    Problem::new(
        node.place,
        format!("expected {what}, found {}", found(node)),
    )
}

fn found(node: &Node) -> String {
    match node.written.as_deref() {
        Some(Written::Text(text)) => return quote(text),
        Some(written) => return format!("what {written} says"),
        None => {}
    }
    match &node.value {
        Value::List(_) => "a list".to_owned(),
        Value::Map(_) => "a map".to_owned(),
        _ if node.is_null() => "nothing".to_owned(),
        Value::Scalar { text, quoted: true } => format!("the text {}", quote(text)),
        Value::Scalar {
            text,
            quoted: false,
        } => quote(text),
    }
}

/// Returns a hint for an unknown word: the nearest known word, or all known words if they are few. Empty if there is no
/// hint.
///
/// ```
/// use plimsoll_spec::scalar::nearest;
///
/// assert_eq!(nearest("brust", ["burst", "refill"].into_iter()), ", did you mean `burst`?");
/// ```
#[must_use]
pub fn nearest<'a>(unknown: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let close = |word: &&str| {
        let distance = strsim::osa_distance(word, unknown);
        let far = (word.len() / 3).max(1).min(unknown.len().saturating_sub(1));
        (distance <= far).then_some(distance)
    };
    if unknown.len() <= 40
        && let Some(word) = known
            .clone()
            .filter(|word| close(word).is_some())
            .min_by_key(close)
    {
        return format!(", did you mean `{word}`?");
    }
    let known: Vec<&str> = known.collect();
    match known.len() {
        0 | FEW.. => String::new(),
        _ => format!(", known are {}", known.join(", ")),
    }
}

/// Reads a text that is not empty. Plain numbers are texts too: `as: 1` is a name.
///
/// # Errors
///
/// Returns an error if `node` holds another value.
pub fn text(node: &Node) -> Read<String> {
    match &node.value {
        Value::Scalar { text, .. } if !node.is_null() && !text.is_empty() => Ok(text.clone()),
        _ => Err(expected("a word or a text", node)),
    }
}

/// Reads one of the words of `table`, and returns its value in the table.
///
/// ```
/// use plimsoll_spec::{document, scalar::word};
///
/// let modes = [("enforce", true), ("shadow", false)];
/// assert!(!word(&document("shadow", "a mode")?, &modes)?);
/// # Ok::<(), plimsoll_spec::Problem>(())
/// ```
///
/// # Errors
///
/// Returns an error with the nearest word of the table if it is another word.
pub fn word<T: Copy>(node: &Node, table: &[(&str, T)]) -> Read<T> {
    let unknown = text(node)?;
    match table.iter().find(|(word, _)| *word == unknown) {
        Some((_, value)) => Ok(*value),
        None => {
            let hint = nearest(&unknown, table.iter().map(|(word, _)| *word));
            Err(Problem::new(
                node.place,
                format!("unknown word {}{hint}", quote(&unknown)),
            ))
        }
    }
}

/// Reads `true` or `false`.
///
/// # Errors
///
/// Returns an error if `node` holds another value.
pub fn flag(node: &Node) -> Read<bool> {
    match plain(node) {
        Some("true") => Ok(true),
        Some("false") => Ok(false),
        _ => Err(expected("true or false", node)),
    }
}

/// Reads a cost or a bound, 0 allowed.
///
/// # Errors
///
/// Returns an error if `node` holds another value.
pub fn cost(node: &Node) -> Read<u64> {
    whole(node, 0, u64::MAX)
}

/// Reads a limit or a number of tokens: at least one.
///
/// # Errors
///
/// Returns an error if `node` holds another value.
pub fn positive(node: &Node) -> Read<u64> {
    whole(node, 1, u64::MAX)
}

/// Reads a count of at least `least`.
///
/// # Errors
///
/// Returns an error if `node` holds another value.
pub fn count(node: &Node, least: u32) -> Read<u32> {
    let number = whole(node, least.into(), u32::MAX.into())?;
    // It is at most that.
    Ok(u32::try_from(number).unwrap_or(u32::MAX))
}

fn whole(node: &Node, least: u64, most: u64) -> Read<u64> {
    let number = digits(node).filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| expected(&format!("a whole number from {least} to {most}"), node))
}

/// Parses an integer, with an optional suffix for thousands (`100k`), millions (`2M`) or billions (`1G`). `None` if
/// `text` is something else.
///
/// ```
/// assert_eq!(plimsoll_spec::scalar::amount("2M"), Some(2_000_000));
/// assert_eq!(plimsoll_spec::scalar::amount("2.5"), None);
/// ```
#[must_use]
pub fn amount(text: &str) -> Option<u64> {
    const SCALES: [(char, u64); 3] = [('k', 1000), ('M', 1_000_000), ('G', 1_000_000_000)];
    let scaled = |(unit, scale): &(char, u64)| Some((text.strip_suffix(*unit)?, *scale));
    let (number, scale) = SCALES.iter().find_map(scaled).unwrap_or((text, 1));
    let plain = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let number: Option<u64> = plain.then(|| number.parse().ok()).flatten();
    number?.checked_mul(scale)
}

/// Reads a total, 0 allowed.
///
/// # Errors
///
/// Returns an error if `node` holds another value.
pub fn total(node: &Node) -> Read<u64> {
    digits(node).ok_or_else(|| expected("a whole number, 0 or more", node))
}

/// Reads a finite number, 0 or more.
///
/// # Errors
///
/// Returns an error if `node` holds another value.
pub fn fraction(node: &Node) -> Read<f64> {
    let number =
        plain(node).filter(|text| text.starts_with(|c: char| c.is_ascii_digit() || c == '.'));
    let number = number.and_then(|text| text.parse::<f64>().ok());
    number
        .filter(|number| number.is_finite())
        .ok_or_else(|| expected("a number, 0 or more", node))
}

/// Reads a finite number of either sign.
///
/// # Errors
///
/// Returns an error if `node` holds another value.
pub fn signed(node: &Node) -> Read<f64> {
    let number = plain(node).and_then(|text| text.parse::<f64>().ok());
    number
        .filter(|number| number.is_finite())
        .ok_or_else(|| expected("a number", node))
}

/// Reads a finite number above 0.
///
/// # Errors
///
/// Returns an error if `node` holds another value.
pub fn rate(node: &Node) -> Read<f64> {
    fraction(node)
        .ok()
        .filter(|rate| *rate > 0.0)
        .ok_or_else(|| expected("a number above 0", node))
}

/// Reads a duration of at least a nanosecond, with its unit.
///
/// # Errors
///
/// Returns an error if `node` holds another value.
pub fn period(node: &Node) -> Read<Duration> {
    Units::Required.period(node)
}

/// Reads a duration with its unit; 0 is allowed, and needs none.
///
/// # Errors
///
/// Returns an error if `node` holds another value.
pub fn duration(node: &Node) -> Read<Duration> {
    Units::Required.duration(node)
}

/// Reads a duration or a moment with its unit, in nanoseconds; 0 is allowed, and needs none.
///
/// # Errors
///
/// Returns an error if `node` holds another value.
pub fn nanos(node: &Node) -> Read<u64> {
    Units::Required.nanos(node)
}

/// A plain (unquoted) scalar.
fn plain(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Scalar {
            text,
            quoted: false,
        } => Some(text),
        _ => None,
    }
}

fn digits(node: &Node) -> Option<u64> {
    let text = plain(node).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    text.parse().ok()
}
