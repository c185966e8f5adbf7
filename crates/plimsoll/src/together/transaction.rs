//! Deciding over several gates in one instant.
//!
//! The gates are entered one inside the other, in the order of their addresses: all transactions use this order, so two
//! of them never deadlock. With all locks held, each gate is examined, and taken from only if all of them grant. Tasks
//! are woken when all locks are free.
//!
//! If a rule panics, no gate is left in the middle of its step: before the panic resumes, gates that have not taken
//! take nothing, other takes are undone, and tasks are woken.

use super::attempt::{Moments, decision};
use super::{List, Set};
use crate::joint::{Decision, Step, Stepped};
use crate::queue::Ticket;
use crate::stamp::Stamp;
use crate::unwind::{First, isolated};
use crate::wakeups::Wakeups;
use crate::{Denied, Moment};

pub(super) enum TransactionOutcome {
    /// With the moments of takes that differ from the moment that was read.
    Taken(Vec<(usize, Stamp)>),
    /// The first gate in the order of the list that refused; and its refusal, if it was to be counted.
    Refused(usize, Option<Denied>),
}

pub(super) struct Transaction<'t, L> {
    list: L,
    /// The gates that take part.
    gates: &'t Set,
    moments: &'t Moments,
    places: &'t dyn Fn(usize) -> Option<Ticket>,
    note: bool,
    /// The first gate in the order of the list that has refused.
    refuser: Option<usize>,
    denied: Option<Denied>,
    /// The gates that were taken from, and the moments of takes that differ from the moment that was read.
    taken: Set,
    stamps: Vec<(usize, Stamp)>,
    /// The tasks that each gate has to wake, when all locks are free.
    wakeups: Vec<(usize, Wakeups)>,
    panic: First,
}

impl<'a, 't, L: List<'a>> Transaction<'t, L> {
    pub(super) fn new(list: L, gates: &'t Set, moments: &'t Moments, note: bool) -> Self {
        Self {
            list,
            gates,
            moments,
            places: &|_| None,
            note,
            refuser: None,
            denied: None,
            taken: Set::default(),
            stamps: Vec::new(),
            wakeups: Vec::new(),
            panic: First::default(),
        }
    }

    /// Runs it for a request with these places in the queues of the gates.
    pub(super) fn from(mut self, places: &'t dyn Fn(usize) -> Option<Ticket>) -> Self {
        self.places = places;
        self
    }

    pub(super) fn run(mut self) -> TransactionOutcome {
        self.enter(0);
        if self.panic.is_some() {
            self.undo();
        }
        for (index, mut wakeups) in std::mem::take(&mut self.wakeups) {
            if let Some(gate) = self.list.member(index).gate() {
                gate.wake_all(self.moments.of(index), &mut wakeups);
            }
        }
        self.panic.resume();
        let Some(refuser) = self.refuser else {
            return TransactionOutcome::Taken(self.stamps);
        };
        if self.denied.is_some()
            && let Some(gate) = self.list.member(refuser).gate()
        {
            gate.tick(self.moments.of(refuser));
        }
        TransactionOutcome::Refused(refuser, self.denied)
    }

    /// Enters the gates with addresses above `last`, examines each, and leaves them with the decision.
    fn enter(&mut self, last: usize) {
        let gates = (0..self.list.local()).filter(|&index| self.gates.contains(index));
        let addresses = gates.map(|index| (self.list.member(index).address(), index));
        let Some((address, index)) = addresses.filter(|(address, _)| *address > last).min() else {
            return;
        };
        let (Some(gate), Some(demand)) = (self.list.member(index).gate(), self.list.demand(index))
        else {
            return self.enter(address);
        };
        let step = Step {
            now: self.now(index),
            demand,
            place: (self.places)(index),
        };
        let mut wakeups = Wakeups::default();
        let stepped = gate.step(step, &mut wakeups, &mut |grants| {
            if !grants && self.refuser.is_none_or(|refuser| index < refuser) {
                self.refuser = Some(index);
            }
            self.enter(address);
            if self.panic.is_some() {
                Decision::Leave
            } else {
                decision(self.refuser, index, self.note)
            }
        });
        match stepped {
            Ok(Stepped::Taken(stamp)) => {
                self.taken.insert(index);
                if stamp != Stamp::at(self.moments.of(index)) {
                    self.stamps.push((index, stamp));
                }
            }
            Ok(Stepped::Noted(denied)) => self.denied = Some(denied),
            Ok(Stepped::Left) => {}
            Err(panic) => self.panic.keep(panic),
        }
        if !wakeups.is_empty() {
            self.wakeups.push((index, wakeups));
        }
    }

    /// The moment of the decision of a gate. Under its lock reading the clock costs little, and no demand should be
    /// refused because the clock is late.
    fn now(&self, index: usize) -> Moment {
        match self.list.member(index).gate() {
            Some(gate) if self.moments.are_late() && !gate.gives_back() => {
                gate.clock().precise_now()
            }
            _ => self.moments.of(index),
        }
    }

    /// Undoes all takes, after a panic.
    #[cold]
    fn undo(&mut self) {
        // Gates that do not receive the answer have not refused.
        self.refuser = self.refuser.or(Some(0));
        self.denied = None;
        for index in (0..self.list.local()).filter(|&index| self.taken.contains(index)) {
            let (Some(gate), Some(demand)) =
                (self.list.member(index).gate(), self.list.demand(index))
            else {
                continue;
            };
            let other = self.stamps.iter().find(|(of, _)| *of == index);
            let stamp = other.map_or_else(|| Stamp::at(self.moments.of(index)), |(_, it)| *it);
            let grant = demand.granted(stamp.at);
            if let Err(panic) = isolated(|| gate.undo_of(grant, true, stamp.era)) {
                self.panic.keep(panic);
            }
        }
    }
}
