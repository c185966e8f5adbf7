//! Answers that are read without the lock: which places in the queue a returned permit was handed to.
//!
//! A place whose waiter is handed a permit is free at once. The waiter reads the grant from a cell. There is one cell for each place, and
//! cells are never moved: they are in chunks, each twice as long as the one before, and a chunk is allocated when the first of its
//! places is used.

use std::sync::OnceLock;

use crate::queue::Ticket;
use crate::sync::{AtomicU64, Ordering};

/// The length of the first chunk. A model has few places, and each makes it slower.
const FIRST: usize = if cfg!(loom) { 2 } else { 32 };
/// With this number of chunks there is a cell for each place that a queue can number.
const CHUNKS: usize = 32;

type Chunk = OnceLock<Box<[AtomicU64]>>;

/// For each place, the generation of its owner since the place was last handed a permit: owners of earlier generations were granted.
pub(super) struct Handed(OnceLock<Box<[Chunk; CHUNKS]>>);

impl Default for Handed {
    fn default() -> Self {
        let handed = Self(OnceLock::new());
        if cfg!(loom) {
            // The model checker knows only its own primitives, and not that a thread that finds a chunk sees its cells. So in a
            // model the cells are made before any thread reads them.
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
    /// The work of the thread that returned the permit happened before this returns true.
    #[inline]
    pub(super) fn has(&self, ticket: Ticket) -> bool {
        let (chunk, at) = position(ticket.index());
        let cell = || self.0.get()?.get(chunk)?.get()?.get(at);
        cell().is_some_and(|cell| cell.load(Ordering::Acquire) > ticket.generation())
    }

    /// Whether any demand has ever waited in this queue.
    #[inline]
    pub(super) fn is_used(&self) -> bool {
        self.0.get().is_some()
    }

    /// Makes the cell of a new place. A place that is used again has its cell: no allocation is needed.
    #[inline]
    pub(super) fn prepare(&self, ticket: Ticket) {
        if ticket.generation() == 0 {
            self.cells(position(ticket.index()).0);
        }
    }

    /// Marks the owner of this place as granted. The place is free from now on. The caller holds the lock.
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
