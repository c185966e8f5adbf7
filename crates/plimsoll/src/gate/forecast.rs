//! When somebody's turn comes.
//!
//! For rules that replenish with time this can be known exactly: let everybody who is served before
//! take at the earliest moment, one after the other, on a copy of the state. The outcome is kept, so
//! that a flood of newcomers who are refused at a full queue costs one look each and not one walk
//! through the queue each.

use crate::queue::Order;
use crate::{Moment, Rule};

use super::inside::take;

/// The state as it will be when everybody of a class and above has been served.
pub(super) struct Forecast<S>(Option<Served<S>>);

struct Served<S> {
    class: usize,
    state: S,
    at: Moment,
}

impl<S: Clone> Forecast<S> {
    pub(super) const fn nothing() -> Self {
        Self(None)
    }

    /// To be called whenever the state or the queue changes in any other way than by
    /// [`joined`](Self::joined).
    pub(super) fn forget(&mut self) {
        self.0 = None;
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
        let known = self.0.take().filter(|served| served.class == class);
        let served = known.unwrap_or_else(|| {
            let mut served = Served {
                class,
                state: state.clone(),
                at: now,
            };
            for cost in before() {
                served.serve(rule, cost);
            }
            served
        });
        let mut newcomer = Served {
            class,
            state: served.state.clone(),
            at: served.at.max(now),
        };
        self.0 = Some(served);
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
        match &mut self.0 {
            // It stands behind all who are in the forecast.
            Some(served) if class == served.class && order == Order::Fifo => {
                served.serve(rule, cost);
            }
            // It stands behind the class of the forecast too.
            Some(served) if class < served.class => {}
            _ => self.0 = None,
        }
    }
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
