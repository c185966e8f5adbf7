//! When somebody's turn comes.
//!
//! For rules that replenish with time this can be known exactly: let everybody who is served before
//! take at the earliest moment, one after the other, on a copy of the state. The outcome is kept, so
//! that a flood of newcomers who are refused at a full queue costs one look each and not one walk
//! through the queue each. The copies are made in the same two places again and again.

use crate::queue::Order;
use crate::{Moment, Rule};

use super::inside::take;

pub(super) struct Forecast<S> {
    /// The state as it will be when everybody of a class and above has been served.
    served: Option<Served<S>>,
    /// Whether that is still so.
    holds: bool,
    /// The state as it will be when a newcomer has been served too.
    newcomer: Option<Served<S>>,
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
        }
    }

    /// To be called whenever the state or the queue changes in any other way than by
    /// [`joined`](Self::joined).
    pub(super) fn forget(&mut self) {
        self.holds = false;
    }

    /// When the turn of a newcomer of `(class, cost)` comes behind `before`.
    pub(super) fn turn_of<R: Rule<State = S>, I: Iterator<Item = u32>>(
        &mut self,
        rule: &R,
        state: &S,
        now: Moment,
        (class, cost): (usize, u32),
        before: impl FnOnce() -> I,
    ) -> Moment {
        if !self.holds
            || self
                .served
                .as_ref()
                .is_none_or(|served| served.class != class)
        {
            let served = copy(&mut self.served, state, class, now);
            for cost in before() {
                served.serve(rule, cost);
            }
            self.holds = true;
        }
        let Some(served) = &self.served else {
            return Moment::NEVER;
        };
        let newcomer = copy(&mut self.newcomer, &served.state, class, served.at.max(now));
        newcomer.serve(rule, cost);
        newcomer.at
    }

    /// Somebody of `class` has joined the end of its class.
    pub(super) fn joined<R: Rule<State = S>>(
        &mut self,
        rule: &R,
        class: usize,
        cost: u32,
        order: Order,
    ) {
        match &mut self.served {
            // It stands behind all who are in the forecast.
            Some(served) if self.holds && class == served.class && order == Order::Fifo => {
                served.serve(rule, cost);
            }
            // It stands behind the class of the forecast too.
            Some(served) if class < served.class => {}
            _ => self.holds = false,
        }
    }
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
    served.state.clone_from(state);
    served.class = class;
    served.at = at;
    served
}

impl<S: Clone> Served<S> {
    fn serve<R: Rule<State = S>>(&mut self, rule: &R, cost: u32) {
        // Twice at the most: refused with the moment at which it fits, then taken at that moment.
        while let Err(refusal) = take(rule, &mut self.state, self.at, cost) {
            if refusal.ready_at <= self.at || !refusal.ready_at.is_known() {
                self.at = Moment::NEVER;
                return;
            }
            self.at = refusal.ready_at;
        }
    }
}
