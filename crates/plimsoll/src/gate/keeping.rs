//! A state that outlives its gate: it is read in one process, and restored into a gate of the next.

use super::Gate;
use crate::{Moment, Rule};

impl<R: Rule> Gate<R> {
    /// Returns the moment at which its rule began, and its state.
    #[doc(hidden)]
    #[must_use]
    pub fn kept(&self) -> (Moment, R::State) {
        self.core
            .look(|rule, _, state, _| (rule.began(), state.clone()))
    }

    /// Replaces the state by the one that `state` makes for the rule at this moment. On a limit whose permits are
    /// returned it does nothing: permits in use are counted by the limiter that granted them.
    #[doc(hidden)]
    pub fn restore(&self, state: impl FnOnce(&R, Moment) -> R::State) {
        self.change(|turn| *turn.state = state(turn.rule, turn.now));
    }
}
