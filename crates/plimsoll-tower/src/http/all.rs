//! The answer of all limits of a request, and waiting for all of them at once.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use plimsoll::together::{Ask as AskLimiter, Waiting};
use plimsoll::{Acquire, Demand, Denied, Permit, Priority, Reason};

use super::limits::{Ask, Asked, Finding, How, Limits, Note};
use crate::Head;

/// The answer of all limits.
pub(super) enum Admission {
    Admitted,
    /// Refused by the limit with this index.
    Refused(usize, Denied),
    Wait(Pending),
}

/// The limit or key that a request waits for.
pub(super) enum Pending {
    /// One limit.
    One(usize, Acquire<'static>),
    /// The key of one limit.
    Key(usize, Finding),
    /// All limits.
    All(Box<WaitForAll>),
}

/// A request that waits for all of its limits. It waits in the queue of each limit that has refused it, with one age,
/// and holds nothing.
pub(super) struct WaitForAll {
    waiting: Waiting,
    /// The demand on each limit, if there is one.
    demands: Vec<Option<Demand>>,
}

impl WaitForAll {
    /// Takes from all limits, or begins to wait; one of them may refuse that, or have to look up its key first.
    #[cold]
    pub(super) fn start<L: Limits>(
        limits: &L,
        head: &Head<'_>,
        priority: Priority,
        held: &mut L::Held,
    ) -> Admission {
        for index in 0..L::COUNT {
            match limits.ask(index, head, How::Prepare, held) {
                Ask::Refused(denied) => return refused(limits, index, denied, held),
                Ask::FindKey(finding) => return Admission::Wait(Pending::Key(index, finding)),
                _ => {}
            }
        }
        let demands = (0..L::COUNT).map(|index| limits.at(index).demand(head, priority));
        let demands: Vec<_> = demands.collect();
        let waiting = with_asks(limits, held, &demands, |asks, positions| {
            Waiting::start(asks).map_err(|refused| (positions[refused.index], refused.denied))
        });
        match waiting {
            Ok(waiting) => {
                if waiting.is_queued() {
                    limits.note(&Note::Waits, held);
                }
                Admission::Wait(Pending::All(Box::new(Self { waiting, demands })))
            }
            Err((index, denied)) => refused(limits, index, denied, held),
        }
    }

    /// The time that it has waited.
    pub(super) fn waited<L: Limits>(&self, limits: &L, held: &L::Held) -> Duration {
        with_asks(limits, held, &self.demands, |asks, _| {
            self.waiting.waited(asks)
        })
    }

    /// Keeps the permits when all have granted.
    pub(super) fn poll<L: Limits>(
        &mut self,
        limits: &L,
        held: &mut L::Held,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), (usize, Denied)>> {
        let Self { waiting, demands } = self;
        let answer = with_asks(limits, held, demands, |asks, positions| {
            let permits = match ready!(waiting.poll(asks, cx)) {
                Ok(permits) => permits,
                Err(refused) => {
                    return Poll::Ready(Err((positions[refused.index], refused.denied)));
                }
            };
            let permits = positions.iter().copied().zip(permits);
            Poll::Ready(Ok(
                permits.collect::<Vec<(usize, Option<Permit<'static>>)>>()
            ))
        });
        match ready!(answer) {
            Ok(permits) => {
                for (index, permit) in permits {
                    if let Some(permit) = permit {
                        limits.granted(index, permit, held);
                    }
                }
                Poll::Ready(Ok(()))
            }
            Err(refused) => Poll::Ready(Err(refused)),
        }
    }

    /// Cancels the wait, and undoes the grants made while a store was asked.
    pub(super) fn cancel<L: Limits>(self, limits: &L, held: &L::Held) {
        let Self { waiting, demands } = self;
        with_asks(limits, held, &demands, |asks, _| waiting.cancel(asks));
    }
}

fn refused<L: Limits>(limits: &L, index: usize, denied: Denied, held: &mut L::Held) -> Admission {
    limits.note(&Note::Refused(&denied), held);
    Admission::Refused(index, denied)
}

/// The refusal of a request by one of several limits. If together they ask more of one limiter than its limit, waiting
/// does not help.
#[cold]
pub(super) fn refused_together<L: Limits>(
    limits: &L,
    head: &Head<'_>,
    priority: Priority,
    held: &mut L::Held,
    (index, denied): (usize, Denied),
) -> Admission {
    let demands = || (0..L::COUNT).map(|index| limits.at(index).demand(head, priority));
    // Costs are what callers say, and may add up to more than a number holds.
    let costs = demands().flatten().map(|demand| u128::from(demand.cost));
    if denied.reason() != Reason::Exhausted || costs.sum::<u128>() <= u128::from(denied.limit()) {
        return Admission::Refused(index, denied);
    }
    for other in 0..L::COUNT {
        let answer = limits.ask(other, head, How::Prepare, held);
        if matches!(answer, Ask::Refused(_) | Ask::FindKey(_)) {
            return Admission::Refused(index, denied);
        }
    }
    let demands: Vec<_> = demands().collect();
    let too_large = with_asks(limits, held, &demands, |asks, positions| {
        let refused = AskLimiter::too_large_together(asks)?;
        Some((positions[refused.index], refused.denied))
    });
    let (index, denied) = too_large.unwrap_or((index, denied));
    Admission::Refused(index, denied)
}

/// The demands on limiters and keys, each with the position of its limit.
fn with_asks<L: Limits, T>(
    limits: &L,
    held: &L::Held,
    demands: &[Option<Demand>],
    then: impl FnOnce(&[AskLimiter<'_>], &[usize]) -> T,
) -> T {
    let mut limiters = Vec::with_capacity(L::COUNT);
    limits.asked(held, &mut |asked| limiters.push(asked));
    let mut asks = Vec::with_capacity(L::COUNT);
    let mut positions = Vec::with_capacity(L::COUNT);
    for (position, (asked, demand)) in limiters.iter().zip(demands).enumerate() {
        let Some(demand) = *demand else {
            continue;
        };
        asks.push(match asked {
            Asked::Limiter(limiter) => AskLimiter::limiter(*limiter, demand),
            Asked::Key(key) => AskLimiter::key(&**key, demand),
            Asked::Nothing => continue,
        });
        positions.push(position);
    }
    then(&asks, &positions)
}
