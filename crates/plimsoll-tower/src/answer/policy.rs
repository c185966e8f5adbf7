//! Fast path for the fields of one limit that is described in all responses.

use std::mem::swap;
use std::slice;
use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::fields::{
    Fields, RATE_LIMIT, RATE_LIMIT_POLICY, X_LIMIT, X_REMAINING, X_RESET, integer, left,
    rate_limit, rate_limit_policy, retry_after, write_x,
};
use super::interned::interned;
use super::limit_status::{LimitStatus, Unit};
use super::structured::{Line, Out, written};

/// The parts of the fields that are the same in all responses of a limit.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    fields: Fields,
    name: String,
    promise: (u64, Option<Duration>, bool),
    unit: Unit,
    policy: Option<HeaderValue>,
    /// The beginning of the value of `RateLimit`.
    begins: Bytes,
    limit: HeaderValue,
    /// For responses without fields, and for those that have a content type alone.
    alone: Table,
    with_content_type: Table,
    /// For refusals, which have a content type and `Retry-After`.
    of_refusal: Table,
}

/// The fields in a table of their own. A table hashes each name that is inserted, byte by byte, which takes longer than
/// everything else; copying a table does not. The fields have the order in which they would be inserted.
#[derive(Clone, Debug)]
struct Table {
    headers: HeaderMap,
    /// The kind of each value, in the order of the table.
    values: Vec<Value>,
}

#[derive(Clone, Copy, Debug)]
enum Value {
    /// The same in all responses.
    Same,
    ContentType,
    RateLimit,
    Remaining,
    Reset,
    RetryAfter,
}

impl Fields {
    /// Adds the fields of one limit, whose policy may have been written before.
    pub(crate) fn write_one(
        self,
        headers: &mut HeaderMap,
        status: &LimitStatus<'_>,
        known: &OnceLock<Policy>,
    ) {
        let known = known.get_or_init(|| Policy::of(self, status));
        if !known.is_of(self, status) {
            // The limit of its limiter has changed since.
            self.write(headers, slice::from_ref(status));
        } else if known.copy(headers, status).is_none() {
            known.write(headers, status);
        }
    }

    /// Writes the fields of a refusal that has none yet: its content type, those of its limit, and `Retry-After`.
    pub(crate) fn write_refusal(
        self,
        headers: &mut HeaderMap,
        mut content_type: HeaderValue,
        status: Option<&LimitStatus<'_>>,
        seconds: Option<u64>,
        known: &OnceLock<Policy>,
    ) {
        if let (Some(status), Some(seconds)) = (status, seconds) {
            let known = known.get_or_init(|| Policy::of(self, status));
            if known.is_of(self, status) {
                let own = Some(&mut content_type);
                if let Some(filled) = known.filled(&known.of_refusal, status, own, seconds) {
                    *headers = filled;
                    return;
                }
            }
        }
        headers.insert(CONTENT_TYPE, content_type);
        if let Some(status) = status {
            self.write_one(headers, status, known);
        }
        if let Some(seconds) = seconds {
            retry_after(headers, seconds);
        }
    }
}

impl Policy {
    fn of(fields: Fields, status: &LimitStatus<'_>) -> Self {
        let policy = rate_limit_policy(slice::from_ref(status)).map(interned);
        let limit = interned(integer(status.standing.limit));
        let mut names: Vec<(HeaderName, _, _)> = Vec::new();
        if fields.standard {
            let policy = policy.clone();
            names.extend(policy.map(|policy| (RATE_LIMIT_POLICY.clone(), Value::Same, policy)));
            names.push((RATE_LIMIT.clone(), Value::RateLimit, EMPTY));
        }
        if fields.x {
            names.push((X_REMAINING.clone(), Value::Remaining, EMPTY));
            names.push((X_LIMIT.clone(), Value::Same, limit.clone()));
            names.push((X_RESET.clone(), Value::Reset, EMPTY));
        }
        let alone = Table::of(&names);
        names.insert(0, (CONTENT_TYPE, Value::ContentType, EMPTY));
        let with_content_type = Table::of(&names);
        names.push((RETRY_AFTER, Value::RetryAfter, EMPTY));
        Self {
            fields,
            name: status.name.to_owned(),
            promise: status.promise(),
            unit: status.unit,
            policy,
            begins: written(|out| out.string(status.name)),
            limit,
            alone,
            with_content_type,
            of_refusal: Table::of(&names),
        }
    }

    fn is_of(&self, fields: Fields, status: &LimitStatus<'_>) -> bool {
        self.promise == status.promise()
            && self.unit == status.unit
            && self.fields == fields
            && status.partition.is_none()
            && self.name == status.name
    }

    /// Adds the fields to those of a response.
    fn write(&self, headers: &mut HeaderMap, status: &LimitStatus<'_>) {
        if self.fields.standard {
            if let Some(policy) = &self.policy {
                headers.append(&RATE_LIMIT_POLICY, policy.clone());
            }
            if let Some(limits) = self.rate_limit(status) {
                headers.append(&RATE_LIMIT, limits);
            }
        }
        if self.fields.x {
            write_x(headers, status, || self.limit.clone());
        }
    }

    /// Adds the fields as a copy of their table. `None` if that is not possible; nothing is then changed.
    fn copy(&self, headers: &mut HeaderMap, status: &LimitStatus<'_>) -> Option<()> {
        let mut own = headers.iter_mut();
        let (table, content_type) = match (own.next(), own.next()) {
            (None, _) => (&self.alone, None),
            (Some((name, value)), None) if name == CONTENT_TYPE => {
                (&self.with_content_type, Some(value))
            }
            _ => return None,
        };
        *headers = self.filled(table, status, content_type, 0)?;
        Some(())
    }

    /// A copy of one of its tables with the values of this status, which takes the content type. `None` if one of the
    /// values cannot be written; the content type then stays in the response.
    ///
    /// Each value is written in place: copying it afterwards would take as long as writing it.
    #[inline]
    fn filled(
        &self,
        table: &Table,
        status: &LimitStatus<'_>,
        mut content_type: Option<&mut HeaderValue>,
        retry_after: u64,
    ) -> Option<HeaderMap> {
        let (mut line, mut reset) = (Line::default(), 0);
        if self.fields.standard {
            self.write_rate_limit(&mut line, status);
        }
        let rate_limit = line.text()?;
        if self.fields.x {
            reset = status.reset()?;
        }
        let mut copy = table.headers.clone();
        for (place, value) in copy.values_mut().zip(&table.values) {
            match value {
                Value::Same => {}
                Value::ContentType => {
                    if let Some(own) = content_type.take() {
                        swap(place, own);
                    }
                }
                Value::RateLimit => {
                    // Printable text is always a valid value.
                    if let Ok(value) = HeaderValue::from_bytes(rate_limit) {
                        *place = value;
                    }
                }
                Value::Remaining => *place = integer(status.remaining()),
                Value::Reset => *place = integer(reset),
                Value::RetryAfter => *place = integer(retry_after),
            }
        }
        Some(copy)
    }

    /// The value of `RateLimit` of this limit alone.
    fn rate_limit(&self, status: &LimitStatus<'_>) -> Option<HeaderValue> {
        let mut line = Line::default();
        self.write_rate_limit(&mut line, status);
        match line.text() {
            Some(text) => HeaderValue::from_bytes(text).ok(),
            None => rate_limit(slice::from_ref(status)),
        }
    }

    fn write_rate_limit(&self, line: &mut Line, status: &LimitStatus<'_>) {
        line.put(&self.begins);
        left(line, status);
    }
}

/// The capacity of the table: our fields, and those that most responses have.
const ROOM: usize = 12;

/// A placeholder for a value.
const EMPTY: HeaderValue = HeaderValue::from_static("");

impl Table {
    fn of(names: &[(HeaderName, Value, HeaderValue)]) -> Self {
        let mut headers = HeaderMap::with_capacity(ROOM);
        for (name, _, value) in names {
            headers.insert(name.clone(), value.clone());
        }
        let value = |name: &HeaderName| {
            let of_name = names.iter().find(|(other, ..)| other == name);
            of_name.map_or(Value::Same, |(_, value, _)| *value)
        };
        let values = headers.keys().map(value).collect();
        Self { headers, values }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll::Standing;

    use super::*;

    #[test]
    fn a_refusal_has_the_fields_that_would_be_inserted_one_by_one() {
        let second = Duration::from_secs(1);
        for fields in [Fields::NONE, Fields::STANDARD, Fields::X, Fields::ALL] {
            let known = OnceLock::new();
            // The first is remembered; the limit of the third has changed; the fourth has no reset time.
            for (limit, reset) in [
                (10, Some(second)),
                (10, Some(2 * second)),
                (11, Some(second)),
                (10, None),
            ] {
                let standing = Standing::new(limit, 0).more_after(second).reset(reset);
                let status = LimitStatus::new("api", standing);
                for (described, seconds) in [(true, Some(7)), (true, None), (false, Some(7))] {
                    let status = described.then_some(&status);
                    let content_type = HeaderValue::from_static("text/plain");
                    let mut one_by_one = HeaderMap::new();
                    one_by_one.insert(CONTENT_TYPE, content_type.clone());
                    if let Some(status) = status {
                        fields.write(&mut one_by_one, slice::from_ref(status));
                    }
                    if let Some(seconds) = seconds {
                        retry_after(&mut one_by_one, seconds);
                    }
                    let mut headers = HeaderMap::new();
                    fields.write_refusal(&mut headers, content_type, status, seconds, &known);
                    assert!(
                        headers.iter().eq(one_by_one.iter()),
                        "{headers:?} {one_by_one:?}"
                    );
                }
            }
        }
    }
}
