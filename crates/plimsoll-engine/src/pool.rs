//! Decisions that have ended, kept for those that come.
//!
//! A decision has places for keys, permits and answers, more than would be quickly passed on in memory. So it lies apart, and
//! so that nothing is allocated for it, each thread keeps some that have ended there. Where decisions end on other threads than
//! they are made on, some are allocated.

use std::cell::RefCell;

use crate::parts::Parts;
use crate::seen::SAMPLED;

/// How many are kept by each thread.
const KEPT: usize = 32;

/// What a decision that is kept may have room for: larger ones are dropped, so that no caller decides how much memory stays.
const ROOM: usize = 64;
const KEY_ROOM: usize = 4096;

struct Pool {
    #[expect(clippy::vec_box, reason = "they are moved in and out")]
    free: Vec<Box<Parts>>,
    /// How many were taken.
    count: u32,
}

impl Pool {
    /// Counts one more, and says whether it is noted whose it is.
    #[inline]
    fn sampled(&mut self) -> bool {
        let sampled = self.count.is_multiple_of(SAMPLED);
        self.count = self.count.wrapping_add(1);
        sampled
    }
}

thread_local! {
    static POOL: RefCell<Pool> = const { RefCell::new(Pool { free: Vec::new(), count: 0 }) };
}

/// A decision that asks nothing yet.
#[inline]
pub(crate) fn take() -> Box<Parts> {
    let taken = POOL.try_with(|pool| {
        let pool = &mut *pool.borrow_mut();
        (pool.free.pop(), pool.sampled())
    });
    // A thread that ends keeps nothing.
    let (parts, sampled) = taken.unwrap_or_default();
    let mut parts = parts.unwrap_or_default();
    parts.sampled = sampled;
    parts
}

/// Whether it is noted whose a decision is that needs no places.
#[inline]
pub(crate) fn sampled() -> bool {
    let sampled = POOL.try_with(|pool| pool.borrow_mut().sampled());
    sampled.unwrap_or_default()
}

/// Ends a decision, and keeps its places.
#[inline]
pub(crate) fn give_back(mut parts: Box<Parts>) {
    // Before the pool is looked at: whoever is woken by what is returned may decide on this thread.
    parts.clear();
    let _ = POOL.try_with(|pool| {
        let free = &mut pool.borrow_mut().free;
        if free.len() < KEPT && parts.keys.capacity() <= KEY_ROOM && parts.list.capacity() <= ROOM {
            free.push(parts);
        }
    });
}
