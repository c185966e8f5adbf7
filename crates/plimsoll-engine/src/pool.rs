//! Decisions that have ended, kept for those that come.
//!
//! A decision has places for keys, permits and answers, more than would be quickly passed on in memory. So it lies apart, and
//! so that nothing is allocated for it, each thread keeps some that have ended there. Where decisions end on other threads than
//! they are made on, some are allocated.

use std::cell::{Cell, RefCell};

use crate::parts::Parts;
use crate::seen::SAMPLED;

/// How many are kept by each thread.
const KEPT: usize = 32;

/// What a decision that is kept may have room for: larger ones are dropped, so that no caller decides how much memory stays.
const ROOM: usize = 64;
const KEY_ROOM: usize = 4096;

thread_local! {
    #[expect(clippy::vec_box, reason = "they are moved in and out")]
    static FREE: RefCell<Vec<Box<Parts>>> = const { RefCell::new(Vec::new()) };
    /// How many decisions were made. Apart, because nothing has to be dropped with it, so that it is quickly reached.
    static COUNT: Cell<u32> = const { Cell::new(0) };
}

/// A decision that asks nothing yet.
#[inline]
pub(crate) fn take() -> Box<Parts> {
    // A thread that ends keeps nothing.
    let parts = FREE.try_with(|free| free.borrow_mut().pop());
    let mut parts = parts.ok().flatten().unwrap_or_default();
    parts.sampled = sampled();
    parts
}

/// Whether it is noted whose the next decision of this thread is.
#[inline]
pub(crate) fn is_sampled() -> bool {
    COUNT.get().is_multiple_of(SAMPLED)
}

/// Counts a decision of this thread, and says whether it is noted whose it is.
#[inline]
pub(crate) fn sampled() -> bool {
    let count = COUNT.replace(COUNT.get().wrapping_add(1));
    count.is_multiple_of(SAMPLED)
}

/// Ends a decision, and keeps its places.
#[inline]
pub(crate) fn give_back(mut parts: Box<Parts>) {
    // Before the pool is looked at: whoever is woken by what is returned may decide on this thread.
    parts.clear();
    let _ = FREE.try_with(|free| {
        let free = &mut *free.borrow_mut();
        if free.len() < KEPT && parts.keys.capacity() <= KEY_ROOM && parts.list.capacity() <= ROOM {
            free.push(parts);
        }
    });
}
