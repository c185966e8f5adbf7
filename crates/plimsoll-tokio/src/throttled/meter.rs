//! What one direction of a connection has been given, and waits for.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use plimsoll::{Demand, Moment, Permit, Reason};
use tokio::task::coop::has_budget_remaining;

use super::Budget;
use crate::patient::Patient;

/// How long a credit is good for. Whoever comes back later than this asks anew, so that nobody saves anything up.
const FRESH: Duration = Duration::from_secs(1);

/// Whoever comes back so soon after it has moved something has more to move.
const SOON: Duration = Duration::from_millis(10);

/// One direction of a connection: all the budgets it draws on.
#[derive(Debug, Default)]
pub(super) struct Meters(Vec<Meter>);

impl Meters {
    pub(super) fn add(&mut self, budget: Budget) {
        self.0.push(Meter {
            budget,
            credit: None,
            waiting: None,
            moved_at: None,
        });
    }

    /// Waits until something may be moved, and says how many of `wanted` bytes.
    pub(super) fn poll_allowed(
        &mut self,
        cx: &mut Context<'_>,
        wanted: usize,
    ) -> Poll<io::Result<usize>> {
        if self.0.is_empty() {
            return Poll::Ready(Ok(wanted));
        }
        // A task that has run for long is told by its connection that there is nothing to move. That is not so, and no
        // reason to give anything back.
        if !has_budget_remaining() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if !self.waits() {
            self.0.iter_mut().for_each(Meter::give_back_if_stale);
        }
        let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
        let mut share = u32::MAX;
        for index in 0..self.0.len() {
            // Of what comes later no more is taken than can be used with what came before. So what comes first gives whole
            // quanta, or there would never be a whole one of the others.
            let last = index + 1 == self.0.len();
            let least = if last { wanted } else { u32::MAX };
            match self.0[index].poll_credit(cx, wanted, least, share) {
                Poll::Ready(Ok(credit)) => share = share.min(credit),
                Poll::Ready(Err(error)) => {
                    self.give_back();
                    return Poll::Ready(Err(error));
                }
                Poll::Pending => {
                    // Others could use it meanwhile.
                    self.0[index + 1..].iter_mut().for_each(Meter::give_back);
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(usize::try_from(wanted.min(share)).unwrap_or(usize::MAX)))
    }

    /// So many bytes were moved. If none could be, nobody knows when the next can, and everything goes back.
    pub(super) fn moved(&mut self, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        for meter in &mut self.0 {
            if bytes == 0 {
                meter.give_back();
            } else {
                meter.spend(bytes);
            }
        }
    }

    /// Gives back what is not used, unless something waits to be moved with it.
    pub(super) fn pause(&mut self) {
        if !self.waits() {
            self.give_back();
        }
    }

    fn waits(&self) -> bool {
        self.0.iter().any(|meter| meter.waiting.is_some())
    }

    /// Gives back what is not used, and waits for nothing any more.
    pub(super) fn give_back(&mut self) {
        for meter in &mut self.0 {
            meter.waiting = None;
            meter.give_back();
        }
    }
}

/// What one direction has of one budget.
struct Meter {
    budget: Budget,
    credit: Option<Credit>,
    waiting: Option<Patient>,
    /// When something was last moved.
    moved_at: Option<Moment>,
}

struct Credit {
    permit: Permit<'static>,
    /// Whether nothing of it was used yet.
    whole: bool,
}

impl Meter {
    /// Waits until there is a credit of at most `most`: for `least` if there is enough for everybody, otherwise for a
    /// quantum; and for what is `wanted`, if there is reason to think that more would not be used.
    fn poll_credit(
        &mut self,
        cx: &mut Context<'_>,
        wanted: u32,
        least: u32,
        most: u32,
    ) -> Poll<io::Result<u32>> {
        loop {
            if let Some(credit) = &self.credit {
                return Poll::Ready(Ok(credit.permit.cost()));
            }
            let rate = self.budget.limiter();
            let share = self.budget.share();
            let Some(waiting) = &mut self.waiting else {
                let most = share.min(most);
                let (least, most) = if self.has_more() {
                    (least.min(most), most)
                } else {
                    (wanted.min(most), wanted.min(most))
                };
                match rate.attempt(Demand::of(least)) {
                    Ok(permit) => self.credit = Some(Credit::new(permit.into_owned())),
                    Err(_) => self.waiting = Some(Patient::new(rate.clone(), Demand::of(most))),
                }
                continue;
            };
            let asked = waiting.cost();
            let answer = ready!(Pin::new(waiting).poll(cx));
            self.waiting = None;
            match answer {
                Ok(permit) => self.credit = Some(Credit::new(permit)),
                // The burst has shrunk.
                Err(denied)
                    if denied.reason() == Reason::TooLarge
                        && (1..asked).contains(&denied.limit()) =>
                {
                    self.budget.set_quantum(share.min(denied.limit()));
                }
                Err(denied) => return Poll::Ready(Err(io::Error::other(denied))),
            }
        }
    }

    /// Whether there is probably more to move than what is asked for now. Of a new connection that is assumed.
    fn has_more(&self) -> bool {
        self.moved_at
            .is_none_or(|moved_at| self.now().since(moved_at) <= SOON)
    }

    fn now(&self) -> Moment {
        self.budget.limiter().clock().now()
    }

    fn spend(&mut self, bytes: u32) {
        self.moved_at = Some(self.now());
        if let Some(credit) = &mut self.credit {
            credit.whole = false;
            let used = credit.permit.cost().min(bytes);
            // A rate gives nothing back for what is dropped.
            drop(credit.permit.split(used));
            if credit.permit.cost() == 0 {
                self.credit = None;
            }
        }
    }

    fn give_back(&mut self) {
        if let Some(mut credit) = self.credit.take() {
            if credit.whole {
                credit.permit.undo();
            } else if let Some(rest) = credit.permit.split(credit.permit.cost()) {
                rest.undo();
            }
        }
    }

    fn give_back_if_stale(&mut self) {
        if let Some(credit) = &self.credit
            && self.now().since(credit.permit.granted_at()) > FRESH
        {
            self.give_back();
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl Credit {
    fn new(permit: Permit<'static>) -> Self {
        Self {
            permit,
            whole: true,
        }
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let credit = self.credit.as_ref().map(|credit| credit.permit.cost());
        f.debug_struct("Meter")
            .field("budget", &self.budget)
            .field("credit", &credit)
            .field("waits", &self.waiting.is_some())
            .finish()
    }
}
