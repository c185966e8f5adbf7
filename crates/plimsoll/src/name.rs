//! Names of limiters.
//!
//! Every refusal carries the name of its limiter, and most refusals are dropped unread. Owning the name
//! would cost an atomic count up and down for each; so names are kept for good, each once. There are as
//! many as somebody has written down.

use std::collections::HashSet;
use std::sync::{LazyLock, Mutex, PoisonError};

static NAMES: LazyLock<Mutex<HashSet<&'static str>>> = LazyLock::new(Mutex::default);

/// The one copy of `name`.
pub(crate) fn intern(name: &str) -> &'static str {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name) {
        return known;
    }
    let kept: &'static str = Box::leak(name.into());
    names.insert(kept);
    kept
}

#[cfg(test)]
mod tests {
    use super::intern;

    #[test]
    fn a_name_is_kept_once() {
        let first = intern("twice");
        assert!(std::ptr::eq(first, intern(&String::from("twice"))));
    }
}
