//! When a demand will be served.
//!
//! For rules that are refilled with time this is known exactly: on a copy of the state, every waiter that is served
//! before takes at its earliest moment, in order. The result is cached, so that each of many demands that are refused
//! at a full queue costs one lookup and not one walk through the queue. Two copies are reused.

use super::asking::{peek, take};
use super::locked::{Inside, Turn};
use crate::queue::{Evicted, Order, Waiters};
use crate::{Demand, Moment, Rule};

/// The number of times that a rule is asked when a cost fits. Two suffice for a rule with a correct first answer.
const TRIES: usize = 4;

pub(super) struct Forecast<S> {
    /// The state after all waiters of a class and above have been served.
    served: Option<Served<S>>,
    /// Whether that state is still current.
    holds: bool,
    /// The state after a new demand, and the further waiters before it, have also been served.
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
            // It is also served after the class of the forecast.
            Some(served) if class < served.class => {}
            _ => self.holds = false,
        }
    }
}

impl<R: Rule> Turn<'_, R> {
    /// When `demand` would be served, behind the waiters that are served before it, if `evicted` make room for it.
    pub(super) fn turn_of(&mut self, demand: Demand, evicted: Evicted) -> Moment {
        if R::RETURNS_PERMITS {
            return Moment::NEVER;
        }
        if self.inside.waiters.is_empty() {
            let answer = peek(self.rule, self.state, self.now, demand.cost);
            return answer.map_or_else(|refusal| refusal.ready_at, |()| self.now);
        }
        if evicted.anybody() {
            // The forecast includes the waiters that are to be evicted.
            self.inside.forecast.forget();
        }
        let rule = self.rule;
        let (_, newcomer) = self.all_served(demand, evicted);
        newcomer.serve(rule, demand.cost);
        let turn = newcomer.at;
        if evicted.anybody() {
            self.inside.forecast.forget();
        }
        turn
    }

    /// When a refused `demand` that is made again later would be granted at once, if no other demand comes. Behind waiters
    /// in another than a fifo queue that is not known.
    ///
    /// This differs from its turn in the queue. There it would precede waiters of lower classes; but a demand that does
    /// not wait finds that they have been served as soon as they fit, and at the same moment before it.
    pub(super) fn hint(&mut self, demand: Demand) -> Moment {
        if R::RETURNS_PERMITS || self.order() != Order::Fifo {
            return Moment::NEVER;
        }
        let (class, cost) = (demand.priority.class(), demand.cost);
        if let Some(hint) = &self.inside.forecast.hint
            && (hint.class, hint.cost) == (class, cost)
        {
            return hint.at.max(self.now);
        }
        let rule = self.rule;
        let (waiters, newcomer) = self.all_served(demand, Evicted::NOBODY);
        let mut at = newcomer.ready_for(rule, cost);
        for other in waiters
            .costs_below(class)
            .filter(|other| *other <= rule.limit())
        {
            let due = newcomer.ready_for(rule, other);
            if due > at || !due.is_known() {
                break;
            }
            newcomer.serve(rule, other);
            at = newcomer.ready_for(rule, cost);
        }
        self.inside.forecast.hint = Some(Hint { class, cost, at });
        at
    }

    /// A copy of the state when all waiters before a newcomer have been served, worked out only if the forecast does not
    /// hold; and the waiters.
    fn all_served(
        &mut self,
        demand: Demand,
        evicted: Evicted,
    ) -> (&Waiters, &mut Served<R::State>) {
        let order = self.order();
        let (rule, state, now) = (self.rule, &*self.state, self.now);
        let Inside {
            waiters, forecast, ..
        } = &mut *self.inside;
        let class = demand.priority.class();
        let holds = forecast.holds && forecast.served.as_ref().is_some_and(|it| it.class == class);
        if !holds {
            let served = copy(&mut forecast.served, state, class, now);
            for cost in waiters.costs_before(class, order, evicted) {
                served.serve(rule, cost);
            }
            forecast.holds = true;
        }
        let (state, at) = match &forecast.served {
            Some(served) => (&served.state, served.at.max(now)),
            None => (state, now),
        };
        (waiters, copy(&mut forecast.newcomer, state, class, at))
    }
}

/// Makes `place` a copy of `state`.
fn copy<'a, S: Clone>(
    place: &'a mut Option<Served<S>>,
    state: &S,
    class: usize,
    at: Moment,
) -> &'a mut Served<S> {
    if let Some(served) = place {
        served.state.clone_from(state);
        (served.class, served.at) = (class, at);
    }
    place.get_or_insert_with(|| Served {
        class,
        state: state.clone(),
        at,
    })
}

impl<S: Clone> Served<S> {
    /// The moment from which `cost` fits.
    fn ready_for<R: Rule<State = S>>(&self, rule: &R, cost: u64) -> Moment {
        match peek(rule, &self.state, self.at, cost) {
            _ if !self.at.is_known() => Moment::NEVER,
            Ok(()) => self.at,
            Err(refusal) if refusal.ready_at > self.at => refusal.ready_at,
            Err(_) => Moment::NEVER,
        }
    }

    fn serve<R: Rule<State = S>>(&mut self, rule: &R, cost: u64) {
        // A limit that has shrunk may be too small for a waiter. The waiter is refused at its turn, and takes
        // nothing.
        if cost > rule.limit() {
            return;
        }
        // The rule refuses with the moment at which the cost fits, and is then asked at that moment. A rule that names a later moment each
        // time must not keep the caller in this loop.
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
