//! Which requests a route is for.

use std::fmt;

use crate::uses::{AnswerSpec, PrioritySpec};

/// A route of a file, with everything that hangs there by name.
///
/// A request takes the first route of the file whose conditions it meets, all of them.
///
/// ```
/// use plimsoll_config::{Config, Format};
///
/// let text = "
/// limits: { slow: 5/s, slots: { concurrency: 10 } }
/// middleware: { common: [slots] }
/// routes:
///   - { match: /login, methods: [POST], hosts: ['*.example.com'], limits: [slow, common] }
/// ";
/// let config = Config::from_str("limits.yaml", text, Format::Yaml)?;
/// let [login] = config.route_specs() else { unreachable!() };
/// assert!(login.patterns[0].matches("/login"));
/// assert_eq!(login.methods, ["POST"]);
/// assert!(login.hosts[0].matches("shop.example.com"));
/// assert_eq!(login.limits, ["slow", "slots"]);
/// # Ok::<(), plimsoll_config::ConfigError>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct RouteSpec {
    /// Its name, for metrics and for the key `route`. Without one it is known by its first pattern.
    pub name: Option<String>,
    /// The paths it is for: any of these.
    pub patterns: Vec<Pattern>,
    /// The methods it is for; all of them if there are none here.
    pub methods: Vec<String>,
    /// The hosts it is for; all of them if there are none here.
    pub hosts: Vec<HostPattern>,
    /// What header fields must be, by their names in lower case.
    pub headers: Vec<(String, HeaderMatch)>,
    /// Limits and providers, by name, in the order in which they are asked, each once.
    pub limits: Vec<String>,
    /// The pool of the gateway that serves these requests; the first one if there is none here.
    pub to: Option<String>,
    /// The limiter of the bytes of bodies.
    pub bytes: Option<String>,
    /// Whether a permit can be held here until the work is done.
    pub holds: bool,
    /// How much a request matters here.
    pub priority: Option<PrioritySpec>,
    /// What is answered to a request that is refused here, unless the limit that refuses says so itself.
    pub answer: Option<AnswerSpec>,
}

impl RouteSpec {
    /// Its name, or else its first pattern.
    #[must_use]
    pub fn label(&self) -> &str {
        let pattern = || self.patterns.first().map_or("", Pattern::as_str);
        self.name.as_deref().unwrap_or_else(pattern)
    }

    /// Whether a path is all that it asks of a request.
    #[must_use]
    pub const fn is_by_path(&self) -> bool {
        self.methods.is_empty() && self.hosts.is_empty() && self.headers.is_empty()
    }
}

/// A host, or all below one: `example.com`, `*.example.com`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct HostPattern(String);

impl HostPattern {
    /// Reads a pattern; the error says what was expected.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        const WANTED: &str = "a host such as example.com or *.example.com, without a port";
        let host = text.strip_prefix("*.").unwrap_or(text);
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        let address = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        let address = address.is_some_and(|it| it.parse::<std::net::Ipv6Addr>().is_ok());
        if host.is_empty() || host.len() > 253 || !(address || host.chars().all(plain)) {
            return Err(WANTED);
        }
        Ok(Self(text.to_ascii_lowercase()))
    }

    /// Whether it is for this host. A port at its end does not count, nor does case. `*.` stands for one or more labels.
    #[must_use]
    pub fn matches(&self, host: &str) -> bool {
        let port = |(_, port): &(&str, &str)| port.bytes().all(|byte| byte.is_ascii_digit());
        let host = match host.rsplit_once(':').filter(port) {
            Some((host, _)) if !host.contains(':') || host.ends_with(']') => host,
            _ => host,
        };
        match self.0.strip_prefix('*') {
            None => host.eq_ignore_ascii_case(&self.0),
            Some(end) => {
                let start = host.len().checked_sub(end.len());
                let start = start.filter(|start| *start > 0 && host.is_char_boundary(*start));
                start.is_some_and(|start| host[start..].eq_ignore_ascii_case(end))
            }
        }
    }

    /// Whether every host that `other` is for is one for this too.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        match (self.0.strip_prefix('*'), other.0.strip_prefix('*')) {
            (Some(end), Some(other)) => other.ends_with(end),
            _ => self == other || self.matches(&other.0),
        }
    }
}

/// As it stands in the file, in lower case.
impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a header field must be.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum HeaderMatch {
    /// `present`: there, whatever it says.
    Present,
    /// Exactly this text.
    Is(String),
}

impl HeaderMatch {
    pub(crate) fn parse(text: &str) -> Self {
        match text {
            "present" => Self::Present,
            text => Self::Is(text.to_owned()),
        }
    }

    /// Whether a field with these values is what it must be.
    #[must_use]
    pub fn matches<'a>(&self, mut values: impl Iterator<Item = &'a [u8]>) -> bool {
        match self {
            Self::Present => values.next().is_some(),
            Self::Is(text) => values.any(|value| value == text.as_bytes()),
        }
    }
}

/// A pattern of paths.
///
/// A path is divided at its slashes, and segments are compared as they are: capitals count, nothing is decoded, and the
/// empty segment after a slash at the end is one. `*` stands for one segment that is not empty, `**` at the end for any
/// number of segments, none at all included.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Pattern {
    text: String,
    segments: Vec<Segment>,
    open: bool,
}

/// A segment of a pattern.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Segment {
    /// This text.
    Is(String),
    /// `*`: any text that is not empty.
    Any,
}

impl Pattern {
    /// Reads a pattern; the error says what was expected.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let path = text
            .strip_prefix('/')
            .ok_or("a path that begins with `/`")?;
        let mut segments: Vec<&str> = path.split('/').collect();
        let open = segments.last() == Some(&"**");
        if open {
            segments.pop();
        }
        let segments = segments.into_iter().map(|segment| match segment {
            "*" => Ok(Segment::Any),
            "**" => Err("`**` only at the end"),
            _ if segment.contains('*') => Err("`*` only as a whole segment"),
            _ if segment.contains(['?', '#']) => Err("a path without `?` and `#`"),
            _ => Ok(Segment::Is(segment.to_owned())),
        });
        Ok(Self {
            text: text.to_owned(),
            segments: segments.collect::<Result<_, _>>()?,
            open,
        })
    }

    /// As it stands in the file.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Its segments, without `**` at the end.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Whether it ends with `**`: any number of segments may follow.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.open
    }

    /// Whether it is for this path.
    #[must_use]
    pub fn matches(&self, path: &str) -> bool {
        let Some(path) = path.strip_prefix('/') else {
            return false;
        };
        let mut path = path.split('/');
        for segment in &self.segments {
            let same = match (segment, path.next()) {
                (Segment::Is(wanted), Some(segment)) => wanted == segment,
                (Segment::Any, Some(segment)) => !segment.is_empty(),
                (_, None) => false,
            };
            if !same {
                return false;
            }
        }
        self.open || path.next().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, matches: &[&str], others: &[&str]) {
        let pattern = Pattern::parse(pattern).expect("a pattern");
        for path in matches {
            assert!(pattern.matches(path), "{pattern:?} {path}");
        }
        for path in others {
            assert!(!pattern.matches(path), "{pattern:?} {path}");
        }
    }

    #[test]
    fn paths_are_compared_by_segments() {
        check("/", &["/"], &["", "/a", "a"]);
        check("/a/b", &["/a/b"], &["/a", "/a/b/", "/a/b/c", "/A/b", "a/b"]);
        check("/a/*/c", &["/a/b/c"], &["/a//c", "/a/c", "/a/b/b/c"]);
        check("/a/", &["/a/"], &["/a"]);
    }

    #[test]
    fn two_stars_are_any_number_of_segments() {
        check(
            "/a/**",
            &["/a", "/a/", "/a/b", "/a/b/c"],
            &["/", "/ab", "/b/a"],
        );
        check("/**", &["/", "/a", "/a/b"], &["", "a"]);
        check("/*/b/**", &["/a/b", "/x/b/c"], &["/a", "/a/c", "//b"]);
    }

    #[test]
    fn hosts() {
        let check = |pattern: &str, matches: &[&str], others: &[&str]| {
            let pattern = HostPattern::parse(pattern).expect("a pattern");
            assert!(
                matches.iter().all(|host| pattern.matches(host)),
                "{pattern}"
            );
            assert!(
                !others.iter().any(|host| pattern.matches(host)),
                "{pattern}"
            );
        };
        check(
            "Example.com",
            &["example.com", "EXAMPLE.com:80"],
            &["a.example.com", "example.org", ""],
        );
        check(
            "*.example.com",
            &["a.example.com", "a.b.EXAMPLE.com:443"],
            &["example.com", ".example.com:x", "aexample.com"],
        );
        check("[::1]", &["[::1]", "[::1]:80"], &["::1", "[::2]"]);
        for bad in ["", "*.", "*", "a:80", "http://a", "a b", "[x]"] {
            assert!(HostPattern::parse(bad).is_err(), "{bad}");
        }
        let covers = |one: &str, other: &str| {
            let parse = |text| HostPattern::parse(text).expect("a host");
            parse(one).covers(&parse(other))
        };
        assert!(covers("*.a.b", "x.a.b") && covers("*.b", "*.a.b") && covers("a", "a"));
        assert!(!covers("*.a.b", "*.b") && !covers("a.b", "*.a.b") && !covers("*.a.b", "a.b"));
    }

    #[test]
    fn a_star_is_a_whole_segment() {
        for bad in ["", "a", "/a*", "/**/b", "/a?b", "/***"] {
            assert!(Pattern::parse(bad).is_err(), "{bad}");
        }
    }
}
