//! Deciding over several gates in one instant.
//!
//! The gates are entered one inside the other, in the order of their addresses: no other order is used by anybody, so two
//! transactions never wait for each other. Under all locks each gate is looked at, and taken from only if all of them
//! grant. Whoever is to be woken is woken when all locks are free.

use super::attempt::{Moments, decision};
use super::{List, Set, Step, Stepped};
use crate::Denied;
use crate::gate::Stamp;
use crate::gate::woken::Woken;
use crate::queue::Ticket;

pub(super) enum Verdict {
    Taken,
    /// Who refused, first in the order of the list; and what it says, if the refusal was to be noted.
    Refused(usize, Option<Denied>),
}

pub(super) struct Transaction<'t, L> {
    list: L,
    /// The gates that take part.
    gates: &'t Set,
    moments: &'t Moments,
    places: &'t dyn Fn(usize) -> Option<Ticket>,
    note: bool,
    /// Who of them has refused, the first in the order of the list.
    refuser: Option<usize>,
    denied: Option<Denied>,
    /// When something was taken, where that is not the moment that was read.
    pub(super) stamps: Vec<(usize, Stamp)>,
    /// Whom each gate has to wake, when all locks are free.
    woken: Vec<(usize, Woken)>,
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
            stamps: Vec::new(),
            woken: Vec::new(),
        }
    }

    /// By one who has these places in their queues.
    pub(super) fn from(mut self, places: &'t dyn Fn(usize) -> Option<Ticket>) -> Self {
        self.places = places;
        self
    }

    pub(super) fn run(&mut self) -> Verdict {
        self.enter(0);
        for (index, mut woken) in self.woken.drain(..) {
            if let Some(gate) = self.list.member(index).gate {
                gate.wake_all(self.moments.of(index), &mut woken);
            }
        }
        let Some(refuser) = self.refuser else {
            return Verdict::Taken;
        };
        if self.denied.is_some()
            && let Some(gate) = self.list.member(refuser).gate
        {
            gate.tick(self.moments.of(refuser));
        }
        Verdict::Refused(refuser, self.denied.take())
    }

    /// Enters the gates behind the address `last`, looks at each, and leaves them with the decision.
    fn enter(&mut self, last: usize) {
        let gates = (0..self.list.local()).filter(|&index| self.gates.contains(index));
        let addresses = gates.map(|index| (self.list.member(index).address(), index));
        let Some((address, index)) = addresses.filter(|(address, _)| *address > last).min() else {
            return;
        };
        let (Some(gate), Some(demand)) = (self.list.member(index).gate, self.list.demand(index))
        else {
            return self.enter(address);
        };
        let step = Step {
            now: self.moments.of(index),
            demand,
            place: (self.places)(index),
        };
        let mut woken = Woken::default();
        let stepped = gate.step(step, &mut woken, &mut |grants| {
            if !grants && self.refuser.is_none_or(|refuser| index < refuser) {
                self.refuser = Some(index);
            }
            self.enter(address);
            decision(self.refuser, index, self.note)
        });
        match stepped {
            Stepped::Taken(stamp) if stamp != Stamp::at(step.now) => {
                self.stamps.push((index, stamp));
            }
            Stepped::Noted(denied) => self.denied = Some(denied),
            Stepped::Taken(_) | Stepped::Left => {}
        }
        if !woken.is_empty() {
            self.woken.push((index, woken));
        }
    }
}
