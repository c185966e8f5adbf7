//! The header fields of a log that limits need.

use std::sync::Arc;

/// The largest number of cached names.
const NAMES: usize = 256;

/// The header fields that a limit may use. All others are skipped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// The configurations in lower case; `None` if everything is wanted.
    by: Option<Arc<str>>,
    /// Names of header fields as the log writes them, and whether they are wanted.
    names: Vec<(String, bool)>,
}

impl Wanted {
    /// The header fields that these configurations, in lower case, may use.
    pub(crate) const fn by(configs: Arc<str>) -> Self {
        Self {
            by: Some(configs),
            names: Vec::new(),
        }
    }

    /// Whether a limit may use a header field with this name.
    pub(crate) fn header(&mut self, name: &str) -> bool {
        let Some(by) = &self.by else {
            return true;
        };
        if let Some((_, wanted)) = self.names.iter().find(|(known, _)| known == name) {
            return *wanted;
        }
        if self.names.len() >= NAMES {
            self.names.clear();
        }
        let lower = name.to_ascii_lowercase();
        let wanted =
            ["x-forwarded-for", "forwarded"].contains(&&*lower) || by.contains(lower.as_str());
        self.names.push((name.to_owned(), wanted));
        wanted
    }
}
