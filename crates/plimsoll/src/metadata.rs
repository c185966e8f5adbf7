use std::time::Duration;

use crate::invalid::InvalidLimit;

/// What a limiter says about itself with its refusals and its grants: a phrase, a code, and pairs of one's own.
///
/// It is set on a limiter ([`GateBuilder::metadata`](crate::GateBuilder::metadata),
/// [`KeyedBuilder::metadata`](crate::KeyedBuilder::metadata)) and read from [`Denied`](crate::Denied) and
/// [`Permit`](crate::Permit). The layers for HTTP write it into the bodies of refusals, and those for gRPC into their
/// details: it is for callers to read, so it must not contain secrets.
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
/// For that, each distinct name with its metadata is stored once, for the life of the process. Describe limiters, not
/// callers. It is small: at most [`MOST_PAIRS`](Self::MOST_PAIRS) pairs, of at most
/// [`LONGEST_NAME`](Self::LONGEST_NAME) and [`LONGEST_TEXT`](Self::LONGEST_TEXT) bytes.
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
    /// A text.
    Text(&'a str),
    /// A whole number.
    Number(i64),
    /// Yes or no.
    Flag(bool),
    /// A span of time.
    Time(Duration),
}

/// A value that owns its text.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Kept {
    Text(Box<str>),
    Number(i64),
    Flag(bool),
    Time(Duration),
}

impl Metadata {
    /// The name by which [`Denied::get`](crate::Denied::get) returns the time after which to ask again.
    pub const RETRY_AFTER: &'static str = "RETRY_AFTER";
    /// The name of the phrase, that of the limiter or else that of the reason.
    pub const REASON_PHRASE: &'static str = "REASON_PHRASE";
    /// The name of the code.
    pub const CODE: &'static str = "code";
    /// The most pairs.
    pub const MOST_PAIRS: usize = 16;
    /// The longest name of a pair, in bytes.
    pub const LONGEST_NAME: usize = 64;
    /// The longest text, in bytes.
    pub const LONGEST_TEXT: usize = 256;

    /// Names that problems of HTTP (RFC 9457) and the refusals of this workspace use themselves.
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

    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the phrase that refusals carry in the place of that of their [reason](crate::Reason::phrase).
    ///
    /// # Panics
    ///
    /// If it is empty or too long. [`try_phrase`](Self::try_phrase) returns an error instead.
    #[must_use]
    #[track_caller]
    pub fn phrase(self, phrase: &str) -> Self {
        or_panic(self.try_phrase(phrase))
    }

    /// [`phrase`](Self::phrase) with a text that the program has not chosen itself.
    ///
    /// # Errors
    ///
    /// If it is empty or longer than [`LONGEST_TEXT`](Self::LONGEST_TEXT).
    pub fn try_phrase(mut self, phrase: &str) -> Result<Self, InvalidLimit> {
        check("phrase", phrase, TEXT)?;
        self.phrase = Some(phrase.into());
        Ok(self)
    }

    /// Sets the code of refusals, a text or a number.
    ///
    /// # Panics
    ///
    /// If it is empty or too long. [`try_code`](Self::try_code) returns an error instead.
    #[must_use]
    #[track_caller]
    pub fn code<'v>(self, code: impl Into<MetadataValue<'v>>) -> Self {
        or_panic(self.try_code(code))
    }

    /// [`code`](Self::code) with a value that the program has not chosen itself.
    ///
    /// # Errors
    ///
    /// If it is empty or longer than [`LONGEST_TEXT`](Self::LONGEST_TEXT).
    pub fn try_code<'v>(
        mut self,
        code: impl Into<MetadataValue<'v>>,
    ) -> Result<Self, InvalidLimit> {
        self.code = Some(kept("code", code.into())?);
        Ok(self)
    }

    /// Adds a pair, or changes the value of one that is there.
    ///
    /// # Panics
    ///
    /// If it is one too many, or the name or the value is not a valid one. [`try_pair`](Self::try_pair) returns an error
    /// instead.
    #[must_use]
    #[track_caller]
    pub fn pair<'v>(self, name: &str, value: impl Into<MetadataValue<'v>>) -> Self {
        or_panic(self.try_pair(name, value))
    }

    /// [`pair`](Self::pair) with a name or a value that the program has not chosen itself.
    ///
    /// # Errors
    ///
    /// If there are [`MOST_PAIRS`](Self::MOST_PAIRS) already; if the name is not made of lower-case letters, digits, `_`
    /// and `-` after a letter, is too long, or is one that problems of HTTP use themselves, such as `status`; if the
    /// value is an empty text, or too long.
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
            None if self.pairs.len() < Self::MOST_PAIRS => self.pairs.push((name.into(), value)),
            None => return Err(InvalidLimit::new("metadata", name, "at most 16 pairs")),
        }
        Ok(self)
    }

    pub(crate) fn own_phrase(&self) -> Option<&str> {
        self.phrase.as_deref()
    }

    /// The value of this name: of a pair, [`CODE`](Self::CODE), or [`REASON_PHRASE`](Self::REASON_PHRASE).
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

    /// The pairs, in the order in which they were added.
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

/// The most bytes of a text or of a name, and how that is said.
const TEXT: (usize, &str) = (Metadata::LONGEST_TEXT, "1 to 256 bytes");
const NAME: (usize, &str) = (Metadata::LONGEST_NAME, "1 to 64 bytes");

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

/// Texts as they are, and times as `Duration` prints them.
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
