//! Which paths a route is for.

/// A pattern of paths.
///
/// A path is divided at its slashes, and segments are compared as they are: capitals count, nothing is decoded, and the
/// empty segment after a slash at the end is one. `*` stands for one segment that is not empty, `**` at the end for any
/// number of segments, none at all included.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Pattern {
    segments: Vec<Segment>,
    open: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Segment {
    Is(String),
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
            segments: segments.collect::<Result<_, _>>()?,
            open,
        })
    }

    pub(crate) fn matches(&self, path: &str) -> bool {
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
    fn a_star_is_a_whole_segment() {
        for bad in ["", "a", "/a*", "/**/b", "/a?b", "/***"] {
            assert!(Pattern::parse(bad).is_err(), "{bad}");
        }
    }
}
