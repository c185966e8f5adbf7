//! The interface of a gate for demands on several limiters at once.
//!
//! The engine in [`together`](crate::together) uses gates through this trait alone, and gates do not depend on the
//! engine.

use std::sync::Arc;
use std::task::Waker;

use crate::grant::{Era, Shareable};
use crate::queue::{Since, Ticket};
use crate::stamp::Stamp;
use crate::unwind::Payload;
use crate::wakeups::Wakeups;
use crate::{Clock, Demand, Denied, Grant, Moment, Permit, Reason, Refusal};

/// A gate as one of several limiters, with any rule.
pub(crate) trait Joint: Shareable {
    fn to_arc(&self) -> Arc<dyn Joint>;

    fn clock(&self) -> &Clock;

    /// Whether permits are returned.
    fn gives_back(&self) -> bool;

    /// Whether its state is in its word.
    fn is_in_word(&self) -> bool;

    /// Whether undoing restores the state exactly.
    fn undoes_exactly(&self) -> bool;

    /// Takes by the word alone. A refusal is not counted.
    fn take_word(&self, now: Moment, cost: u64) -> Word;

    /// Whether its word grants. If not, the gate may still grant.
    fn has_room(&self, cost: u64) -> bool;

    /// Undoes a take by the word that was made a moment ago.
    fn undo_word(&self, exchange: Exchange, grant: Grant);

    /// Counts and explains a refusal by the word.
    fn note_word(&self, refusal: Refusal, word: u64, now: Moment, cost: u64) -> Denied;

    /// Counts and explains a refusal, if it would refuse. Otherwise it does nothing.
    fn note(&self, demand: Demand) -> Result<(), Denied>;

    /// Whether it would refuse, and for how long. It changes nothing.
    fn hint(&self, demand: Demand) -> Result<(), Denied>;

    /// One step of a [transaction](transaction): `rest` receives whether this gate grants, and decides for all. The
    /// tasks to wake are collected in `wakeups` for [`wake_all`](Self::wake_all), when all locks are free. A panic of
    /// the rule is passed on: the gates around this one must not be left in the middle of their step.
    fn step(
        &self,
        step: Step,
        wakeups: &mut Wakeups,
        rest: &mut dyn FnMut(bool) -> Decision,
    ) -> Result<Stepped, Payload>;

    /// Wakes the tasks of a transaction, and serves the remaining waiters.
    fn wake_all(&self, now: Moment, wakeups: &mut Wakeups);

    /// Lets the rule learn from time. Call it after a counted refusal, with no lock held.
    fn tick(&self, now: Moment);

    /// Joins the queue by age. `None` if there is no queue, and room by now.
    fn join(
        &self,
        demand: Demand,
        deadline: Moment,
        since: Since,
    ) -> Result<Option<Ticket>, Denied>;

    /// The status of a place. With a waker, its owner goes on waiting; without one, it takes if there is room, and is
    /// not woken.
    fn place(&self, ticket: Ticket, waker: Option<&Waker>) -> Place;

    /// Leaves a place.
    fn leave_place(&self, ticket: Ticket, cost: u64);

    /// The refusal of a waiter that lost its place.
    fn lost(&self, reason: Reason) -> Denied;

    /// The deadline of the owner of a place.
    fn deadline_of(&self, ticket: Ticket) -> Option<Moment>;

    /// The bound of the queue, if there is one.
    fn queue_bound(&self) -> Option<u64>;
}

/// The gate of one key of a [limit per key](crate::PerKey), to wait with. The key keeps its place in the table while
/// this exists.
pub(crate) struct KeyGate {
    // Before the lease: when the lease has ended, the gate is unused.
    pub(crate) gate: Arc<dyn Joint>,
    pub(crate) lease: Box<dyn KeyLease>,
}

/// Reports that another limiter has replaced the one behind a name. A waiter then asks that one, and keeps its age, its
/// deadline and its place.
pub trait WatchReplaced: Send + Sync {
    /// Returns whether the limiter was replaced. If not, `waker` is woken when it is.
    fn is_replaced(&self, waker: &Waker) -> bool;

    /// Wraps a permit of the limiter behind the name as a permit of the name.
    fn own(&self, permit: Permit<'static>) -> Permit<'static>;
}

/// A guard that is dropped when the gate of a key is no longer used outside its table.
pub(crate) trait KeyLease: Send + Sync {
    /// A permit of the key for a grant of its gate.
    fn permit(&self, grant: Grant, era: Era) -> Permit<'static>;
}

/// The answer of a word.
pub(crate) enum Word {
    Granted {
        timed: bool,
        exchange: Exchange,
    },
    Refused(Refusal, u64),
    /// No answer: the state is behind the lock.
    Parked,
}

/// A word before and after a take.
#[derive(Clone, Copy, Default)]
pub(crate) struct Exchange {
    pub(crate) before: u64,
    pub(crate) after: u64,
    /// The epoch in which both are valid.
    pub(crate) epoch: u64,
}

/// The demand on one gate in a transaction.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    pub(crate) now: Moment,
    pub(crate) demand: Demand,
    /// Its place in the queue, if it has waited.
    pub(crate) place: Option<Ticket>,
}

/// The result of a step of a transaction.
pub(crate) enum Stepped {
    /// Taken, at this moment: later than the one that was read if the state had seen a later one.
    Taken(Stamp),
    Left,
    /// This gate refused.
    Noted(Denied),
}

/// The decision of a transaction for one gate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    Take,
    Leave,
    /// This gate refused.
    Note,
}

/// The status of a place in a queue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Waiting,
    /// There is room.
    Offered,
    Lost {
        reason: Reason,
        /// Whether there was room: then it was lost because of the other members.
        offered: bool,
    },
}
