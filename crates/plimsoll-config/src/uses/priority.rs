//! The priority of a request.

use std::fmt;

use plimsoll::Priority;
use plimsoll_spec::scalar::nearest;

use super::key::field_name;
use super::text::{Spelled, spelled_as_text};

/// The priority of a request, which orders the queue of a limit. `Display` writes it as a file has it.
///
/// ```
/// use plimsoll::Priority;
/// use plimsoll_config::uses::PrioritySpec;
///
/// assert_eq!(PrioritySpec::Constant(Priority::Critical).to_string(), "critical");
/// assert_eq!(PrioritySpec::Header("x-priority".to_owned()).to_string(), "header:x-priority");
/// ```
///
/// A limit without a queue ignores it. The priority of a route takes precedence over those of its limits, and of several limits
/// the first one that has a priority counts:
///
/// ```
/// use plimsoll_config::uses::PrioritySpec;
/// use plimsoll_config::{Config, Format};
///
/// let text = "limits: { slots: { concurrency: 4, queue: { bound: 10 }, priority: header:x-priority } }";
/// let config = Config::from_str("limits.yaml", text, Format::Yaml)?;
/// let slots = config.use_of("slots").unwrap();
/// assert_eq!(slots.priority, Some(PrioritySpec::Header("x-priority".to_owned())));
/// # Ok::<(), plimsoll_config::ConfigError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum PrioritySpec {
    /// The same for all requests: `critical`, `normal` or `non-critical`.
    Constant(Priority),
    /// `header:NAME`: the value of a header field. Its name is in lower case.
    Header(String),
}

impl fmt::Display for PrioritySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(priority) => f.write_str(priority.as_str()),
            Self::Header(name) => write!(f, "header:{name}"),
        }
    }
}

impl Spelled for PrioritySpec {
    const HARMLESS: &'static str = "text:normal";
    const WANTED: &'static str = "a priority: critical, normal, non-critical or header:NAME";

    fn parse(text: &str) -> Result<Self, String> {
        if let Some(name) = text.strip_prefix("header:") {
            return field_name(name).map(Self::Header);
        }
        let found = Priority::ALL.iter().find(|it| it.as_str() == text);
        let known = Priority::ALL.map(Priority::as_str);
        let hint = || match nearest(text, known.iter().copied()) {
            hint if hint.contains("did you mean") => hint,
            _ => String::new(),
        };
        found.copied().map(Self::Constant).ok_or_else(hint)
    }
}

spelled_as_text! {
    PrioritySpec => {
        "description": "How much a request matters: critical, normal, non-critical, or what a header field says (header:NAME).",
        "type": "string",
        "anyOf": [{ "enum": ["critical", "normal", "non-critical"] }, { "pattern": "^header:.+$" }]
    }
}
