//! Parses the replies of scripts.

use std::sync::Arc;
use std::time::Duration;

use plimsoll::{Denied, Moment, Reason, Standing};
use redis::Value;

use crate::StoreError;
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

/// The grants of a run: the values of the next one.
struct Grants {
    left: u64,
    more: Option<Duration>,
    /// The limit is full again after `owed` / `pace`.
    owed: u64,
    /// The amount that each further grant adds to `owed`.
    rise: u64,
    pace: u64,
    taken: Moment,
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
            Value::Int(3 | 4) => {
                let count = self.number()?;
                let run = if verdict == Value::Int(3) {
                    Run::Granted(self.grants(last)?)
                } else {
                    let _verdict = self.part();
                    Run::Refused(self.refused()?)
                };
                self.run = Some((count, run));
                let next = self.next_of_run(limit, cost);
                next.ok_or_else(|| StoreError::bad_reply(&verdict))
            }
            _ => Err(StoreError::bad_reply(&verdict)),
        }
    }

    fn next_of_run(&mut self, limit: u64, cost: u64) -> Option<Decided> {
        let (count, run) = self.run.as_mut()?;
        *count = count.checked_sub(1)?;
        Some(match run {
            Run::Granted(grants) => Decided::Granted(grants.next(limit, cost), grants.taken),
            Run::Refused(refused) => Decided::Refused(refused.clone()),
        })
    }

    fn grants(&mut self, last: Moment) -> Result<Grants, StoreError> {
        Ok(Grants {
            left: self.number()?,
            more: self.span()?,
            owed: self.number()?,
            rise: self.number()?,
            pace: self.number()?,
            taken: self.taken(last)?,
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

impl Grants {
    fn next(&mut self, limit: u64, cost: u64) -> Standing {
        let full = Duration::from_nanos(self.owed.div_ceil(self.pace.max(1)));
        let standing = Standing::new(limit, self.left).more_after(self.more);
        self.skip(1, cost);
        standing.reset(Some(full))
    }

    fn skip(&mut self, count: u64, cost: u64) {
        self.left = self.left.saturating_sub(count.saturating_mul(cost));
        self.owed = self.owed.saturating_add(count.saturating_mul(self.rise));
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
mod tests {
    use super::*;

    fn answer(parts: &[i64]) -> Answer {
        let parts = parts.iter().copied().map(Value::Int).collect();
        Answer::new(Value::Array(parts)).expect("a list")
    }

    #[test]
    fn a_run_of_grants_is_told_one_by_one() {
        // Three at a cost of 2, of which each takes 2 tokens of 1000 parts, and 300 parts come back in a nanosecond.
        let mut answer = answer(&[3, 3, 8, 4, 2000, 2000, 300, 0, 1, 1, 2, 3, 0]);
        let mut next = |cost| match answer.decided_of_list(10, cost, Moment::from_nanos(5)) {
            Ok(Decided::Granted(standing, taken)) => {
                assert_eq!(taken, Moment::from_nanos(5));
                let nanos = |span: Option<Duration>| span.map(|span| span.as_nanos());
                (
                    standing.remaining,
                    nanos(standing.more_after),
                    nanos(standing.reset),
                )
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(next(2), (Some(8), Some(4), Some(7)));
        assert_eq!(next(2), (Some(6), Some(4), Some(14)));
        assert_eq!(next(2), (Some(4), Some(4), Some(20)));
        assert_eq!(next(7), (Some(1), Some(2), Some(3)));
    }

    #[test]
    fn a_run_of_nothing_is_a_bad_reply() {
        let last = Moment::ORIGIN;
        assert!(
            answer(&[3, 0, 8, 4, 2000, 2000, 0, 0])
                .decided_of_list(10, 1, last)
                .is_err()
        );
        assert!(answer(&[3, -1, 8]).decided_of_list(10, 1, last).is_err());
        // No division by 0, whatever a server replies.
        assert!(
            answer(&[3, 1, 8, 4, 2000, 2000, 0, 0])
                .decided_of_list(10, 1, last)
                .is_ok()
        );
    }
}
