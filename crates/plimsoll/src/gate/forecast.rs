//! When a demand will be served.
//!
//! For rules that are refilled with time this is known exactly: on a copy of the state, every waiter that is served
//! before takes at the earliest moment, one after the other. The result is cached, so that each of many demands that are
//! refused at a full queue costs one lookup and not one walk through the queue. Two copies are reused.

use crate::queue::Order;
use crate::{Moment, Rule};

use super::asking::{peek, take};

/// So often a rule is asked when a cost fits. Twice is enough for one that keeps to what it says.
const TRIES: usize = 4;

pub(super) struct Forecast<S> {
    /// The state after all waiters of a class and above have been served.
    served: Option<Served<S>>,
    /// Whether that is still so.
    holds: bool,
    /// The state as it will be when a newcomer, or those it has to wait for besides, have been served too.
    newcomer: Option<Served<S>>,
    /// The last hint, while it holds.
    hint: Option<Hint>,
}

/// When a demand of `(class, cost)` that does not wait would be granted.
#[derive(Clone, Copy)]
struct Hint {
    class: usize,
    cost: u64,
    at: Moment,
}

#[derive(Clone)]
struct Served<S> {
    class: usize,
    state: S,
    at: Moment,
}

impl<S: Clone> Forecast<S> {
    pub(super) const fn nothing() -> Self {
        Self {
            served: None,
            holds: false,
            newcomer: None,
            hint: None,
        }
    }

    /// To be called whenever the state or the queue changes in any other way than by
    /// [`joined`](Self::joined).
    pub(super) fn forget(&mut self) {
        self.holds = false;
        self.hint = None;
    }

    /// When the turn of a newcomer of `(class, cost)` comes behind `before`.
    pub(super) fn turn_of<R: Rule<State = S>, I: Iterator<Item = u64>>(
        &mut self,
        rule: &R,
        state: &S,
        now: Moment,
        (class, cost): (usize, u64),
        before: impl FnOnce() -> I,
    ) -> Moment {
        let served = all_served(
            (&mut self.served, &mut self.holds),
            rule,
            state,
            (class, now),
            before,
        );
        let at = served.at.max(now);
        let newcomer = copy(&mut self.newcomer, &served.state, class, at);
        newcomer.serve(rule, cost);
        newcomer.at
    }

    /// When a demand of `(class, cost)` that is made again later would be granted at once, if no other demand comes.
    ///
    /// That is not its turn in the queue. There it would stand before those of the classes `below`; but while it is
    /// away they are served as soon as they fit, and at the same moment before a newcomer.
    pub(super) fn return_of<
        R: Rule<State = S>,
        B: Iterator<Item = u64>,
        L: Iterator<Item = u64>,
    >(
        &mut self,
        rule: &R,
        state: &S,
        now: Moment,
        (class, cost): (usize, u64),
        (before, below): (impl FnOnce() -> B, impl FnOnce() -> L),
    ) -> Moment {
        if let Some(hint) = &self.hint
            && (hint.class, hint.cost) == (class, cost)
        {
            return hint.at.max(now);
        }
        let served = all_served(
            (&mut self.served, &mut self.holds),
            rule,
            state,
            (class, now),
            before,
        );
        let at = served.at.max(now);
        let reached = copy(&mut self.newcomer, &served.state, class, at);
        let mut at = reached.ready_for(rule, cost);
        for other in below().filter(|other| *other <= rule.limit()) {
            let due = reached.ready_for(rule, other);
            if due > at || !due.is_known() {
                break;
            }
            reached.serve(rule, other);
            at = reached.ready_for(rule, cost);
        }
        self.hint = Some(Hint { class, cost, at });
        at
    }

    /// A waiter of `class` has joined the end of its class.
    pub(super) fn joined<R: Rule<State = S>>(
        &mut self,
        rule: &R,
        class: usize,
        cost: u64,
        order: Order,
    ) {
        self.hint = None;
        match &mut self.served {
            // It is served after all waiters of the forecast.
            Some(served) if self.holds && class == served.class && order == Order::Fifo => {
                served.serve(rule, cost);
            }
            // It stands behind the class of the forecast too.
            Some(served) if class < served.class => {}
            _ => self.holds = false,
        }
    }
}

/// The state when everybody `before` a newcomer of `class` has been served, worked out only if what is kept does not
/// hold.
fn all_served<'a, R: Rule, I: Iterator<Item = u64>>(
    (kept, holds): (&'a mut Option<Served<R::State>>, &mut bool),
    rule: &R,
    state: &R::State,
    (class, now): (usize, Moment),
    before: impl FnOnce() -> I,
) -> &'a Served<R::State> {
    let still = *holds && kept.as_ref().is_some_and(|served| served.class == class);
    let served = kept.get_or_insert_with(|| Served {
        class,
        state: state.clone(),
        at: now,
    });
    if !still {
        served.becomes(state, class, now);
        for cost in before() {
            served.serve(rule, cost);
        }
        *holds = true;
    }
    served
}

/// Makes `place` a copy of `state`.
fn copy<'a, S: Clone>(
    place: &'a mut Option<Served<S>>,
    state: &S,
    class: usize,
    at: Moment,
) -> &'a mut Served<S> {
    let served = place.get_or_insert_with(|| Served {
        class,
        state: state.clone(),
        at,
    });
    served.becomes(state, class, at);
    served
}

impl<S: Clone> Served<S> {
    fn becomes(&mut self, state: &S, class: usize, at: Moment) {
        self.state.clone_from(state);
        self.class = class;
        self.at = at;
    }

    /// From when on `cost` fits.
    fn ready_for<R: Rule<State = S>>(&self, rule: &R, cost: u64) -> Moment {
        match peek(rule, &self.state, self.at, cost) {
            _ if !self.at.is_known() => Moment::NEVER,
            Ok(()) => self.at,
            Err(refusal) if refusal.ready_at > self.at => refusal.ready_at,
            Err(_) => Moment::NEVER,
        }
    }

    fn serve<R: Rule<State = S>>(&mut self, rule: &R, cost: u64) {
        // A limit that has shrunk may be too small for one who waits: it is refused when its turn comes, and takes
        // nothing.
        if cost > rule.limit() {
            return;
        }
        // Refused with the moment at which it fits, then taken at that moment. A rule that puts it off again and again
        // must not keep everybody waiting for the answer.
        for _ in 0..TRIES {
            match take(rule, &mut self.state, self.at, cost) {
                Ok(()) => return,
                Err(refusal) if refusal.ready_at <= self.at || !refusal.ready_at.is_known() => {
                    break;
                }
                Err(refusal) => self.at = refusal.ready_at,
            }
        }
        self.at = Moment::NEVER;
    }
}
