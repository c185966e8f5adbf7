//! Who waits, in which order, and for how long.

use super::{Answer, Limiter, Nanos};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Full {
    Incoming,
    Oldest,
    Newest,
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
pub(super) struct Waiter {
    pub(super) id: usize,
    class: usize,
    cost: u64,
    deadline: Option<Nanos>,
}

fn weight(cost: u64) -> u128 {
    u128::from(cost.max(1))
}

impl Limiter {
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
    pub(super) fn settle(&mut self) {
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

    pub(super) fn leave(&mut self, id: usize, answer: Answer) {
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

    pub(super) fn may_pass(&self, class: usize) -> bool {
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

    pub(super) fn enqueue(
        &mut self,
        id: usize,
        class: usize,
        cost: u64,
        patience: Option<Nanos>,
    ) -> Answer {
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

    pub(crate) fn set_queue_bound(&mut self, bound: u64) {
        if let Some(queue) = &mut self.queue {
            queue.bound = bound;
        }
    }
}
