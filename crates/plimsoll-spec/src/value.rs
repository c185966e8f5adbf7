//! Types of single values, with their schema and their printed form.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize, Serializer};

/// An amount, such as a limit or a number of tokens: a whole number, at least 1. In configuration files 0 is an error.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Positive(pub u64);

/// A count, such as a number of segments or a weight: a whole number of 32 bits, at least 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Count(pub u32);

/// A finite number above 0, which may be a fraction.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Number(pub f64);

/// A finite number of either sign.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Signed(pub f64);

/// A duration in nanoseconds, 0 allowed. It serializes with the largest unit that is exact, such as `250ms`.
///
/// ```
/// use plimsoll_spec::{Span, Units, document, read_one};
/// use std::time::Duration;
///
/// let span: Span = read_one(&document("1500ms", "a duration")?, Units::Required)?;
/// assert_eq!(Duration::from(span), Duration::from_millis(1500));
/// // A number without a unit is a mistake.
/// assert!(read_one::<Span>(&document("1500", "a duration")?, Units::Required).is_err());
/// # Ok::<(), plimsoll_spec::Problem>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
pub struct Span(pub u64);

/// A duration above 0, in nanoseconds. It serializes as a [`Span`] does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
pub struct Period(pub u64);

/// The name of a limiter or of another entry that a file refers to: at most 64 letters, digits, `_`, `-` and `.`.
///
/// ```
/// use plimsoll_spec::Name;
///
/// assert!(Name::is_valid("per_client.v2") && !Name::is_valid("per client"));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Name(pub String);

/// A percentage from 1 to 100. It is written and printed with its sign: `80%`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
pub struct Percent(pub u32);

/// An amount of memory: a percentage of the available memory, or bytes.
///
/// ```
/// use plimsoll_spec::{Memory, Units, document, read_one};
///
/// let read = |text| read_one::<Memory>(&document(text, "memory")?, Units::Required);
/// assert_eq!(read("80%")?.percent(), Some(80));
/// assert_eq!(read("64KiB")?.bytes(), Some(65_536));
/// assert!(read("64KB").is_err());
/// # Ok::<(), plimsoll_spec::Problem>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Memory(pub String);

/// A default that is an amount.
pub(crate) const fn positive<const N: u64>() -> Positive {
    Positive(N)
}

/// A default that is a count.
pub(crate) const fn count<const N: u32>() -> Count {
    Count(N)
}

/// A default that is a number of microseconds.
pub(crate) const fn micros<const N: u64>() -> Span {
    Span(N * 1000)
}

/// A default that is a number of milliseconds, above 0.
pub(crate) const fn millis<const N: u64>() -> Period {
    Period(N * 1_000_000)
}

/// A default that is a number of milliseconds, 0 allowed.
pub(crate) const fn span<const N: u64>() -> Span {
    Span(N * 1_000_000)
}

impl From<Span> for Duration {
    fn from(span: Span) -> Self {
        Self::from_nanos(span.0)
    }
}

impl From<Period> for Duration {
    fn from(period: Period) -> Self {
        Self::from_nanos(period.0)
    }
}

impl Name {
    /// The description of a valid name, for messages.
    pub const WANTED: &str = "a name of at most 64 letters, digits, `_`, `-` and `.`";

    /// Returns whether `text` is a valid name.
    #[must_use]
    pub fn is_valid(text: &str) -> bool {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        (1..=64).contains(&text.len()) && text.chars().all(plain)
    }
}

impl Memory {
    /// Returns the percentage, from 0 to 100. `None` if the amount is in bytes.
    #[must_use]
    pub fn percent(&self) -> Option<u8> {
        let percent = digits(self.0.strip_suffix('%')?)?;
        u8::try_from(percent).ok().filter(|percent| *percent <= 100)
    }

    /// Returns the number of bytes. `None` if the amount is a percentage, or too large for 64 bits.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        const UNITS: [(&str, u64); 4] = [
            ("KiB", 1 << 10),
            ("MiB", 1 << 20),
            ("GiB", 1 << 30),
            ("B", 1),
        ];
        let size = |(unit, size): &(&str, u64)| Some((self.0.strip_suffix(unit)?, *size));
        let (number, size) = UNITS.iter().find_map(size)?;
        digits(number)?.checked_mul(size)
    }
}

fn digits(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

/// A duration in the largest unit that is exact.
fn with_unit(nanos: u64) -> String {
    const UNITS: [(u64, &str); 6] = [
        (86_400_000_000_000, "d"),
        (3_600_000_000_000, "h"),
        (60_000_000_000, "m"),
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1000, "us"),
    ];
    let whole = |(size, _): &&(u64, &str)| nanos.is_multiple_of(*size);
    if nanos == 0 {
        return "0s".to_owned();
    }
    let (size, unit) = UNITS.iter().find(whole).unwrap_or(&(1, "ns"));
    format!("{}{unit}", nanos / size)
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&with_unit(self.0))
    }
}

impl Serialize for Period {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&with_unit(self.0))
    }
}

impl Serialize for Percent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Declares the schema of each type: the checks of its reader, as far as a schema can express them.
macro_rules! described {
    ($($type:ty => $name:literal { $($schema:tt)+ })+) => {$(
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ $($schema)+ })
            }
        }
    )+};
}

described! {
    Positive => "Positive" {
        "description": "A whole number, at least 1.",
        "type": "integer", "minimum": 1, "maximum": u64::MAX
    }
    Count => "Count" {
        "description": "A whole number, at least 1.",
        "type": "integer", "minimum": 1, "maximum": u32::MAX
    }
    Number => "Number" {
        "description": "A number above 0.",
        "type": "number", "exclusiveMinimum": 0
    }
    Signed => "Signed" {
        "description": "A number.",
        "type": "number"
    }
    Span => "Duration" {
        "description": "A duration with its unit such as 250ms, 1s, 5m, 1h or 1d; also us and ns. 0 needs no unit.",
        "anyOf": [{ "type": "string", "pattern": "^[0-9]+(ns|us|ms|s|m|h|d)$" }, { "const": 0 }]
    }
    Period => "Period" {
        "description": "A duration above 0 with its unit such as 250ms, 1s, 5m, 1h or 1d; also us and ns.",
        "type": "string", "pattern": "^0*[1-9][0-9]*(ns|us|ms|s|m|h|d)$"
    }
    Name => "Name" {
        "description": "A name: letters, digits, `_`, `-` and `.`.",
        "type": "string", "pattern": "^[A-Za-z0-9_.-]{1,64}$"
    }
    Percent => "Percent" {
        "description": "Percent, such as 80%.",
        "type": "string", "pattern": "^([1-9][0-9]?|100)%$"
    }
    Memory => "Memory" {
        "description": "So much memory: a percentage such as 80%, or bytes such as 512MiB, 2GiB, 64KiB or 1000000B.",
        "type": "string", "pattern": "^([0-9]{1,2}%|100%|[0-9]+(B|KiB|MiB|GiB))$"
    }
}
