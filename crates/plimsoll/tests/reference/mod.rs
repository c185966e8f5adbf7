//! The limiters again, as simply as they can be written: lists instead of arithmetic, search instead of
//! formulas. Slow and obviously right, to compare the real ones with.

mod queue;
mod rule;
mod spec;

use queue::Waiter;
pub(crate) use queue::{Full, Queue};
pub(crate) use rule::Rule;
pub(crate) use spec::{Bucket, INTERVAL, Spec};

pub(crate) type Nanos = u64;

/// What becomes of what is there when a limit changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Carry {
    AsIs,
    Used,
    Proportional,
    Reset,
}

/// What became of a demand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    Granted,
    Pending,
    Denied(&'static str),
}

#[derive(Clone, Debug)]
pub(crate) struct Limiter {
    pub(crate) rule: Rule,
    pub(crate) queue: Option<Queue>,
    pub(crate) now: Nanos,
    /// From the oldest to the newest.
    waiters: Vec<Waiter>,
    /// The answers so far, by id.
    pub(crate) answers: Vec<Answer>,
    closed: bool,
    bookings: Vec<Booking>,
    /// Grants up to this moment can no longer be undone.
    settled_until: Option<Nanos>,
}

/// What was taken ahead of time.
#[derive(Clone, Copy, Debug)]
struct Booking {
    cost: u64,
    ready_at: Nanos,
    waits: bool,
    stands: bool,
}

impl Limiter {
    pub(crate) fn new(rule: Rule, queue: Option<Queue>, now: Nanos) -> Self {
        Self {
            rule,
            queue,
            now,
            waiters: Vec::new(),
            answers: Vec::new(),
            closed: false,
            bookings: Vec::new(),
            settled_until: None,
        }
    }

    fn decide(&mut self, class: usize, cost: u64) -> Option<Answer> {
        if self.closed {
            return Some(Answer::Denied("closed"));
        }
        if cost > self.rule.limit() {
            return Some(Answer::Denied("too_large"));
        }
        if self.may_pass(class) && self.rule.fits(self.now, cost) {
            self.rule.take(self.now, cost);
            return Some(Answer::Granted);
        }
        None
    }

    pub(crate) fn try_acquire(&mut self, class: usize, cost: u64) -> Answer {
        let reason = self.rule.reason(self.now, cost);
        let answer = self.decide(class, cost);
        answer.unwrap_or_else(|| self.deny(cost, reason))
    }

    /// A refusal that the rule may remember.
    fn deny(&mut self, cost: u64, reason: &'static str) -> Answer {
        let locked_out = self.rule.refused(self.now, cost);
        Answer::Denied(if locked_out { "locked_out" } else { reason })
    }

    pub(crate) fn acquire(&mut self, class: usize, cost: u64, patience: Option<Nanos>) -> usize {
        let id = self.answers.len();
        self.answers.push(Answer::Pending);
        self.answers[id] = match self.decide(class, cost) {
            Some(answer) => answer,
            None => self.enqueue(id, class, cost, patience),
        };
        self.settle();
        id
    }

    pub(crate) fn release(&mut self, cost: u64) {
        if self.rule.gives_back() {
            self.rule.undo(self.now, self.now, cost);
        }
        self.settle();
    }

    /// As if what was granted at `taken` had not been.
    pub(crate) fn undo(&mut self, taken: Nanos, cost: u64) {
        if self.settled_until.is_none_or(|settled| taken > settled) {
            self.rule.undo(self.now, taken, cost);
            self.settle();
        }
    }

    /// Whether it depends on the order within this very moment whether a grant can be undone.
    pub(crate) fn is_settled_now(&self, taken: Nanos) -> bool {
        self.settled_until == Some(taken)
    }

    pub(crate) fn charge(&mut self, cost: u64) {
        self.rule.charge(self.now, cost);
    }

    pub(crate) fn add(&mut self, amount: u64) {
        if !self.rule.gives_back() {
            self.rule.add(self.now, amount);
            self.settle();
        }
    }

    pub(crate) fn reset(&mut self) {
        if !self.rule.gives_back() {
            self.rule.reset(self.now);
            self.settle_bookings();
            self.settled_until = Some(self.now);
            self.settle();
        }
    }

    pub(crate) fn replace(&mut self, spec: Spec, carry: Carry) {
        let keeps = matches!(carry, Carry::AsIs | Carry::Used);
        if !keeps {
            self.settle_bookings();
        }
        if !keeps || !matches!(spec, Spec::Log { .. }) {
            self.settled_until = Some(self.now);
        }
        self.rule.replace(spec, self.now, carry);
        self.settle();
    }

    fn settle_bookings(&mut self) {
        for booking in &mut self.bookings {
            (booking.stands, booking.waits) = (false, false);
        }
    }

    /// Takes ahead of time, while nobody waits. Says when it may be used, and a number to cancel it by.
    pub(crate) fn book(&mut self, cost: u64) -> (Option<Nanos>, usize) {
        let ready_at = self.rule.book(self.now, cost);
        self.bookings.push(Booking {
            cost,
            ready_at: ready_at.unwrap_or(u64::MAX),
            waits: ready_at.is_none_or(|at| at > self.now),
            stands: true,
        });
        (ready_at, self.bookings.len() - 1)
    }

    /// Gives back what nobody who booked later has been put behind.
    pub(crate) fn cancel_booking(&mut self, id: usize) {
        let Some(booking) = self.bookings.get_mut(id) else {
            return;
        };
        if !std::mem::replace(&mut booking.stands, false) || self.now > booking.ready_at {
            return;
        }
        let cost = booking.cost;
        let later = &self.bookings[id + 1..];
        let last = later.iter().rposition(|other| other.waits && other.stands);
        let behind: u64 = last.map_or(0, |last| {
            let waiting = later[..=last].iter().filter(|other| other.waits);
            waiting.map(|other| other.cost).sum()
        });
        if let back @ 1.. = cost.saturating_sub(behind) {
            self.rule.undo(self.now, self.now, back);
            self.settle();
        }
    }

    pub(crate) fn resize(&mut self, to: u64) {
        if let Spec::Slots { limit } = &mut self.rule.spec {
            *limit = to;
        }
        self.settle();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(crate) fn close(&mut self) {
        self.closed = true;
        for waiter in std::mem::take(&mut self.waiters) {
            self.answers[waiter.id] = Answer::Denied("closed");
        }
    }
}
