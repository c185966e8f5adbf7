//! What scripts answer, read.

use std::time::Duration;

use plimsoll::{Denied, Moment, Reason, Standing};
use redis::Value;

use crate::StoreError;
use crate::rule::{read_moment, read_number};

/// Reads the parts of an answer one after the other.
pub(crate) struct Answer {
    parts: std::vec::IntoIter<Value>,
}

/// What one limit answers.
#[derive(Clone, Debug)]
pub(crate) enum Decided {
    /// What is left, and when it was taken, by the clock of the store.
    Granted(Standing, Moment),
    Refused(Refused),
}

/// A refusal.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    reason: Reason,
    ready: Option<Duration>,
    left: u64,
    full: Option<Duration>,
}

impl Answer {
    pub(crate) fn new(value: Value) -> Result<Self, StoreError> {
        match value {
            Value::Array(parts) => Ok(Self {
                parts: parts.into_iter(),
            }),
            other => Err(StoreError::bad_reply(&other)),
        }
    }

    /// The answer to one of several decisions, or what is wrong with one of its keys.
    pub(crate) fn of_group(value: Value) -> Result<Self, StoreError> {
        match value {
            Value::Array(parts) if parts.first() == Some(&Value::Int(2)) => {
                let problem = parts.get(1).and_then(text);
                Err(StoreError::of_key(problem.unwrap_or_default()))
            }
            value => Self::new(value),
        }
    }

    /// The next number.
    pub(crate) fn number<N: TryFrom<i64>>(&mut self) -> Result<N, StoreError> {
        let part = self.part();
        let number = match part {
            Value::Int(number) => N::try_from(number).ok(),
            _ => None,
        };
        number.ok_or_else(|| StoreError::bad_reply(&part))
    }

    /// The next span; `None` if nobody knows, or it is longer than a moment can say.
    pub(crate) fn span(&mut self) -> Result<Option<Duration>, StoreError> {
        let part = self.part();
        let nanos = match &part {
            Value::Int(nanos) => u128::try_from(*nanos).ok(),
            other => match text(other) {
                Some("") => return Ok(None),
                Some(text) => read_number(text),
                None => None,
            },
        };
        let nanos = nanos.ok_or_else(|| StoreError::bad_reply(&part))?;
        Ok(u64::try_from(nanos).ok().map(Duration::from_nanos))
    }

    /// The next moment, by the clock of the store.
    pub(crate) fn moment(&mut self) -> Result<Moment, StoreError> {
        let part = self.part();
        let moment = text(&part).and_then(read_moment);
        moment.ok_or_else(|| StoreError::bad_reply(&part))
    }

    fn part(&mut self) -> Value {
        self.parts.next().unwrap_or(Value::Nil)
    }

    /// The next decision on one limit. A grant that was taken at the same moment as the one before, which was at `last`,
    /// need not repeat it.
    pub(crate) fn decided(&mut self, limit: u64, last: Moment) -> Result<Decided, StoreError> {
        let verdict = self.part();
        match verdict {
            Value::Int(0) => Ok(Decided::Refused(self.refused()?)),
            Value::Int(1) => {
                let standing = self.standing(limit)?;
                let part = self.part();
                let taken = match &part {
                    Value::Int(0) => Some(last),
                    part => text(part).and_then(read_moment),
                };
                let taken = taken.ok_or_else(|| StoreError::bad_reply(&part))?;
                Ok(Decided::Granted(standing, taken))
            }
            Value::Int(2) => {
                let part = self.part();
                Err(StoreError::of_key(text(&part).unwrap_or_default()))
            }
            _ => Err(StoreError::bad_reply(&verdict)),
        }
    }

    fn standing(&mut self, limit: u64) -> Result<Standing, StoreError> {
        let standing = Standing::new(limit, self.number()?);
        let more = self.span()?;
        Ok(standing.more_after(more).reset(self.span()?))
    }

    /// The span after which what was booked may be used, or the refusal.
    pub(crate) fn booked(mut self) -> Result<Result<Duration, Refused>, StoreError> {
        if self.number::<u8>()? == 1 {
            // Longer than anybody lives.
            return Ok(Ok(self.span()?.unwrap_or(Duration::MAX)));
        }
        self.refused().map(Err)
    }

    fn refused(&mut self) -> Result<Refused, StoreError> {
        Ok(Refused {
            reason: self.reason()?,
            ready: self.span()?,
            left: self.number()?,
            full: self.span()?,
        })
    }

    fn reason(&mut self) -> Result<Reason, StoreError> {
        let part = self.part();
        match text(&part) {
            Some("exhausted") => Ok(Reason::Exhausted),
            Some("too_soon") => Ok(Reason::TooSoon),
            Some("too_large") => Ok(Reason::TooLarge),
            _ => Err(StoreError::bad_reply(&part)),
        }
    }
}

fn text(part: &Value) -> Option<&str> {
    match part {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

impl Refused {
    /// As a limiter in memory says it.
    pub(crate) fn denied(&self, limit: u64, name: &str) -> Denied {
        // Only the spans matter: whose clock they count on is nobody's business.
        let after = |span: Option<Duration>| span.map(|span| Moment::ORIGIN.plus(span));
        Denied::new(self.reason)
            .with_limit(limit, self.left)
            .with_ready_at(Moment::ORIGIN, after(self.ready))
            .with_reset_at(Moment::ORIGIN, after(self.full))
            .with_limiter(name)
    }
}
