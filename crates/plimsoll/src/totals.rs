//! The counters of grants and refusals.
//!
//! One shared counter would cost as much as a decision, and threads would contend for it. Instead each thread has a
//! number, the lowest that is free; the first threads each have a cell that no other thread writes, so that counting is
//! a load and a store. Further threads share the last cell, with an atomic addition. Either way no count is lost.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Threads that have a cell of their own.
const OWN: usize = 15;

/// A cell, on a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Cells {
    granted: AtomicU64,
    denied: AtomicU64,
}

/// The counters of one limiter, or of several that share them.
pub(crate) struct Totals(Option<Arc<[Cells; OWN + 1]>>);

impl Totals {
    pub(crate) fn new(counted: bool) -> Self {
        Self(counted.then(Arc::default))
    }

    /// The same counters, for a limiter that is part of this one.
    pub(crate) fn share(&self) -> Self {
        Self(self.0.clone())
    }

    #[inline]
    pub(crate) fn granted(&self) {
        if let Some(cells) = &self.0 {
            count(cells, |cell| &cell.granted);
        }
    }

    /// Reverts the last count of this thread.
    pub(crate) fn not_granted(&self) {
        if let Some(cells) = &self.0 {
            let thread = thread_number();
            let cell = &cells[thread.min(OWN)].granted;
            if thread < OWN {
                // Only this thread writes here.
                cell.store(cell.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
            } else {
                cell.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    #[inline]
    pub(crate) fn denied(&self) {
        if let Some(cells) = &self.0 {
            count(cells, |cell| &cell.denied);
        }
    }

    pub(crate) fn are_counted(&self) -> bool {
        self.0.is_some()
    }

    /// The numbers of granted and refused demands so far.
    pub(crate) fn sum(&self) -> (u64, u64) {
        let cells = self.0.iter().flat_map(|cells| cells.iter());
        cells.fold((0, 0), |(granted, denied), cell| {
            (
                granted + cell.granted.load(Ordering::Relaxed),
                denied + cell.denied.load(Ordering::Relaxed),
            )
        })
    }
}

#[inline(always)]
fn count(cells: &[Cells; OWN + 1], of: impl Fn(&Cells) -> &AtomicU64) {
    // One comparison distinguishes threads with a cell of their own from all others, including those without a number.
    match cells[..OWN].get(NUMBER.get()) {
        Some(cell) => add_alone(of(cell)),
        None => count_shared(cells, of),
    }
}

/// For a cell that only this thread writes.
#[inline(always)]
fn add_alone(cell: &AtomicU64) {
    cell.store(cell.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

#[cold]
#[inline(never)]
fn count_shared(cells: &[Cells; OWN + 1], of: impl Fn(&Cells) -> &AtomicU64) {
    match thread_number() {
        own @ 0..OWN => add_alone(of(&cells[own])),
        _ => {
            of(&cells[OWN]).fetch_add(1, Ordering::Relaxed);
        }
    }
}

const UNKNOWN: usize = usize::MAX;

thread_local! {
    /// Without a destructor, so that reading it is a single load.
    static NUMBER: Cell<usize> = const { Cell::new(UNKNOWN) };
    /// Releases the number when the thread ends.
    static HOLDER: Holder = const { Holder };
}

/// The lowest number that no living thread has.
fn thread_number() -> usize {
    let number = NUMBER.get();
    if number == UNKNOWN {
        take_number()
    } else {
        number
    }
}

/// Numbers in use, as bits. Threads beyond the bits share the last cell anyway.
static TAKEN: Mutex<u64> = Mutex::new(0);

struct Holder;

#[cold]
fn take_number() -> usize {
    // A thread that is being torn down can no longer release a number, so it gets none.
    let alive = HOLDER.try_with(|_| ()).is_ok();
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut number = (*taken).trailing_ones() as usize;
    if alive && number < OWN {
        *taken |= 1 << number;
    } else {
        number = OWN;
    }
    if alive {
        NUMBER.set(number);
    }
    number
}

impl Drop for Holder {
    fn drop(&mut self) {
        let number = NUMBER.replace(OWN);
        if number < OWN {
            // The lock orders this thread's last count before the next owner's first.
            *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) &= !(1 << number);
        }
    }
}
