//! Several limiters asked at once: all grant, or none does.
//!
//! This is the one place in which that is decided, for [`All`](crate::All) and for other crates of this workspace: providers
//! of limiters by weight, the HTTP layer, limits from files. It is public for them, and not part of the stable interface.
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
//! // What each use costs this time; the priority and the deadline are those of one demand.
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
//! Limiters and keys that are known only when a request comes are a list of [`Ask`]s. Nothing is allocated while they grant:
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
//! # What is exact
//!
//! Limiters that consist of others are replaced by their members, so a list consists of gates and of limiters of which
//! nothing is known. A limiter or key that occurs several times is asked once, for the sum. A key is a gate here where more
//! is needed than to ask it alone and to undo that exactly: its table makes one, and forgets it when nobody uses it.
//!
//! A gate whose state is in its word is taken from at once; if a later member refuses, that is undone, which is exact for
//! every state that fits a word. Gates whose state is behind their lock are decided together, with all of
//! their locks held: each is looked at, and only if all of them grant is anything taken. So nothing has to be undone that
//! could not be undone exactly, such as a warm-up or a count of refusals. Of limiters that are not gates, an earlier grant
//! is undone as well as the limiter can.
//!
//! # Waiting
//!
//! A request waits in the queue of each member that has refused it, with one age and one deadline, and holds nothing. It
//! is served when all of them have room at once. Where it is at the front of a queue, room is reserved for it if it is the
//! oldest request there that waits for several limiters; all gates agree on which is the oldest, so that one is served.
//!
//! Limiters of a file are names, behind which limiters replace each other. A request that waits is in the queue of the
//! limiter that stands there. When another replaces it, the request asks that one, with the same age and deadline, and no
//! queue refuses it any more: neither for its bound nor because there is none. Nor does a queue whose bound is smaller
//! than it was when the wait began.

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

/// Limiters, and what is asked of each.
pub(crate) trait List<'a>: Copy {
    /// How many there are. Those in stores are the last.
    fn len(self) -> usize;

    fn member(self, index: usize) -> One<'a>;

    /// How many are not in stores.
    fn local(self) -> usize;

    /// Whether the state of one of them is behind its lock, where time does not step back: then a late reading of the clock
    /// is not the moment at which something is taken there.
    fn precise(self) -> bool;

    /// Whether all of them go by one clock.
    fn one_clock(self) -> bool;

    /// Whether all are gates on one clock, so few that their words can be taken from at one go.
    fn is_few_words(self) -> bool;

    /// What is asked of one, if anything. It may be more than can be asked for.
    fn cost(self, index: usize) -> Option<u128>;

    /// Everything but the cost.
    fn like(self) -> Demand;

    /// The time one has left, if each says so for itself.
    fn own_left(self, index: usize, now: Moment) -> Option<Left>;

    /// Whether one is not waited for.
    fn sheds(self, index: usize) -> bool;

    /// Counts a refusal by one, beside what it counts itself.
    fn count_denied(self, refuser: usize);

    /// The refusal of one, with a name if it has none itself.
    fn name_refusal(self, index: usize, denied: Denied) -> Denied;

    /// What is asked of one, if anything. Call [`too_large`] before.
    #[inline]
    fn demand(self, index: usize) -> Option<Demand> {
        let cost = u64::try_from(self.cost(index)?).unwrap_or(u64::MAX);
        Some(Demand {
            cost,
            ..self.like()
        })
    }
}
