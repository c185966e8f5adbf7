use std::sync::{Arc, Weak};

use super::Gate;
use super::word::Core;
use crate::Rule;

/// A weak reference to a gate.
pub(crate) struct WeakGate<R: Rule>(Weak<Core<R>>);

impl<R: Rule> WeakGate<R> {
    /// The gate, if it still exists.
    pub(crate) fn upgrade(&self) -> Option<Gate<R>> {
        self.0.upgrade().map(Gate::from_core)
    }
}

impl<R: Rule> Gate<R> {
    /// The same gate, without keeping it alive.
    pub(crate) fn downgrade(&self) -> WeakGate<R> {
        WeakGate(Arc::downgrade(&self.core))
    }
}
