//! The credit of one direction of a connection with its budgets.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use plimsoll::{Demand, LimiterExt, Moment, Permit, Reason};
use tokio::task::coop::has_budget_remaining;

use super::Budget;
use plimsoll_kinds::RetryingAcquire;

/// The time for which a credit is valid. After that it is refunded, so that no connection accumulates credit.
const FRESH: Duration = Duration::from_secs(1);

/// A connection that asks again within this time after a transfer has more to transfer.
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

    /// Waits until a transfer is allowed. Ready with its size, at most `wanted` bytes.
    pub(super) fn poll_allowed(
        &mut self,
        cx: &mut Context<'_>,
        wanted: usize,
    ) -> Poll<io::Result<usize>> {
        if self.0.is_empty() {
            return Poll::Ready(Ok(wanted));
        }
        // Without coop budget the connection would report that there is nothing to transfer, which is no reason for a
        // refund.
        if !has_budget_remaining() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if !self.waits() {
            self.0.iter_mut().for_each(Meter::refund_if_stale);
        }
        let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
        let mut share = u64::MAX;
        for index in 0..self.0.len() {
            // Later budgets grant no more than earlier ones did. So all but the last grant whole quanta, or later
            // budgets could never grant a whole one.
            let last = index + 1 == self.0.len();
            let least = if last { wanted } else { u64::MAX };
            match self.0[index].poll_credit(cx, wanted, least, share) {
                Poll::Ready(Ok(credit)) => share = share.min(credit),
                Poll::Ready(Err(error)) => {
                    self.refund();
                    return Poll::Ready(Err(error));
                }
                Poll::Pending => {
                    // Other connections can use it meanwhile.
                    self.0[index + 1..].iter_mut().for_each(Meter::refund);
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(usize::try_from(wanted.min(share)).unwrap_or(usize::MAX)))
    }

    /// Records a transfer. After one of 0 bytes it is not known when the next is possible, and all credit is refunded.
    pub(super) fn moved(&mut self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        for meter in &mut self.0 {
            if bytes == 0 {
                meter.refund();
            } else {
                meter.spend(bytes);
            }
        }
    }

    /// Refunds unused credit, unless a transfer waits for more.
    pub(super) fn pause(&mut self) {
        if !self.waits() {
            self.refund();
        }
    }

    fn waits(&self) -> bool {
        self.0.iter().any(|meter| meter.waiting.is_some())
    }

    /// Refunds unused credit, and stops waiting.
    pub(super) fn refund(&mut self) {
        for meter in &mut self.0 {
            meter.waiting = None;
            meter.refund();
        }
    }
}

/// The credit of one direction with one budget.
struct Meter {
    budget: Budget,
    credit: Option<Credit>,
    waiting: Option<RetryingAcquire>,
    /// The time of the last transfer.
    moved_at: Option<Moment>,
}

struct Credit {
    permit: Permit<'static>,
    /// Whether it is unused.
    whole: bool,
}

impl Meter {
    /// Waits for a credit of at most `most`: of `least` if the budget suffices for all connections, otherwise of a
    /// quantum; and of `wanted`, if more would probably not be used.
    fn poll_credit(
        &mut self,
        cx: &mut Context<'_>,
        wanted: u64,
        least: u64,
        most: u64,
    ) -> Poll<io::Result<u64>> {
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
                    Err(_) => {
                        self.waiting = Some(RetryingAcquire::new(rate.clone(), Demand::of(most)))
                    }
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

    /// Whether there is probably more to transfer than is asked for now. Assumed for a new connection.
    fn has_more(&self) -> bool {
        self.moved_at
            .is_none_or(|moved_at| self.now().since(moved_at) <= SOON)
    }

    fn now(&self) -> Moment {
        self.budget.limiter().clock().now()
    }

    fn spend(&mut self, bytes: u64) {
        self.moved_at = Some(self.now());
        if let Some(credit) = &mut self.credit {
            credit.whole = false;
            let used = credit.permit.cost().min(bytes);
            // Dropping a permit of a rate refunds nothing.
            drop(credit.permit.split(used));
            if credit.permit.cost() == 0 {
                self.credit = None;
            }
        }
    }

    fn refund(&mut self) {
        if let Some(mut credit) = self.credit.take() {
            if credit.whole {
                credit.permit.undo();
            } else if let Some(rest) = credit.permit.split(credit.permit.cost()) {
                rest.undo();
            }
        }
    }

    fn refund_if_stale(&mut self) {
        if let Some(credit) = &self.credit
            && self.now().since(credit.permit.granted_at()) > FRESH
        {
            self.refund();
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.refund();
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
