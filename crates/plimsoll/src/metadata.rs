use std::time::Duration;

use crate::invalid::InvalidLimit;

/// Data attached to a limiter's permits and refusals: a phrase, a code, and custom pairs.
///
/// It is set on a limiter ([`GateBuilder::metadata`](crate::GateBuilder::metadata),
/// [`KeyedBuilder::metadata`](crate::KeyedBuilder::metadata)) and read from [`Denied`](crate::Denied) and
/// [`Permit`](crate::Permit). The HTTP layers write it into the bodies of refusals, and the gRPC layers into their
/// details. Clients can read it, so it must not contain secrets.
///
/// ```
/// use plimsoll::{Gate, Metadata, TokenBucket};
///
/// let about = Metadata::new().phrase("Too many booking requests").code("BOOK-429").pair("plan", "free");
/// let gate = Gate::builder(TokenBucket::per_second(1)).metadata(about).build();
/// assert_eq!(gate.try_acquire(1)?.metadata().and_then(|about| about.get("plan")), Some("free".into()));
///
/// let denied = gate.try_acquire(1).unwrap_err();
/// assert_eq!(denied.phrase(), "Too many booking requests");
/// assert_eq!(denied.get(Metadata::CODE), Some("BOOK-429".into()));
/// assert_eq!(denied.get(Metadata::REASON_PHRASE), Some("Too many booking requests".into()));
/// assert_eq!(denied.get(Metadata::RETRY_AFTER), denied.retry_after().map(Into::into));
/// # Ok::<(), plimsoll::Denied>(())
/// ```
///
/// # Cost
///
/// A refusal carries one pointer for its limiter's name and metadata together, so metadata adds nothing to a decision.
/// For that, each distinct name with its metadata is interned for the life of the process. Describe limiters, never
/// callers. The size is bounded: at most [`MAX_PAIRS`](Self::MAX_PAIRS) pairs, of at most [`MAX_NAME`](Self::MAX_NAME)
/// and [`MAX_TEXT`](Self::MAX_TEXT) bytes.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub struct Metadata {
    phrase: Option<Box<str>>,
    code: Option<Kept>,
    pairs: Vec<(Box<str>, Kept)>,
}

/// A value of [`Metadata`].
///
/// ```
/// use plimsoll::MetadataValue;
///
/// assert_eq!(MetadataValue::from("red"), MetadataValue::Text("red"));
/// assert_eq!(MetadataValue::from(7), MetadataValue::Number(7));
/// assert_eq!(MetadataValue::Number(7).to_string(), "7");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(untagged))]
#[non_exhaustive]
pub enum MetadataValue<'a> {
    /// A string.
    Text(&'a str),
    /// An integer.
    Number(i64),
    /// A boolean.
    Flag(bool),
    /// A duration.
    Time(Duration),
}

/// A value that owns its string.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Kept {
    Text(Box<str>),
    Number(i64),
    Flag(bool),
    Time(Duration),
}

impl Metadata {
    /// The name by which [`Denied::get`](crate::Denied::get) returns the time after which to retry.
    pub const RETRY_AFTER: &'static str = "RETRY_AFTER";
    /// The name of the phrase: that of the limiter or else that of the reason.
    pub const REASON_PHRASE: &'static str = "REASON_PHRASE";
    /// The name of the code.
    pub const CODE: &'static str = "code";
    /// The maximum number of pairs.
    pub const MAX_PAIRS: usize = 16;
    /// The maximum length of a pair's name, in bytes.
    pub const MAX_NAME: usize = 64;
    /// The maximum length of a string, in bytes.
    pub const MAX_TEXT: usize = 256;

    /// Names that HTTP problem details (RFC 9457) and the refusals of this workspace use.
    const TAKEN: [&'static str; 8] = [
        "type",
        "title",
        "status",
        "detail",
        "instance",
        "violated-policies",
        "retry-after",
        Self::CODE,
    ];

    /// Creates empty metadata.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the phrase of refusals, in place of that of their [reason](crate::Reason::phrase).
    ///
    /// # Panics
    ///
    /// Panics if it is empty or too long. [`try_phrase`](Self::try_phrase) returns an error instead.
    #[must_use]
    #[track_caller]
    pub fn phrase(self, phrase: &str) -> Self {
        or_panic(self.try_phrase(phrase))
    }

    /// Like [`phrase`](Self::phrase), but returns an error instead of panicking. For a phrase from outside the program.
    ///
    /// # Errors
    ///
    /// Returns an error if it is empty or longer than [`MAX_TEXT`](Self::MAX_TEXT).
    pub fn try_phrase(mut self, phrase: &str) -> Result<Self, InvalidLimit> {
        check("phrase", phrase, TEXT)?;
        self.phrase = Some(phrase.into());
        Ok(self)
    }

    /// Sets the code of refusals, a string or a number.
    ///
    /// # Panics
    ///
    /// Panics if it is empty or too long. [`try_code`](Self::try_code) returns an error instead.
    #[must_use]
    #[track_caller]
    pub fn code<'v>(self, code: impl Into<MetadataValue<'v>>) -> Self {
        or_panic(self.try_code(code))
    }

    /// Like [`code`](Self::code), but returns an error instead of panicking. For a value from outside the program.
    ///
    /// # Errors
    ///
    /// Returns an error if it is empty or longer than [`MAX_TEXT`](Self::MAX_TEXT).
    pub fn try_code<'v>(
        mut self,
        code: impl Into<MetadataValue<'v>>,
    ) -> Result<Self, InvalidLimit> {
        self.code = Some(kept("code", code.into())?);
        Ok(self)
    }

    /// Adds a pair, or replaces the value of the pair with this name.
    ///
    /// # Panics
    ///
    /// Panics if there are too many pairs, or the name or the value is invalid. [`try_pair`](Self::try_pair) returns an
    /// error instead.
    #[must_use]
    #[track_caller]
    pub fn pair<'v>(self, name: &str, value: impl Into<MetadataValue<'v>>) -> Self {
        or_panic(self.try_pair(name, value))
    }

    /// Like [`pair`](Self::pair), but returns an error instead of panicking. For a name or a value from outside the
    /// program.
    ///
    /// # Errors
    ///
    /// Returns an error if there are [`MAX_PAIRS`](Self::MAX_PAIRS) already; if the name is not made of lower-case
    /// letters, digits, `_` and `-` after a letter, is too long, or is reserved for HTTP problem details, such as
    /// `status`; if the value is an empty string, or too long.
    pub fn try_pair<'v>(
        mut self,
        name: &str,
        value: impl Into<MetadataValue<'v>>,
    ) -> Result<Self, InvalidLimit> {
        check("metadata", name, NAME)?;
        let is_word = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
        if !name.starts_with(|first: char| first.is_ascii_lowercase()) || !name.bytes().all(is_word)
        {
            let expected = "a name of a-z, 0-9, _ and -, beginning with a letter";
            return Err(InvalidLimit::new("metadata", name, expected));
        }
        if Self::TAKEN.contains(&name) {
            let expected = "a name that refusals do not use themselves";
            return Err(InvalidLimit::new("metadata", name, expected));
        }
        let value = kept("metadata", value.into())?;
        let known = self.pairs.iter().position(|(known, _)| **known == *name);
        match known {
            Some(known) => self.pairs[known].1 = value,
            None if self.pairs.len() < Self::MAX_PAIRS => self.pairs.push((name.into(), value)),
            None => return Err(InvalidLimit::new("metadata", name, "at most 16 pairs")),
        }
        Ok(self)
    }

    pub(crate) fn own_phrase(&self) -> Option<&str> {
        self.phrase.as_deref()
    }

    /// Returns the value with this name: of a pair, [`CODE`](Self::CODE), or [`REASON_PHRASE`](Self::REASON_PHRASE).
    #[must_use]
    pub fn get(&self, name: &str) -> Option<MetadataValue<'_>> {
        match name {
            Self::CODE => self.code.as_ref().map(Kept::value),
            Self::REASON_PHRASE => self.own_phrase().map(MetadataValue::Text),
            _ => self
                .pairs()
                .find_map(|(known, value)| (known == name).then_some(value)),
        }
    }

    /// Returns the pairs, in the order in which they were added.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, MetadataValue<'_>)> {
        self.pairs
            .iter()
            .map(|(name, value)| (&**name, value.value()))
    }
}

impl Kept {
    fn value(&self) -> MetadataValue<'_> {
        match self {
            Self::Text(text) => MetadataValue::Text(text),
            Self::Number(number) => MetadataValue::Number(*number),
            Self::Flag(flag) => MetadataValue::Flag(*flag),
            Self::Time(span) => MetadataValue::Time(*span),
        }
    }
}

fn kept(field: &'static str, value: MetadataValue<'_>) -> Result<Kept, InvalidLimit> {
    Ok(match value {
        MetadataValue::Text(text) => {
            check(field, text, TEXT)?;
            Kept::Text(text.into())
        }
        MetadataValue::Number(number) => Kept::Number(number),
        MetadataValue::Flag(flag) => Kept::Flag(flag),
        MetadataValue::Time(span) => Kept::Time(span),
    })
}

/// The maximum length of a text or of a name, and its error message.
const TEXT: (usize, &str) = (Metadata::MAX_TEXT, "1 to 256 bytes");
const NAME: (usize, &str) = (Metadata::MAX_NAME, "1 to 64 bytes");

fn check(
    field: &'static str,
    text: &str,
    (longest, expected): (usize, &'static str),
) -> Result<(), InvalidLimit> {
    if text.is_empty() || text.len() > longest {
        let length = format!("{} bytes long", text.len());
        return Err(InvalidLimit::new(field, length, expected));
    }
    Ok(())
}

#[track_caller]
fn or_panic(made: Result<Metadata, InvalidLimit>) -> Metadata {
    match made {
        Ok(made) => made,
        Err(invalid) => panic!("{invalid}"),
    }
}

/// Prints strings as they are, and durations as `Duration` does.
impl std::fmt::Display for MetadataValue<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Number(number) => write!(f, "{number}"),
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Time(span) => write!(f, "{span:?}"),
        }
    }
}

impl<'a> From<&'a str> for MetadataValue<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a String> for MetadataValue<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for MetadataValue<'_> {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<i32> for MetadataValue<'_> {
    fn from(number: i32) -> Self {
        Self::Number(number.into())
    }
}

impl From<u32> for MetadataValue<'_> {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<bool> for MetadataValue<'_> {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<Duration> for MetadataValue<'_> {
    fn from(span: Duration) -> Self {
        Self::Time(span)
    }
}

/// The phrase, the code and the pairs as one map.
#[cfg(feature = "serde")]
impl serde::Serialize for Metadata {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let phrase = self.own_phrase().map(|text| ("phrase", text.into()));
        let code = self.get(Self::CODE).map(|code| (Self::CODE, code));
        serializer.collect_map(phrase.into_iter().chain(code).chain(self.pairs()))
    }
}
