//! Names of limiters.
//!
//! Every refusal carries the name of its limiter, and most refusals are dropped unread. Owning the name
//! would cost an atomic count up and down for each; so each distinct name is
//! stored once, for the life of the process.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

/// A name, in the space of a pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Name(&'static &'static str);

static NAMES: LazyLock<Mutex<HashMap<&'static str, Name>>> = LazyLock::new(Mutex::default);

impl Name {
    /// The one copy of `name`.
    pub(crate) fn new(name: &str) -> Self {
        let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = names.get(name) {
            return *known;
        }
        let text: &'static str = Box::leak(name.into());
        let kept = Self(Box::leak(Box::new(text)));
        names.insert(text, kept);
        kept
    }

    pub(crate) const fn as_str(self) -> &'static str {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::Name;

    #[test]
    fn a_name_is_kept_once() {
        let first = Name::new("twice");
        assert!(std::ptr::eq(
            first.as_str(),
            Name::new(&String::from("twice")).as_str()
        ));
    }
}
