//! Fast path for the fields of one limit that is described in all responses.

use std::mem::replace;
use std::slice;
use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::fields::{
    Fields, RATE_LIMIT, RATE_LIMIT_POLICY, X_LIMIT, X_REMAINING, X_RESET, integer, left,
    rate_limit, rate_limit_policy, write_x,
};
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
}

/// The fields in a table of their own. A table hashes each name that is inserted, byte by byte, which takes longer than all the
/// rest; a copy of it does not. The order of the fields is that in which they would be inserted.
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
}

impl Policy {
    fn of(fields: Fields, status: &LimitStatus<'_>) -> Self {
        let policy = rate_limit_policy(slice::from_ref(status));
        let limit = integer(status.standing.limit);
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
        Self {
            fields,
            name: status.name.to_owned(),
            promise: status.promise(),
            unit: status.unit,
            policy,
            begins: written(|out| out.string(status.name)),
            limit,
            alone,
            with_content_type: Table::of(&names),
        }
    }

    fn is_of(&self, fields: Fields, status: &LimitStatus<'_>) -> bool {
        self.promise == status.promise()
            && self.unit == status.unit
            && self.fields == fields
            && status.partition.is_none()
            && self.name == status.name
    }

    /// Adds the fields to whatever a response has.
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

    /// Adds the fields as a copy of their table. `None` if that cannot be: then nothing is changed.
    fn copy(&self, headers: &mut HeaderMap, status: &LimitStatus<'_>) -> Option<()> {
        let mut own = headers.iter_mut();
        let (table, mut content_type) = match (own.next(), own.next()) {
            (None, _) => (&self.alone, None),
            (Some((name, value)), None) if name == CONTENT_TYPE => {
                (&self.with_content_type, Some(value))
            }
            _ => return None,
        };
        let mut rate_limit = match self.fields.standard {
            true => Some(self.rate_limit(status)?),
            false => None,
        };
        let mut reset = match self.fields.x {
            true => Some(status.reset()?),
            false => None,
        };
        let mut copy = table.headers.clone();
        for (place, value) in copy.values_mut().zip(&table.values) {
            let value = match value {
                Value::Same => continue,
                Value::ContentType => content_type.take().map(|own| replace(own, EMPTY)),
                Value::RateLimit => rate_limit.take(),
                Value::Remaining => Some(integer(status.remaining())),
                Value::Reset => reset.take().map(integer),
            };
            if let Some(value) = value {
                *place = value;
            }
        }
        *headers = copy;
        Some(())
    }

    /// The value of `RateLimit` of this limit alone.
    fn rate_limit(&self, status: &LimitStatus<'_>) -> Option<HeaderValue> {
        let mut line = Line::default();
        line.put(&self.begins);
        left(&mut line, status);
        match line.text() {
            Some(text) => HeaderValue::from_bytes(text).ok(),
            None => rate_limit(slice::from_ref(status)),
        }
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
