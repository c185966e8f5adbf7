//! The limiters again, as simply as they can be written: lists instead of arithmetic, search instead of
//! formulas. Slow and obviously right, to compare the real ones with.

mod rule;
mod spec;

pub(crate) use rule::Rule;
pub(crate) use spec::{Bucket, INTERVAL, Spec};

pub(crate) type Nanos = u64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Full {
    Incoming,
    Oldest,
    Newest,
}

/// What becomes of what is there when a limit changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Carry {
    AsIs,
    Used,
    Proportional,
    Reset,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue {
    pub(crate) bound: u64,
    pub(crate) lifo: bool,
    pub(crate) full: Full,
    pub(crate) excess: bool,
    pub(crate) timeout: Option<Nanos>,
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    id: usize,
    class: usize,
    cost: u64,
    deadline: Option<Nanos>,
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

fn weight(cost: u64) -> u128 {
    u128::from(cost.max(1))
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

    fn lifo(&self) -> bool {
        self.queue.is_some_and(|queue| queue.lifo)
    }

    /// The waiters in the order in which they are served.
    fn line(&self) -> Vec<Waiter> {
        let mut line = self.waiters.clone();
        if self.lifo() {
            line.reverse();
        }
        line.sort_by_key(|waiter| std::cmp::Reverse(waiter.class));
        line
    }

    pub(crate) fn queued(&self) -> u64 {
        u64::try_from(self.weight()).unwrap_or(u64::MAX)
    }

    fn weight(&self) -> u128 {
        self.waiters.iter().map(|waiter| weight(waiter.cost)).sum()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiters.len()
    }

    /// Lets those give up whose time is over, and serves who can run. At its last instant one can still be served.
    fn settle(&mut self) {
        let over = |waiter: &&Waiter| waiter.deadline.is_some_and(|deadline| deadline < self.now);
        let late: Vec<usize> = self.waiters.iter().filter(over).map(|w| w.id).collect();
        for id in late {
            self.leave(id, Answer::Denied("timed_out"));
        }
        loop {
            if let Some(head) = self.line().first().copied() {
                if self.rule.fits(self.now, head.cost) {
                    self.rule.take(self.now, head.cost);
                    self.leave(head.id, Answer::Granted);
                    continue;
                }
                if head.cost > self.rule.limit() {
                    self.leave(head.id, Answer::Denied("too_large"));
                    continue;
                }
            }
            return;
        }
    }

    fn leave(&mut self, id: usize, answer: Answer) {
        self.waiters.retain(|waiter| waiter.id != id);
        self.answers[id] = answer;
    }

    /// Moves on, stopping at every instant at which anything happens.
    pub(crate) fn advance(&mut self, to: Nanos) {
        while self.now < to {
            let due = self
                .line()
                .first()
                .and_then(|head| self.rule.earliest(self.now, head.cost));
            let deadline = self
                .waiters
                .iter()
                .filter_map(|waiter| waiter.deadline)
                .min();
            let next = [due, deadline.map(|deadline| deadline + 1), Some(to)];
            let next = next.into_iter().flatten().filter(|&t| t > self.now).min();
            self.now = next.unwrap_or(to).min(to);
            self.settle();
        }
    }

    /// When it would be the turn of `cost` behind `before`.
    fn turn(&self, before: &[Waiter], cost: u64) -> Option<Nanos> {
        if self.rule.gives_back() {
            return None;
        }
        let mut rule = self.rule.clone();
        let mut at = self.now;
        // A limit that has shrunk below a waiter refuses it when its turn comes: it takes nothing.
        let served = before.iter().filter(|it| it.cost <= rule.limit());
        for waiter in served.collect::<Vec<_>>() {
            at = rule.earliest(at, waiter.cost)?;
            rule.take(at, waiter.cost);
        }
        rule.earliest(at, cost)
    }

    /// Who is served before a newcomer.
    fn before(&self, class: usize, without: &[usize]) -> Vec<Waiter> {
        let lifo = self.lifo();
        let mut line = self.line();
        line.retain(|w| w.class > class || (w.class == class && !lifo));
        line.retain(|w| !without.contains(&w.id));
        line
    }

    fn may_pass(&self, class: usize) -> bool {
        self.lifo() || self.waiters.iter().all(|waiter| waiter.class < class)
    }

    /// The hint for one who is refused now.
    pub(crate) fn hint(&self, class: usize, cost: u64) -> Option<Nanos> {
        if self.closed || cost > self.rule.limit() || (self.lifo() && !self.waiters.is_empty()) {
            return None;
        }
        if self.rule.gives_back() {
            return None;
        }
        // A refusal may itself be counted.
        let mut rule = self.rule.clone();
        rule.refused(self.now, cost);
        let mut at = self.now;
        for waiter in self.line() {
            if waiter.cost > rule.limit() {
                // The limit has shrunk below it: it is refused when its turn comes, and takes nothing.
                continue;
            }
            let due = rule.earliest(at, waiter.cost);
            if waiter.class < class {
                // Before these it would be granted, if it came in time.
                let ready = rule.earliest(at, cost)?;
                if due.is_none_or(|due| ready < due) {
                    return Some(ready - self.now);
                }
            }
            at = due?;
            rule.take(at, waiter.cost);
        }
        Some(rule.earliest(at, cost)? - self.now)
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

    fn enqueue(&mut self, id: usize, class: usize, cost: u64, patience: Option<Nanos>) -> Answer {
        let Some(queue) = self.queue else {
            return self.deny(cost, self.rule.reason(self.now, cost));
        };
        let limit = u128::from(self.rule.limit());
        let one_limit = self.rule.spec.has_one_limit();
        let room = |queued: u128, used: u64| {
            if queue.excess && one_limit {
                u128::from(used) + queued + weight(cost) <= limit + u128::from(queue.bound)
            } else {
                queued + weight(cost) <= u128::from(queue.bound)
            }
        };
        let used = self.rule.used(self.now);
        let mut candidates = Vec::new();
        for lower in 0..class {
            candidates.extend(
                self.waiters
                    .iter()
                    .rev()
                    .filter(|w| w.class == lower)
                    .copied(),
            );
        }
        let own = self.waiters.iter().filter(|w| w.class == class).copied();
        match queue.full {
            Full::Incoming => {}
            Full::Oldest => candidates.extend(own),
            Full::Newest => candidates.extend(own.rev()),
        }
        let mut queued = self.weight();
        let mut evicted = Vec::new();
        for candidate in candidates {
            if room(queued, used) {
                break;
            }
            queued -= weight(candidate.cost);
            evicted.push(candidate.id);
        }
        if !room(queued, used) {
            return self.deny(cost, "queue_full");
        }
        let patience = [patience, queue.timeout].into_iter().flatten().min();
        let deadline = patience.map(|patience| self.now.saturating_add(patience));
        if let Some(deadline) = deadline
            && !self.rule.gives_back()
            && self
                .turn(&self.before(class, &evicted), cost)
                .is_none_or(|turn| turn > deadline)
        {
            return self.deny(cost, "timed_out");
        }
        for gone in evicted {
            self.leave(gone, Answer::Denied("evicted"));
        }
        self.waiters.push(Waiter {
            id,
            class,
            cost,
            deadline,
        });
        Answer::Pending
    }

    /// The caller no longer waits.
    pub(crate) fn cancel(&mut self, id: usize) {
        self.waiters.retain(|waiter| waiter.id != id);
        self.settle();
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

    pub(crate) fn set_queue_bound(&mut self, bound: u64) {
        if let Some(queue) = &mut self.queue {
            queue.bound = bound;
        }
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
