//! Values of a JSON document.

use http::HeaderMap;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use plimsoll::InvalidLimit;
use serde_json::Value;

/// The pointers to numbers and arrays. The numbers and the lengths of the arrays are added up.
#[derive(Clone, Debug)]
pub(super) struct Measure {
    pointers: Vec<(Box<str>, Of)>,
    /// The maximum number of bytes of a document.
    pub(super) bound: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Of {
    Number,
    Length,
}

impl Measure {
    pub(super) fn try_new(pointer: &str, of: Of) -> Result<Self, InvalidLimit> {
        let empty = Self {
            pointers: Vec::new(),
            bound: 64 << 10,
        };
        empty.and(pointer, of)
    }

    /// Adds another pointer.
    pub(super) fn and(mut self, pointer: &str, of: Of) -> Result<Self, InvalidLimit> {
        if !(pointer.is_empty() || pointer.starts_with('/')) {
            let expected = "a JSON pointer, such as /max_tokens";
            return Err(InvalidLimit::new("pointer", pointer, expected));
        }
        self.pointers.push((pointer.into(), of));
        Ok(self)
    }

    /// The sum of the values of a document. `None` if it is not JSON, or has none of them.
    pub(super) fn read(&self, document: &[u8]) -> Option<u64> {
        let document: Value = serde_json::from_slice(document).ok()?;
        let found = self.pointers.iter().filter_map(|(pointer, of)| {
            let value = document.pointer(pointer)?;
            match of {
                Of::Length => value.as_array().map(|list| list.len() as u64),
                Of::Number => whole(value),
            }
        });
        found.reduce(u64::saturating_add)
    }

    /// Whether a body is read: it is JSON, and its stated length is at most the bound.
    pub(super) fn fits(&self, headers: &HeaderMap) -> bool {
        let length = headers
            .get(CONTENT_LENGTH)
            .and_then(|length| length.to_str().ok());
        let length = length.map_or(Some(0), |length| length.trim().parse::<usize>().ok());
        is_json(headers) && length.is_some_and(|length| length <= self.bound)
    }
}

/// A number that is not negative, rounded up.
fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| {
        let number = value.as_f64().filter(|number| *number >= 0.0)?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is not negative, and what is too large is the largest"
        )]
        Some(number.ceil() as u64)
    })
}

/// Whether the content type is `application/json`, or ends with `+json`.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(Ok(kind)) = headers.get(CONTENT_TYPE).map(|kind| kind.to_str()) else {
        return false;
    };
    let essence = kind.split(';').next().unwrap_or_default().trim();
    let essence = essence.as_bytes();
    let ends = |suffix: &str| {
        let start = essence.len().saturating_sub(suffix.len());
        essence[start..].eq_ignore_ascii_case(suffix.as_bytes())
    };
    ends("/json") || ends("+json")
}
