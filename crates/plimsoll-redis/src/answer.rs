//! Parses the replies of scripts.

use std::sync::Arc;
use std::time::Duration;

use plimsoll::{Denied, Moment, Reason, Standing};
use redis::Value;

use crate::StoreError;
use crate::grants::Grants;
use crate::rule::{read_moment, read_number};

/// The reply of a script, read part by part.
pub(crate) struct Answer {
    parts: Arc<Vec<Value>>,
    /// The index of the next part.
    next: usize,
    /// The index of the decision in a run of decisions about several limits, and their number.
    nth: u64,
    of: u64,
    /// The number of decisions left in the current run, and the run.
    run: Option<(u64, Run)>,
}

/// Decisions of consecutive demands with one cost, encoded together: see `lua/quick/answer.lua`.
enum Run {
    Granted(Grants),
    Refused(Refused),
}

/// The decision of one limit.
#[derive(Clone, Debug)]
pub(crate) enum Decided {
    /// The standing after the grant, and the time of the grant on the clock of the store.
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
                parts: Arc::new(parts),
                next: 0,
                nth: 0,
                of: 1,
                run: None,
            }),
            other => Err(StoreError::bad_reply(&other)),
        }
    }

    /// The replies for `count` decisions about the same limits that a script answers together, or the error of one of their keys.
    pub(crate) fn of_groups(
        value: Value,
        count: u64,
    ) -> impl Iterator<Item = Result<Self, StoreError>> {
        let answer = match value {
            Value::Array(parts) if parts.first() == Some(&Value::Int(2)) => {
                let problem = parts.get(1).and_then(text);
                Err(StoreError::of_key(problem.unwrap_or_default()))
            }
            value => Self::new(value),
        };
        (0..count).map(move |nth| {
            let answer = answer.as_ref().map_err(Clone::clone)?;
            // All refused decisions have the same answer, so only one is encoded.
            let admitted = answer.parts.first() == Some(&Value::Int(1));
            let (nth, of) = if admitted { (nth, count) } else { (0, 1) };
            Ok(Self {
                parts: Arc::clone(&answer.parts),
                next: 0,
                nth,
                of,
                run: None,
            })
        })
    }

    /// The next number.
    pub(crate) fn number<N: TryFrom<i64>>(&mut self) -> Result<N, StoreError> {
        let part = self.part();
        let number = match part {
            Value::Int(number) => N::try_from(*number).ok(),
            _ => None,
        };
        number.ok_or_else(|| StoreError::bad_reply(part))
    }

    /// The next span; `None` if it is unknown or longer than a `Moment` can express.
    pub(crate) fn span(&mut self) -> Result<Option<Duration>, StoreError> {
        let part = self.part();
        let nanos = match part {
            Value::Int(nanos) => u128::try_from(*nanos).ok(),
            other => match text(other) {
                Some("") => return Ok(None),
                Some(text) => read_number(text),
                None => None,
            },
        };
        let nanos = nanos.ok_or_else(|| StoreError::bad_reply(part))?;
        Ok(u64::try_from(nanos).ok().map(Duration::from_nanos))
    }

    /// The next moment, by the clock of the store.
    pub(crate) fn moment(&mut self) -> Result<Moment, StoreError> {
        let part = self.part();
        let moment = text(part).and_then(read_moment);
        moment.ok_or_else(|| StoreError::bad_reply(part))
    }

    fn part(&mut self) -> &Value {
        let part = self.parts.get(self.next);
        self.next += 1;
        part.unwrap_or(&Value::Nil)
    }

    /// The next decision on one limit.
    pub(crate) fn decided(&mut self, limit: u64) -> Result<Decided, StoreError> {
        self.decided_of_list(limit, 0, Moment::ORIGIN)
    }

    /// The next decision on one of several limits, for a demand of `cost`.
    pub(crate) fn decided_of_group(
        &mut self,
        limit: u64,
        cost: u64,
    ) -> Result<Decided, StoreError> {
        let (mut read, mut last, mut found) = (0, Moment::ORIGIN, None);
        while read < self.of {
            let decided = self.decided_of_list(limit, cost, last)?;
            if let Decided::Granted(_, taken) = &decided {
                last = *taken;
            }
            if read == self.nth {
                found = Some(decided);
            }
            read += 1;
            let until = if found.is_some() { self.of } else { self.nth };
            read += self.skip(until - read, cost);
        }
        found.ok_or_else(|| StoreError::bad_reply(&Value::Nil))
    }

    /// Skips at most `most` decisions of the current run. Returns their number.
    fn skip(&mut self, most: u64, cost: u64) -> u64 {
        let Some((count, run)) = &mut self.run else {
            return 0;
        };
        let skipped = most.min(*count);
        *count -= skipped;
        if let Run::Granted(grants) = run {
            grants.skip(skipped, cost);
        }
        skipped
    }

    /// The next decision of a list, for a demand of `cost`. The reply omits the time of a grant if it equals `last`, the time of the grant
    /// before.
    pub(crate) fn decided_of_list(
        &mut self,
        limit: u64,
        cost: u64,
        last: Moment,
    ) -> Result<Decided, StoreError> {
        if let Some(decided) = self.next_of_run(limit, cost) {
            return Ok(decided);
        }
        let verdict = self.part().clone();
        match verdict {
            Value::Int(0) => Ok(Decided::Refused(self.refused()?)),
            Value::Int(1) => {
                let standing = self.standing(limit)?;
                Ok(Decided::Granted(standing, self.taken(last)?))
            }
            Value::Int(2) => {
                let part = self.part();
                Err(StoreError::of_key(text(part).unwrap_or_default()))
            }
            Value::Int(4) => {
                let count = self.number()?;
                let _verdict = self.part();
                let run = Run::Refused(self.refused()?);
                self.in_run(count, run, limit, cost)
            }
            Value::Int(kind @ (3 | 5 | 6)) => {
                let count = self.number()?;
                let run = Run::Granted(self.grants(kind, last)?);
                self.in_run(count, run, limit, cost)
            }
            _ => Err(StoreError::bad_reply(&verdict)),
        }
    }

    /// The first decision of a run.
    fn in_run(
        &mut self,
        count: u64,
        run: Run,
        limit: u64,
        cost: u64,
    ) -> Result<Decided, StoreError> {
        self.run = Some((count, run));
        let next = self.next_of_run(limit, cost);
        next.ok_or_else(|| StoreError::bad_reply(&Value::Nil))
    }

    fn next_of_run(&mut self, limit: u64, cost: u64) -> Option<Decided> {
        let (count, run) = self.run.as_mut()?;
        *count = count.checked_sub(1)?;
        Some(match run {
            Run::Granted(grants) => {
                let (standing, taken) = grants.next(limit, cost);
                Decided::Granted(standing, taken)
            }
            Run::Refused(refused) => Decided::Refused(refused.clone()),
        })
    }

    /// The grants of a run, after 3, 5 or 6 and their number: see `lua/quick/answer.lua`.
    fn grants(&mut self, kind: i64, last: Moment) -> Result<Grants, StoreError> {
        let (left, more, owed) = (self.number()?, self.span()?, self.number()?);
        let (rise, pace, used, window) = if kind == 5 {
            (0, 1, self.number()?, self.number()?)
        } else {
            (self.number()?, self.number()?, 0, 0)
        };
        let step = Duration::from_micros(u64::from(kind == 6));
        Ok(Grants {
            left,
            more,
            window,
            used,
            owed,
            rise,
            pace,
            taken: self.taken(last)?,
            step,
        })
    }

    fn taken(&mut self, last: Moment) -> Result<Moment, StoreError> {
        let part = self.part();
        let taken = match part {
            Value::Int(0) => Some(last),
            part => text(part).and_then(read_moment),
        };
        taken.ok_or_else(|| StoreError::bad_reply(part))
    }

    fn standing(&mut self, limit: u64) -> Result<Standing, StoreError> {
        let standing = Standing::new(limit, self.number()?);
        let more = self.span()?;
        Ok(standing.more_after(more).reset(self.span()?))
    }

    /// The span after which a reservation may be used, or the refusal.
    pub(crate) fn booked(mut self) -> Result<Result<Duration, Refused>, StoreError> {
        if self.number::<u8>()? == 1 {
            // Longer than any process runs.
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
        match text(part) {
            Some("exhausted") => Ok(Reason::Exhausted),
            Some("too_soon") => Ok(Reason::TooSoon),
            Some("too_large") => Ok(Reason::TooLarge),
            _ => Err(StoreError::bad_reply(part)),
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
    /// Converts to the refusal that a limiter in memory returns.
    pub(crate) fn denied(&self, limit: u64, name: &str) -> Denied {
        // Only the spans matter, so any origin will do.
        let after = |span: Option<Duration>| span.map(|span| Moment::ORIGIN.plus(span));
        Denied::new(self.reason)
            .with_limit(limit, self.left)
            .with_ready_at(Moment::ORIGIN, after(self.ready))
            .with_reset_at(Moment::ORIGIN, after(self.full))
            .with_limiter(name)
    }
}

#[cfg(test)]
mod tests;
