//! Interned header values: they live as long as the process.
//!
//! Cloning a value with memory of its own counts references, which takes two atomic operations per response. Cloning a
//! static value does not.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use http::HeaderValue;

/// The number of interned values, and their length in bytes, are bounded, because they are never freed: policies are few, but a limit
/// may change again and again.
const MAX_VALUES: usize = 1024;
const MAX_LENGTH: usize = 256;

static INTERNED: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// The same value, interned if there is room.
pub(super) fn interned(value: HeaderValue) -> HeaderValue {
    let Some(text) = value.to_str().ok().filter(|text| text.len() <= MAX_LENGTH) else {
        return value;
    };
    let mut all = INTERNED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = all.get(text) {
        return HeaderValue::from_static(known);
    }
    if all.len() >= MAX_VALUES {
        return value;
    }
    let text: &'static str = Box::leak(text.into());
    all.insert(text);
    HeaderValue::from_static(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_stays_the_same_whether_it_is_interned_or_not() {
        let long = "x".repeat(MAX_LENGTH + 1);
        let many = (0..MAX_VALUES + 10).map(|number| format!(r#""api";q={number}"#));
        for text in many.chain([long]) {
            let value = HeaderValue::from_str(&text);
            let value = value.unwrap_or_else(|_| HeaderValue::from_static("none"));
            assert_eq!([interned(value.clone()), interned(value)], [&*text; 2]);
        }
        let all = INTERNED.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(all.len(), MAX_VALUES);
    }
}
