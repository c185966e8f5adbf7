//! Several limiters asked at once: all grant, or none.
//!
//! This is the one place in which that is decided, for [`All`](crate::All), for [`Provider`](crate::kinds::Provider), and for
//! whoever else has a [list](List) of limiters and of what is asked of each.
//!
//! # Deciding
//!
//! Limiters that consist of others are taken apart, so a list consists of gates and of limiters of which nothing is known. One
//! that is there several times is asked once, for the sum.
//!
//! A gate whose state is in its word is taken from at once; if the rest does not grant, that is undone, which is exact for
//! every state that fits a word. Gates whose state is behind their lock are decided [together](transaction), with all of
//! their locks held: each is looked at, and only if all of them grant is anything taken. So nothing has to be undone of
//! which not everything could be undone, a warm-up or a count of refusals.
//!
//! # Waiting
//!
//! See [`wait`].

mod attempt;
mod leaves;
#[cfg(all(test, loom))]
mod model;
mod refusal;
mod reserve;
mod set;
mod transaction;
mod wait;

pub(crate) use attempt::{Taken, attempt};
pub(crate) use leaves::{Leaves, One, Part, Parts};
pub(crate) use refusal::{estimate, refuse, too_large, unexplained};
pub(crate) use reserve::{Reserved, reserve};
pub(crate) use set::Set;
pub(crate) use wait::{Left, Wait};

use crate::{Demand, Denied};

/// Limiters, and what is asked of each.
pub(crate) trait List<'a>: Copy {
    /// How many there are. Those that are asked elsewhere are the last.
    fn len(self) -> usize;

    fn member(self, index: usize) -> One<'a>;

    /// How many are not asked elsewhere.
    fn local(self) -> usize;

    /// Whether the state of one of them is behind its lock, where time does not step back: then a late reading of the clock
    /// is not the moment at which something is taken there.
    fn precise(self) -> bool;

    /// Whether all of them go by one clock.
    fn one_clock(self) -> bool;

    /// What is asked of one, if anything. It may be more than can be asked for.
    fn cost(self, index: usize) -> Option<u64>;

    /// Everything but the cost.
    fn like(self) -> Demand;

    /// Counts a refusal by one, beside what it counts itself.
    fn count_denied(self, refuser: usize);

    /// The refusal of one, with a name if it has none itself.
    fn name_refusal(self, index: usize, denied: Denied) -> Denied;

    /// What is asked of one, if anything. Call [`too_large`] before.
    #[inline]
    fn demand(self, index: usize) -> Option<Demand> {
        let cost = u32::try_from(self.cost(index)?).unwrap_or(u32::MAX);
        Some(Demand {
            cost,
            ..self.like()
        })
    }
}
