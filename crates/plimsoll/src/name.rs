//! Names of limiters, with their metadata.
//!
//! Every refusal carries the name of its limiter, and most refusals are dropped unread. Owning the name would cost an
//! atomic count up and down for each; so each distinct name is stored once, for the life of the process. The metadata
//! of a limiter is stored with its name, and costs refusals nothing more.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::metadata::Metadata;

/// A name and metadata, in the space of a pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Name(&'static Known);

#[derive(PartialEq, Eq, Debug)]
struct Known {
    text: Option<Box<str>>,
    metadata: Option<Metadata>,
}

/// Names by their text, and for each text by its metadata.
static NAMES: LazyLock<Mutex<Names>> = LazyLock::new(Mutex::default);

type Names = HashMap<Option<&'static str>, Vec<Name>>;

impl Name {
    /// The interned `name`, without metadata.
    pub(crate) fn new(name: &str) -> Self {
        Self::with(Some(name), None)
    }

    /// The interned `name` with this metadata. `None` if there is neither.
    pub(crate) fn of(name: Option<&str>, metadata: Option<&Metadata>) -> Option<Self> {
        (name.is_some() || metadata.is_some()).then(|| Self::with(name, metadata))
    }

    /// The interned pair.
    pub(crate) fn with(text: Option<&str>, metadata: Option<&Metadata>) -> Self {
        let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        let known = names.get(&text).into_iter().flatten();
        if let Some(known) = { known }.find(|known| known.0.metadata.as_ref() == metadata) {
            return *known;
        }
        let known: &'static Known = Box::leak(Box::new(Known {
            text: text.map(Into::into),
            metadata: metadata.cloned(),
        }));
        names
            .entry(known.text.as_deref())
            .or_default()
            .push(Self(known));
        Self(known)
    }

    /// The text; `None` if there is only metadata.
    pub(crate) fn as_str(self) -> Option<&'static str> {
        self.0.text.as_deref()
    }

    pub(crate) fn metadata(self) -> Option<&'static Metadata> {
        self.0.metadata.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::Name;
    use crate::Metadata;

    #[test]
    fn a_name_is_kept_once() {
        let again = |name: Name| std::ptr::eq(name.0, Name::new(&String::from("twice")).0);
        assert!(again(Name::new("twice")));

        let about = Metadata::new().code(7);
        let named = || Name::of(Some("twice"), Some(&about)).unwrap();
        assert!(std::ptr::eq(named().0, named().0) && !again(named()));
        assert_eq!(named().metadata(), Some(&about));
        assert_eq!(Name::of(None, Some(&about)).unwrap().as_str(), None);
        assert!(Name::of(None, None).is_none());
    }
}
