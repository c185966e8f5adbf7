use crate::Reason;
use crate::stamp::Stamp;

/// A place in the queue.
///
/// Places are reused; the generation distinguishes a new owner from an old one. A generation is never used twice: an
/// owner may read the status of its place after any number of later owners.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Ticket {
    pub(super) index: u32,
    pub(super) generation: u64,
}

impl Ticket {
    /// The number of the place.
    #[inline]
    pub(crate) const fn index(self) -> usize {
        self.index as usize
    }

    /// The number of earlier owners of the place.
    #[inline]
    pub(crate) const fn generation(self) -> u64 {
        self.generation
    }
}

/// The order of demands that wait for several limiters: the same in every queue. A demand for one limiter has
/// [none](Self::NONE).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Age(pub(crate) u64);

impl Age {
    pub(crate) const NONE: Self = Self(0);
}

/// The status of a waiter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    Waiting,
    Granted(Stamp),
    Refused(Reason),
}
