//! Several limiters asked at once: all grant, or none does.
//!
//! This is the only implementation of this, for [`All`](crate::All) and for other crates of this workspace: providers
//! of limiters by weight, the HTTP layer, limits from files. It is public for them, and not part of the stable
//! interface.
//!
//! ```
//! use plimsoll::together::{Group, Permits};
//! use plimsoll::{Concurrency, Demand, Gate, Limiter, TokenBucket};
//! use std::sync::Arc;
//!
//! let rate: Arc<dyn Limiter> = Arc::new(Gate::builder(TokenBucket::per_second(10)).name("bytes").build());
//! let slots: Arc<dyn Limiter> = Arc::new(Gate::builder(Concurrency::new(1)).name("slots").build());
//! let group = Group::new([(&rate, None, "bytes"), (&slots, None, "requests")]);
//!
//! // The cost for each use; the priority and the deadline are those of one demand.
//! let cost = |what| Some(if what == "bytes" { 6 } else { 1 });
//! let request = group.ask(Demand::of(1), cost);
//!
//! let mut permits = Permits::new();
//! request.try_acquire(&mut permits)?;
//! let denied = request.try_acquire(&mut Permits::new()).unwrap_err();
//! assert_eq!(denied.limiter(), Some("bytes"));
//! permits.undo();
//! assert_eq!(rate.snapshot().available(), 10);
//! # Ok::<(), plimsoll::Denied>(())
//! ```
//!
//! Limiters and keys that are known only when a request arrives are a list of [`Ask`]s. Nothing is allocated while they
//! grant:
//!
//! ```
//! use plimsoll::together::{Ask, Key, Permits};
//! use plimsoll::{Concurrency, Gate, Keyed, TokenBucket};
//!
//! let per_tenant: Keyed<String, _> = Keyed::new(TokenBucket::per_second(10));
//! let slots = Gate::builder(Concurrency::new(1)).name("slots").build();
//! let tenant = Key::new(&per_tenant, "red");
//! let asks = [Ask::key(&tenant, 4), Ask::limiter(&slots, 1)];
//!
//! let mut permits = Permits::new();
//! Ask::try_all(&asks, &mut permits).map_err(|refused| refused.denied)?;
//! let refused = Ask::try_all(&asks, &mut Permits::new()).unwrap_err();
//! assert_eq!((refused.index, refused.denied.limiter()), (1, Some("slots")));
//! assert!(per_tenant.estimate("red", 6).is_ok()); // charged once
//! # Ok::<(), plimsoll::Denied>(())
//! ```
//!
//! [`Waiting`] waits for such a list.
//!
//! # Exactness
//!
//! Limiters that consist of others are replaced by their members, so a list consists of gates and of opaque limiters. A
//! limiter or key that occurs several times is asked once, for the sum. A key gets a gate, unless it can be asked on
//! its own and undone exactly; its table creates the gate, and drops it when it is no longer used.
//!
//! A gate with its state in its word is taken from at once; if a later member refuses, that is undone, which is exact
//! for every state that fits a word. Gates with their state behind their lock are decided together, with all of their
//! locks held: each is examined, and only if all of them grant is anything taken. So nothing has to be undone that
//! could not be undone exactly, such as a warm-up or a count of refusals. Earlier grants of limiters that are not gates
//! are undone as exactly as the limiter can.
//!
//! # Waiting
//!
//! A request waits in the queue of each member that has refused it, with one age and one deadline, and holds nothing.
//! It is served when all of them have room at the same time. At the head of a queue, room is reserved for it if it is
//! the oldest request there that waits for several limiters. All gates agree on which request is the oldest, so that
//! one is served.
//!
//! Limiters of a file are names, with limiters behind them that replace each other. A waiting request is in the queue
//! of the current limiter. When another replaces it, the request asks that one, with the same age and deadline, and no
//! queue refuses it: neither because of its bound, nor because there is none, nor because the bound is smaller than
//! when the wait began.

mod acquire;
mod asks;
mod attempt;
mod behind;
mod each;
mod group;
mod keep;
mod left;
mod others;
mod permits;
mod refusal;
mod request;
mod reserve;
mod resolve;
mod set;
mod transaction;
mod wait;
mod waiting;
mod words;

pub use crate::blocking::wait as block_on;
pub use crate::joint::WatchReplaced;
pub use crate::limiter::{Parts, Target};
pub use asks::{Ask, AskKey, Key, may_wait};
pub(crate) use attempt::{Taken, attempt, attempt_open};
pub use group::Group;
pub(crate) use group::One;
pub use keep::reserve_shared;
use left::Left;
pub use permits::Permits;
pub(crate) use refusal::unexplained;
use refusal::{estimate, refuse, too_large};
pub use request::{Refuser, Request};
pub use reserve::Reserved;
use reserve::reserve;
use set::Set;
use wait::Wait;
pub use waiting::{Refused, Waiting};
pub(crate) use words::{ByWords, Open, take_words};

use crate::{Demand, Denied, Moment};

/// Limiters, and the cost for each.
pub(crate) trait List<'a>: Copy {
    /// The number of limiters. Those in stores are the last.
    fn len(self) -> usize;

    fn member(self, index: usize) -> One<'a>;

    /// The number of limiters that are not in stores.
    fn local(self) -> usize;

    /// Whether a member has its state behind its lock, where time does not step back: then a late reading of the clock
    /// is not the moment of the grant.
    fn precise(self) -> bool;

    /// Whether all of them use one clock.
    fn one_clock(self) -> bool;

    /// Whether all are gates on one clock, and few enough to be taken from by their words.
    fn is_few_words(self) -> bool;

    /// The cost for one member, if it is asked. It may exceed `u64::MAX`.
    fn cost(self, index: usize) -> Option<u128>;

    /// The demand without the cost.
    fn like(self) -> Demand;

    /// The remaining time of one member, if each has its own.
    fn own_left(self, index: usize, now: Moment) -> Option<Left>;

    /// Whether a refusal by one member ends the request at once.
    fn sheds(self, index: usize) -> bool;

    /// Counts a refusal by one member in the limiters it belongs to.
    fn count_denied(self, refuser: usize);

    /// The refusal of one member, with a name if it has none itself.
    fn name_refusal(self, index: usize, denied: Denied) -> Denied;

    /// The demand on one member, if it is asked. Call [`too_large`] before.
    #[inline]
    fn demand(self, index: usize) -> Option<Demand> {
        let cost = u64::try_from(self.cost(index)?).unwrap_or(u64::MAX);
        Some(Demand {
            cost,
            ..self.like()
        })
    }
}
