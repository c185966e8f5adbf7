//! Routes: the conditions that a request has to meet.

use std::fmt;

use crate::uses::{AnswerSpec, PrioritySpec};

/// A route of a file, with the names of its limits.
///
/// A request takes the first route of the file that it matches in all conditions.
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
    /// Its name, for metrics and for the key `route`. `None`: see [`label`](Self::label).
    pub name: Option<String>,
    /// The patterns of paths. One of them has to match.
    pub patterns: Vec<Pattern>,
    /// The methods. Empty: all methods.
    pub methods: Vec<String>,
    /// The hosts. Empty: all hosts.
    pub hosts: Vec<HostPattern>,
    /// The conditions on header fields, by their names in lower case.
    pub headers: Vec<(String, HeaderMatch)>,
    /// The names of its limits and providers, each once, in the order in which they are asked.
    pub limits: Vec<String>,
    /// The upstream pool of the gateway. `None`: the first pool.
    pub to: Option<String>,
    /// The name of the limiter of body bytes.
    pub bytes: Option<String>,
    /// Whether permits can be held until the work is done.
    pub holds: bool,
    /// The priority of its requests.
    pub priority: Option<PrioritySpec>,
    /// The response to requests that are refused here, unless the limit has one of its own.
    pub answer: Option<AnswerSpec>,
}

impl RouteSpec {
    /// Returns the name of the route, or its first pattern if it has no name.
    #[must_use]
    pub fn label(&self) -> &str {
        let pattern = || self.patterns.first().map_or("", Pattern::as_str);
        self.name.as_deref().unwrap_or_else(pattern)
    }

    /// Returns whether the path is its only condition.
    #[must_use]
    pub const fn is_by_path(&self) -> bool {
        self.methods.is_empty() && self.hosts.is_empty() && self.headers.is_empty()
    }
}

/// A pattern of hosts: one host (`example.com`), or all its subdomains (`*.example.com`).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct HostPattern(String);

impl HostPattern {
    /// Parses a pattern. The error describes what was expected.
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

    /// Returns whether it matches a host. Case and a port are ignored. `*.` matches one or more labels.
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

    /// Whether it matches every host that `other` matches.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        match (self.0.strip_prefix('*'), other.0.strip_prefix('*')) {
            (Some(end), Some(other)) => other.ends_with(end),
            _ => self == other || self.matches(&other.0),
        }
    }
}

/// As in the file, in lower case.
impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A condition on a header field.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum HeaderMatch {
    /// `present`: the request has the field, with any value.
    Present,
    /// The value is exactly this text.
    Is(String),
}

impl HeaderMatch {
    pub(crate) fn parse(text: &str) -> Self {
        match text {
            "present" => Self::Present,
            text => Self::Is(text.to_owned()),
        }
    }

    /// Returns whether a field with these values meets the condition.
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
/// A path is split at its slashes, and segments are compared as they are: case counts, nothing is decoded, and a trailing slash
/// adds an empty segment. `*` matches one segment that is not empty, `**` at the end any number of segments, including none.
///
/// ```
/// use plimsoll_config::{Config, Format};
///
/// let text = "limits: { a: 1/s }\nroutes: [{ match: /v1/*/items/**, limits: [a] }]";
/// let config = Config::from_str("limits.yaml", text, Format::Yaml)?;
/// let pattern = &config.route_specs()[0].patterns[0];
/// assert!(pattern.matches("/v1/shop/items") && pattern.matches("/v1/shop/items/7/price"));
/// assert!(!pattern.matches("/v1//items") && !pattern.matches("/V1/shop/items"));
/// # Ok::<(), plimsoll_config::ConfigError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Pattern {
    text: String,
    segments: Vec<Segment>,
    open: bool,
}

/// A segment of a pattern.
///
/// The enum is exhaustive: a router that ignored a kind of segment would match the wrong paths. A new kind is a
/// breaking change.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Segment {
    /// This text.
    Is(String),
    /// `*`: any text that is not empty.
    Any,
}

impl Pattern {
    /// Parses a pattern. The error describes what was expected.
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

    /// Returns the pattern as in the file.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the segments of the pattern, without `**` at the end.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Returns whether it ends with `**`: any number of segments may follow.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.open
    }

    /// Returns whether it matches a path.
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
