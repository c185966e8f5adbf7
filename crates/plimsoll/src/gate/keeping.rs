//! A state that outlives its gate: read from one process, and put into a gate of the next.

use super::Gate;
use crate::{Moment, Rule};

impl<R: Rule> Gate<R> {
    /// When its rule began, and its state.
    #[doc(hidden)]
    #[must_use]
    pub fn kept(&self) -> (Moment, R::State) {
        self.core
            .look(|rule, _, state, _| (rule.began(), state.clone()))
    }

    /// Puts a state in the place of its own, which `state` makes for the rule at this moment. Permits that are out count
    /// where they are kept, so on a limit whose permits are returned it does nothing.
    #[doc(hidden)]
    pub fn restore(&self, state: impl FnOnce(&R, Moment) -> R::State) {
        self.change(|turn| *turn.state = state(turn.rule, turn.now));
    }
}
