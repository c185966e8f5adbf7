//! Changing limiters in place, by their type.

use std::cell::Cell;

use plimsoll::{Carry, Concurrency, Gate, Keyed, Permit, Queue, Rule};
use plimsoll_policy::SubjectState;

use plimsoll_spec::{AdaptiveRule, AnyRate, AnyState, InvalidSpec, Kind};

use super::keyed::Text;
use super::saved::{Before, Saved};
use super::stores::Stores;
use crate::check::Definition;

/// A prepared change, which can no longer fail.
pub(super) type Prepared = Box<dyn FnOnce()>;

/// Operations on a running limiter that depend on its type: changing, pausing, saving and restoring it.
pub(super) trait ChangeInPlace: Send + Sync {
    /// Whether it can be changed to `to` in place.
    fn is_possible(&self, to: &Definition) -> bool {
        let _ = to;
        false
    }

    /// For limits in a store: prepares the change to `to`. `None` for others, which [`change`](Self::change) changes.
    fn prepare(&self, to: &Definition, stores: &Stores) -> Result<Option<Prepared>, String> {
        let _ = (to, stores);
        Ok(None)
    }

    /// Changes everything but its queue.
    fn change(&self, from: &Definition, to: &Definition) {
        let _ = (from, to);
    }

    fn set_queue(&self, queue: Option<Queue>) {
        let _ = queue;
    }

    /// The entry in its store: of a key, or of all callers if there is no key. `None` if it is in memory.
    #[cfg(feature = "redis")]
    fn fleet_key(&self, key: Option<&str>) -> Option<plimsoll_redis::FleetKey> {
        let _ = key;
        None
    }

    /// Pauses it: it grants nothing, to callers or waiters, until it is resumed. Its usage does not change meanwhile.
    fn pause(&self) {}

    fn resume(&self) {}

    /// The records of one part of its state, with the name and the description of the limiter. `None` after the last part.
    fn save(&self, limiter: &str, kind: &Kind, part: usize) -> Option<Vec<Saved>> {
        let _ = (limiter, kind, part);
        None
    }

    /// Restores its state. Returns whether it could.
    fn restore(&self, state: &AnyState, before: &Before) -> bool {
        let _ = (state, before);
        false
    }

    /// Restores the state of a key. Returns whether it could.
    fn restore_key(&self, key: &str, state: &AnyState, before: &Before) -> bool {
        let _ = (key, state, before);
        false
    }

    /// Restores the state of a subject of policies. Returns whether it could.
    fn restore_subject(&self, key: &str, state: SubjectState) -> bool {
        let _ = (key, state);
        false
    }

    /// Takes `cost` for permits that are in use already, ahead of waiters and regardless of the limit.
    fn occupy(&self, cost: u64) -> Option<Permit<'static>> {
        let _ = cost;
        None
    }
}

pub(super) struct Fixed;

impl ChangeInPlace for Fixed {}

/// Whether `to` is in memory, and has keys if `keyed`.
pub(super) fn in_memory(to: &Definition, keyed: bool) -> bool {
    to.is_keyed() == keyed && to.limiter.common.store.is_none()
}

pub(super) struct RateGate(pub(super) Gate<AnyRate>);

impl ChangeInPlace for RateGate {
    fn is_possible(&self, to: &Definition) -> bool {
        in_memory(to, false) && to.limiter.kind.is_rate()
    }

    fn change(&self, from: &Definition, to: &Definition) {
        if let Some(Ok(rule)) = changed(from, to) {
            self.0.replace(rule, CARRY);
        }
    }

    fn set_queue(&self, queue: Option<Queue>) {
        self.0.set_queue(queue);
    }

    fn pause(&self) {
        self.0.pause();
    }

    fn resume(&self) {
        self.0.resume();
    }

    fn save(&self, limiter: &str, kind: &Kind, part: usize) -> Option<Vec<Saved>> {
        (part == 0).then(|| {
            let (began, state) = self.0.kept();
            vec![Saved::Rate {
                limiter: limiter.to_owned(),
                kind: kind.clone(),
                began,
                state,
            }]
        })
    }

    fn restore(&self, state: &AnyState, before: &Before) -> bool {
        let mut restored = false;
        self.0.restore(|rule, now| {
            let state = before.state(rule, state, now);
            restored = state.is_some();
            state.unwrap_or_else(|| rule.fresh_key(now))
        });
        restored
    }
}

/// Usage is carried over, including debts.
const CARRY: Carry = Carry::Used;

/// The rule of `to`, if it differs from that of `from`.
fn changed(from: &Definition, to: &Definition) -> Option<Result<AnyRate, InvalidSpec>> {
    (from.limiter.kind != to.limiter.kind).then(|| to.limiter.kind.any_rate())?
}

pub(super) struct Slots(pub(super) Gate<Concurrency>);

impl ChangeInPlace for Slots {
    fn is_possible(&self, to: &Definition) -> bool {
        in_memory(to, false) && matches!(to.limiter.kind, Kind::Concurrency { .. })
    }

    fn change(&self, _from: &Definition, to: &Definition) {
        if let Kind::Concurrency { limit, .. } = &to.limiter.kind {
            // The file was checked: it is not 0.
            let _ = self.0.resize(limit.0);
        }
    }

    fn set_queue(&self, queue: Option<Queue>) {
        self.0.set_queue(queue);
    }

    fn pause(&self) {
        self.0.pause();
    }

    fn resume(&self) {
        self.0.resume();
    }

    fn occupy(&self, cost: u64) -> Option<Permit<'static>> {
        Some(self.0.occupy(cost).into_owned())
    }

    fn save(&self, limiter: &str, _: &Kind, part: usize) -> Option<Vec<Saved>> {
        (part == 0).then(|| Saved::left_out(limiter, self.0.snapshot().in_use(), 0))
    }
}

pub(super) struct RateKeys(pub(super) Keyed<Text, AnyRate>);

impl ChangeInPlace for RateKeys {
    fn is_possible(&self, to: &Definition) -> bool {
        in_memory(to, true) && to.limiter.kind.is_rate()
    }

    fn change(&self, from: &Definition, to: &Definition) {
        if let Some(Ok(rule)) = changed(from, to) {
            self.0.replace(rule, CARRY);
        }
        set_max_keys(&self.0, to);
    }

    fn set_queue(&self, queue: Option<Queue>) {
        self.0.set_queue(queue);
    }

    fn pause(&self) {
        self.0.pause();
    }

    fn resume(&self) {
        self.0.resume();
    }

    fn save(&self, limiter: &str, kind: &Kind, part: usize) -> Option<Vec<Saved>> {
        if part > self.0.parts() {
            return None;
        }
        let mut saved = Vec::new();
        match part.checked_sub(1) {
            None => saved.push(Saved::Keys {
                limiter: limiter.to_owned(),
                kind: kind.clone(),
                began: self.0.began(),
            }),
            Some(part) => self.0.kept(part, |key, state| {
                saved.push(Saved::Key(key.to_string(), state.clone()));
            }),
        }
        Some(saved)
    }

    fn restore_key(&self, key: &str, state: &AnyState, before: &Before) -> bool {
        let restored = Cell::new(false);
        let room = self.0.restore(key, |rule, now| {
            let state = before.state(rule, state, now);
            restored.set(state.is_some());
            state.unwrap_or_else(|| rule.fresh_key(now))
        });
        room.is_ok() && restored.get()
    }
}

fn set_max_keys<R: Rule + Clone>(keys: &Keyed<Text, R>, to: &Definition) {
    if let Some(most) = to.limiter.common.max_keys {
        // It was checked that it is not 0.
        let _ = keys.set_max_keys(usize::try_from(most.0).unwrap_or(usize::MAX));
    }
}

pub(super) struct SlotKeys(pub(super) Keyed<Text, Concurrency>);

impl ChangeInPlace for SlotKeys {
    fn is_possible(&self, to: &Definition) -> bool {
        in_memory(to, true) && matches!(to.limiter.kind, Kind::Concurrency { .. })
    }

    fn change(&self, _from: &Definition, to: &Definition) {
        if let Kind::Concurrency { limit, .. } = &to.limiter.kind {
            // The file was checked: it is not 0.
            let _ = self.0.resize(limit.0);
        }
        set_max_keys(&self.0, to);
    }

    fn set_queue(&self, queue: Option<Queue>) {
        self.0.set_queue(queue);
    }

    fn pause(&self) {
        self.0.pause();
    }

    fn resume(&self) {
        self.0.resume();
    }

    fn save(&self, limiter: &str, _: &Kind, part: usize) -> Option<Vec<Saved>> {
        (part == 0).then(|| Saved::left_out(limiter, self.0.snapshot().in_use(), 0))
    }
}

/// The queue of an adaptive gate can be changed in place; its algorithm and its parameters cannot.
pub(super) struct AdaptiveGate(pub(super) Gate<AdaptiveRule>, pub(super) Kind);

impl ChangeInPlace for AdaptiveGate {
    fn is_possible(&self, to: &Definition) -> bool {
        in_memory(to, false) && to.limiter.kind == self.1
    }

    fn set_queue(&self, queue: Option<Queue>) {
        self.0.set_queue(queue);
    }

    fn occupy(&self, cost: u64) -> Option<Permit<'static>> {
        Some(self.0.occupy(cost).into_owned())
    }

    fn pause(&self) {
        self.0.pause();
    }

    fn resume(&self) {
        self.0.resume();
    }

    fn save(&self, limiter: &str, _: &Kind, part: usize) -> Option<Vec<Saved>> {
        (part == 0).then(|| {
            let seen = self.0.snapshot();
            let mut saved = Saved::left_out(limiter, seen.in_use(), 0);
            saved.push(Saved::Learned {
                limiter: limiter.to_owned(),
                limit: seen.limit(),
            });
            saved
        })
    }
}

/// The queue and the bound of adaptive keys can be changed in place. Another algorithm needs new keys, which start to
/// learn from the beginning.
pub(super) struct AdaptiveKeys(pub(super) Keyed<Text, AdaptiveRule>, pub(super) Kind);

impl ChangeInPlace for AdaptiveKeys {
    fn is_possible(&self, to: &Definition) -> bool {
        in_memory(to, true) && to.limiter.kind == self.1
    }

    fn change(&self, _from: &Definition, to: &Definition) {
        set_max_keys(&self.0, to);
    }

    fn set_queue(&self, queue: Option<Queue>) {
        self.0.set_queue(queue);
    }

    fn pause(&self) {
        self.0.pause();
    }

    fn resume(&self) {
        self.0.resume();
    }

    fn save(&self, limiter: &str, _: &Kind, part: usize) -> Option<Vec<Saved>> {
        let keys = &self.0;
        (part == 0).then(|| Saved::left_out(limiter, keys.snapshot().in_use(), keys.len()))
    }
}
