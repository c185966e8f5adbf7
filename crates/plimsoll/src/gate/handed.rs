//! Answers that are read without the lock: which places in the queue a returned permit was handed to.
//!
//! A place that is handed a permit is free at once. Its former owner learns of it from a cell, one for each place, that is
//! never moved: the cells are in chunks, each twice as long as the one before, which are allocated when the first of their
//! places has an owner.

use std::sync::OnceLock;

use crate::queue::Ticket;
use crate::sync::{AtomicU64, Ordering};

/// The length of the first chunk. A model has few places, and pays for each.
const FIRST: usize = if cfg!(loom) { 2 } else { 32 };
/// With so many there is a cell for each place that a queue can number.
const CHUNKS: usize = 32;

type Chunk = OnceLock<Box<[AtomicU64]>>;

/// For each place, the number of its owner since it was last handed a permit: whoever had it before was granted.
pub(super) struct Handed(OnceLock<Box<[Chunk; CHUNKS]>>);

impl Default for Handed {
    fn default() -> Self {
        let handed = Self(OnceLock::new());
        if cfg!(loom) {
            // The model checker does not know that who finds a chunk sees its cells: it knows its own primitives only. So there
            // they are made before anybody looks for them.
            handed.cells(0);
            handed.cells(1);
        }
        handed
    }
}

/// The chunk of a cell, and where it is in there.
#[inline]
fn position(index: usize) -> (usize, usize) {
    let number = index + FIRST;
    let chunk = number.ilog2() - FIRST.ilog2();
    (chunk as usize, number - (FIRST << chunk))
}

impl Handed {
    /// Whether this place was handed a permit, if its owner has not read another answer before.
    ///
    /// What the thread did that returned the permit happened before.
    #[inline]
    pub(super) fn has(&self, ticket: Ticket) -> bool {
        let (chunk, at) = position(ticket.index());
        let cell = || self.0.get()?.get(chunk)?.get()?.get(at);
        cell().is_some_and(|cell| cell.load(Ordering::Acquire) > ticket.generation())
    }

    /// Whether anybody ever waited here.
    #[inline]
    pub(super) fn is_used(&self) -> bool {
        self.0.get().is_some()
    }

    /// Makes the cell of a place that is new: where waiters come and go nothing is allocated.
    #[inline]
    pub(super) fn prepare(&self, ticket: Ticket) {
        if ticket.generation() == 0 {
            self.cells(position(ticket.index()).0);
        }
    }

    /// Tells the owner of this place, which is free from now on. Only with the lock held.
    #[inline]
    pub(super) fn tell(&self, ticket: Ticket) {
        let (chunk, at) = position(ticket.index());
        self.cells(chunk)[at].store(ticket.generation() + 1, Ordering::Release);
    }

    /// The cells of a chunk, which are made if there are none.
    fn cells(&self, chunk: usize) -> &[AtomicU64] {
        let chunks = self.0.get_or_init(Box::default);
        chunks[chunk].get_or_init(|| {
            let cells = 0..FIRST << chunk;
            cells.map(|_| AtomicU64::new(0)).collect()
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_place_has_a_cell_of_its_own() {
        let mut expected = (0, 0);
        for index in 0..10_000 {
            assert_eq!(position(index), expected);
            expected.1 += 1;
            if expected.1 == FIRST << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
        assert!(position(u32::MAX as usize).0 < CHUNKS);
    }
}
