//! The limiter of a permit, and its remaining operations.

use std::sync::Arc;

use crate::grant::{NoSource, Shareable, Source};

/// The remaining operations of a permit, in one byte.
///
/// Every way to end a permit checks and clears [`ALIVE`](Self::ALIVE), so that it ends once.
#[derive(Clone, Copy)]
pub(super) struct Flags(pub(super) u8);

impl Flags {
    /// Not yet returned, undone or forgotten.
    pub(super) const ALIVE: u8 = 1;
    /// While it is alive, dropping it returns it. Cleared together with `ALIVE`.
    pub(super) const RETURNS: u8 = 2;
    /// The permit is a whole grant, and not a part that was split off.
    pub(super) const WHOLE: u8 = 4;

    #[inline]
    pub(super) const fn has(self, flag: u8) -> bool {
        self.0 & flag != 0
    }

    /// Ends the permit; returns whether it was alive.
    #[inline]
    pub(super) fn end(&mut self) -> bool {
        let alive = self.has(Self::ALIVE);
        self.0 &= Self::WHOLE;
        alive
    }

    #[inline]
    pub(super) const fn of_part(self) -> Self {
        Self(self.0 & !Self::WHOLE)
    }
}

/// The limiter that a permit came from.
pub(super) enum Origin<'a> {
    Borrowed(&'a dyn Shareable),
    Shared(Arc<dyn Source>),
    /// The permit does not know its limiter; only `Permit::undo_by` reaches it.
    Unknown,
}

impl Origin<'_> {
    #[inline]
    pub(super) fn get(&self) -> &dyn Source {
        match self {
            Self::Borrowed(source) => *source,
            Self::Shared(source) => &**source,
            Self::Unknown => &NoSource,
        }
    }

    /// Whether both are known to be the same.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let known = !matches!(self, Self::Unknown) && !matches!(other, Self::Unknown);
        known && std::ptr::addr_eq(self.get(), other.get())
    }
}
