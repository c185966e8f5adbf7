//! What a gate lets those do who ask several limiters at once.
//!
//! The engine in [`together`](crate::together) knows gates by this trait alone, and gates know nothing of the engine.

use std::sync::Arc;
use std::task::Waker;

use crate::grant::{Era, Shareable};
use crate::queue::{Since, Ticket};
use crate::stamp::Stamp;
use crate::unwind::Payload;
use crate::wakeups::Wakeups;
use crate::{Clock, Demand, Denied, Grant, Moment, Permit, Reason, Refusal};

/// A gate as one of several limiters, whatever its rule.
pub(crate) trait Joint: Shareable {
    fn to_arc(&self) -> Arc<dyn Joint>;

    fn clock(&self) -> &Clock;

    /// Whether permits are returned.
    fn gives_back(&self) -> bool;

    /// Whether its state is in its word.
    fn is_in_word(&self) -> bool;

    /// Whether undoing leaves no trace.
    fn undoes_exactly(&self) -> bool;

    /// Takes by the word alone. A refusal is not counted.
    fn take_word(&self, now: Moment, cost: u64) -> Word;

    /// Whether its word grants. If not, it may all the same.
    fn has_room(&self, cost: u64) -> bool;

    /// As if that had not been taken by the word, a moment ago.
    fn undo_word(&self, exchange: Exchange, grant: Grant);

    /// Counts and explains a refusal by the word.
    fn note_word(&self, refusal: Refusal, word: u64, now: Moment, cost: u64) -> Denied;

    /// Counts and explains a refusal, if it would refuse. Otherwise nothing happens.
    fn note(&self, demand: Demand) -> Result<(), Denied>;

    /// Whether it would refuse and for how long. It is only looked at.
    fn hint(&self, demand: Demand) -> Result<(), Denied>;

    /// One step of a [transaction](transaction): `rest` receives whether this gate grants, and decides for all. Whoever is
    /// to be woken is left in `wakeups` for [`wake_all`](Self::wake_all), when all locks are free. A panic of the rule is
    /// handed over: the gates around this one must not be left in the middle of their step.
    fn step(
        &self,
        step: Step,
        wakeups: &mut Wakeups,
        rest: &mut dyn FnMut(bool) -> Decision,
    ) -> Result<Stepped, Payload>;

    /// Wakes those whom a transaction left, and goes on serving where it could not.
    fn wake_all(&self, now: Moment, wakeups: &mut Wakeups);

    /// To be called after a refusal that was counted, with no lock held.
    fn tick(&self, now: Moment);

    /// Joins the queue by age. `None` if there is none, and room by now.
    fn join(
        &self,
        demand: Demand,
        deadline: Moment,
        since: Since,
    ) -> Result<Option<Ticket>, Denied>;

    /// What has become of a place. With a waker its owner waits on; without, it takes if there is room, and then need not
    /// be woken.
    fn place(&self, ticket: Ticket, waker: Option<&Waker>) -> Place;

    /// Gives a place up.
    fn leave_place(&self, ticket: Ticket, cost: u64);

    /// The refusal of one who lost its place.
    fn lost(&self, reason: Reason) -> Denied;

    /// When the owner of a place is refused at the latest.
    fn deadline_of(&self, ticket: Ticket) -> Option<Moment>;

    /// How many may wait, if anybody may.
    fn queue_bound(&self) -> Option<u64>;
}

/// The gate of one key of a [limit per key](crate::PerKey), to wait with. The key keeps its place in the table while this
/// exists.
pub(crate) struct KeyGate {
    // Before the lease: whoever hears that the lease has ended finds the gate unused.
    pub(crate) gate: Arc<dyn Joint>,
    pub(crate) lease: Box<dyn KeyLease>,
}

/// Tells whether another limiter stands behind a name by now. Whoever waits asks that one then, and keeps its age, its
/// deadline and its place.
pub trait WatchReplaced: Send + Sync {
    /// Whether that has happened. If not, `waker` is woken when it does.
    fn is_replaced(&self, waker: &Waker) -> bool;

    /// The permit of the name, for what the limiter behind it granted.
    fn own(&self, permit: Permit<'static>) -> Permit<'static>;
}

/// What ends when the gate of a key is no longer used outside its table.
pub(crate) trait KeyLease: Send + Sync {
    /// A permit of the key for what its gate granted.
    fn permit(&self, grant: Grant, era: Era) -> Permit<'static>;
}

/// What a word says.
pub(crate) enum Word {
    Granted {
        timed: bool,
        exchange: Exchange,
    },
    Refused(Refusal, u64),
    /// Nothing: the state is behind the lock.
    Parked,
}

/// What a word was before something was taken from it, and after.
#[derive(Clone, Copy, Default)]
pub(crate) struct Exchange {
    pub(crate) before: u64,
    pub(crate) after: u64,
    /// The epoch for which both are good.
    pub(crate) epoch: u64,
}

/// What a gate is asked in a transaction.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    pub(crate) now: Moment,
    pub(crate) demand: Demand,
    /// Its place in the queue, of one who has waited.
    pub(crate) place: Option<Ticket>,
}

/// What a step of a transaction came to.
pub(crate) enum Stepped {
    /// Taken, at this moment: that of others who were there first, if they had read a later one.
    Taken(Stamp),
    Left,
    /// The refusal is this gate's.
    Noted(Denied),
}

/// What a transaction comes to, for one gate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    Take,
    Leave,
    /// The refusal is this gate's.
    Note,
}

/// What has become of a place in a queue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Waiting,
    /// There is room.
    Offered,
    Lost {
        reason: Reason,
        /// Whether there was room: then it was lost because of the others.
        offered: bool,
    },
}
