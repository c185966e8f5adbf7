//! A pool of decision states for each thread.
//!
//! The state of a decision is large (keys, permits, answers), so it is boxed. To avoid allocations, a thread keeps the
//! boxes of decisions that ended on it, and reuses them. If decisions end on other threads than they begin on, some are
//! allocated.

use std::cell::{Cell, RefCell};

use crate::state::DecisionState;
use crate::stats::SAMPLED;

/// The size of the pool of a thread.
const KEPT: usize = 32;

/// The largest capacities of a state in the pool. Larger ones are dropped, so that no caller can make the pool large.
const ROOM: usize = 64;
const KEY_ROOM: usize = 4096;

thread_local! {
    #[expect(clippy::vec_box, reason = "they are moved in and out")]
    static FREE: RefCell<Vec<Box<DecisionState>>> = const { RefCell::new(Vec::new()) };
    /// The number of decisions of this thread. Separate from `FREE`, because a value without a destructor is faster to reach.
    static COUNT: Cell<u32> = const { Cell::new(0) };
}

/// An empty state, from the pool if there is one.
#[inline]
pub(crate) fn take() -> Box<DecisionState> {
    // A thread that is ending has no pool.
    let state = FREE.try_with(|free| free.borrow_mut().pop());
    let mut state = state.ok().flatten().unwrap_or_default();
    state.sampled = sampled();
    state
}

/// Whether the next decision of this thread is sampled for the top keys.
#[inline]
pub(crate) fn is_sampled() -> bool {
    COUNT.get().is_multiple_of(SAMPLED)
}

/// Counts a decision of this thread, and returns whether it is sampled for the top keys.
#[inline]
pub(crate) fn sampled() -> bool {
    let count = COUNT.replace(COUNT.get().wrapping_add(1));
    count.is_multiple_of(SAMPLED)
}

/// Ends a decision: returns its permits, and puts its state into the pool.
#[inline]
pub(crate) fn give_back(mut state: Box<DecisionState>) {
    // Before the pool is borrowed: a waiter that is woken by a returned permit may make a decision on this thread.
    state.clear();
    let _ = FREE.try_with(|free| {
        let free = &mut *free.borrow_mut();
        if free.len() < KEPT && state.keys.capacity() <= KEY_ROOM && state.list.capacity() <= ROOM {
            free.push(state);
        }
    });
}
