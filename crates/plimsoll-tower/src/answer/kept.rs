//! Values of fields that are kept for as long as the process runs.
//!
//! A value in memory of its own counts its copies, which takes two atomic operations for each response that has it. A value that is
//! kept for ever does not.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use http::HeaderValue;

/// So many values, and so many bytes of each, are kept at most. Policies are few, but a limit may change again and again.
const MOST: usize = 1024;
const LONGEST: usize = 256;

static KEPT: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// The same value, kept if there is room.
pub(super) fn kept(value: HeaderValue) -> HeaderValue {
    let Some(text) = value.to_str().ok().filter(|text| text.len() <= LONGEST) else {
        return value;
    };
    let mut all = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = all.get(text) {
        return HeaderValue::from_static(known);
    }
    if all.len() >= MOST {
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
    fn a_value_stays_the_same_whether_it_is_kept_or_not() {
        let long = "x".repeat(LONGEST + 1);
        let many = (0..MOST + 10).map(|number| format!(r#""api";q={number}"#));
        for text in many.chain([long]) {
            let value = HeaderValue::from_str(&text);
            let value = value.unwrap_or_else(|_| HeaderValue::from_static("none"));
            assert_eq!([kept(value.clone()), kept(value)], [&*text; 2]);
        }
        let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(kept.len(), MOST);
    }
}
