//! The one step in which a key is found or inserted, decided on and recorded, under the lock of its shard.
//!
//! Every method of a keyed limit uses this step. A key with its state in the table is decided on directly. If the key
//! has a gate, the step returns a [`Lease`] of it, to be asked when the lock is free: a gate wakes tasks, and a woken
//! task may lock the same shard.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::sync::MutexGuard;

use super::key_gate::{Gates, Lease};
use super::shared::Shared;
use super::short::Asked;
use super::starts::granted;
use super::table::{Found, Table};
use super::wide::{What, Wide, place, store};
use crate::stamp::Stamp;
use crate::{Demand, Denied, Moment, Packed, PackedTake, Reason, Refusal, Rule};

/// The part of a key that an operation works on.
pub(super) struct Turn<'a, R: Rule> {
    pub(super) rule: &'a R,
    pub(super) state: &'a mut R::State,
    pub(super) now: Moment,
    pub(super) closed: bool,
    /// The start of the state, if it matters.
    began: Option<Stamp>,
}

impl<R: Rule> Turn<'_, R> {
    /// The stamp of the grant that was just made.
    pub(super) fn stamp(&self) -> Stamp {
        granted(self.began, self.rule.recorded_at(self.state, self.now))
    }
}

/// The result of an operation.
pub(super) enum Done<T> {
    Answer(T),
    /// It needs a queue, or a limiter that outlives the step.
    NeedsGate,
}

/// The result of a step.
pub(super) enum Step<T, R: Rule> {
    Done(T),
    /// The key has a gate, which the caller must ask.
    Gate(Lease<R>),
}

/// What is known of a key in addition to its state.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    pub(super) now: Moment,
    /// Whether the key is known; if not, the state is that of a new key.
    pub(super) known: bool,
    pub(super) closed: bool,
}

/// What happens to a demand that does not fit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// It is refused, which the rule may remember.
    Try,
    /// It leaves no trace: it will ask again, and wait.
    Attempt,
    /// It joins the queue of the key.
    Wait,
}

/// The result of a demand under the lock of a shard.
pub(super) enum Decided<R: Rule> {
    Granted(Stamp),
    /// The key has a gate, which decides.
    Ask(Lease<R>),
}

impl<K: Hash + Eq, R: Rule + Clone, S: BuildHasher> Shared<K, R, S> {
    /// Decides a demand.
    pub(super) fn decide<Q>(
        &self,
        key: &Q,
        demand: Demand,
        Asked { now, .. }: Asked,
        how: How,
    ) -> Result<Decided<R>, Denied>
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Hash + Eq + ToOwned + ?Sized,
    {
        self.sweep_now_and_then(now);
        let (shard, hash) = self.locate(key);
        let mut table = self.locked(shard, now);
        let heard = table.heard();
        if table.closed {
            let view = table.view(hash, key, now, |rule, state, seen| {
                self.closed(rule, state, seen.now)
            });
            drop(table);
            return match view {
                Step::Done(denied) => self.tell_refused(heard, key, demand, how, denied),
                Step::Gate(lease) => Ok(Decided::Ask(lease)),
            };
        }
        if table.starts.end(now) {
            table.open_fast_path();
        }
        let now = table.starts.not_before(now);
        let began = table.starts.of_key(None, false);
        if !R::RETURNS_PERMITS && demand.cost > 0 && heard.is_none() {
            match table.find(hash, key) {
                Some(Found::Word(rule, word)) => {
                    match R::Fast::take_packed(rule, word.get(), now, demand.cost) {
                        PackedTake::Taken(next) => {
                            word.set(next);
                            return Ok(Decided::Granted(granted(began, now)));
                        }
                        PackedTake::Refused(refusal) if demand.cost == 1 && how != How::Wait => {
                            return Err(self.denied(rule, refusal, now, 0));
                        }
                        _ => {}
                    }
                }
                Some(Found::Wide(..)) => {}
                None => {
                    let inserted = self.insert_short(&mut table, hash, key, now, demand.cost);
                    if let Some((at, _)) = inserted {
                        return Ok(Decided::Granted(granted(began, at)));
                    }
                }
            }
        }
        let step = self.step_in(table, (shard, hash), key, now, |turn| {
            match self.take(turn.rule, turn.state, turn.now, demand, how == How::Try) {
                Ok(()) => Done::Answer(Ok(turn.stamp())),
                Err(denied) if how == How::Wait && denied.reason() != Reason::TooLarge => {
                    Done::NeedsGate
                }
                Err(denied) => Done::Answer(Err(denied)),
            }
        });
        match step {
            Ok(Step::Done(taken)) => taken.map(Decided::Granted),
            Ok(Step::Gate(lease)) => Ok(Decided::Ask(lease)),
            Err(denied) => self.tell_refused(heard, key, demand, how, denied),
        }
    }

    /// Applies an operation to the state of a key, which is inserted if it is not known.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no room for another key.
    pub(super) fn step<Q, T>(
        &self,
        key: &Q,
        now: Moment,
        op: impl FnOnce(Turn<'_, R>) -> Done<T>,
    ) -> Result<Step<T, R>, Denied>
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Hash + Eq + ToOwned + ?Sized,
    {
        let (shard, hash) = self.locate(key);
        let table = self.locked(shard, now);
        self.step_in(table, (shard, hash), key, now, op)
    }

    fn step_in<'a, Q, T>(
        &'a self,
        mut table: MutexGuard<'a, Table<K, R>>,
        (shard, hash): (usize, u64),
        key: &Q,
        now: Moment,
        op: impl FnOnce(Turn<'_, R>) -> Done<T>,
    ) -> Result<Step<T, R>, Denied>
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Hash + Eq + ToOwned + ?Sized,
    {
        let gates = (&self.gates, shard);
        let mut op = Some(op);
        // A thread may have read the clock before the key was forgotten, but decides after that.
        let at = table.starts.not_before(now).max(table.forgot_at);
        if let Some(step) = table.apply(hash, key, at, gates, &mut op) {
            return Ok(step);
        }
        drop(table);
        table = self.with_key(shard, hash, key, now)?;
        let at = table.starts.not_before(now).max(table.forgot_at);
        let step = table.apply(hash, key, at, gates, &mut op);
        self.note(&mut table, hash, key, at);
        match step {
            Some(step) => Ok(step),
            // It was inserted above, under the same lock.
            None => Err(self.keys_full(table.rule_of(key))),
        }
    }

    /// Applies an operation that may make the state of a key as good as new, if the key is known and its state still
    /// contains what was `taken`.
    pub(super) fn restore<Q>(
        &self,
        key: &Q,
        now: Moment,
        taken: Stamp,
        op: impl FnOnce(Turn<'_, R>),
    ) -> Option<Lease<R>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let (shard, hash) = self.locate(key);
        let mut table = self.locked(shard, now);
        let now = now.max(table.forgot_at);
        if !table.knows_grants_of(hash, key, taken) {
            return None;
        }
        let mut op = Some(|turn: Turn<'_, R>| {
            op(turn);
            Done::Answer(())
        });
        let step = table.apply(hash, key, now, (&self.gates, shard), &mut op)?;
        self.note(&mut table, hash, key, now);
        match step {
            Step::Done(()) => None,
            Step::Gate(lease) => Some(lease),
        }
    }

    /// Reads the state of a key, or that of a new key if it is not known.
    pub(super) fn view<Q, T>(
        &self,
        key: &Q,
        now: Moment,
        see: impl FnOnce(&R, &R::State, Seen) -> T,
    ) -> Step<T, R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let (shard, hash) = self.locate(key);
        let mut table = self.locked(shard, now);
        let now = now.max(table.forgot_at);
        table.view(hash, key, now, see)
    }

    /// Takes from a state, or returns the refusal. With `noted` the rule may remember the refusal.
    pub(super) fn take(
        &self,
        rule: &R,
        state: &mut R::State,
        now: Moment,
        demand: Demand,
        noted: bool,
    ) -> Result<(), Denied> {
        let too_large = demand.cost > rule.limit();
        let refusal = if too_large {
            Refusal::until_returned().with_reason(Reason::TooLarge)
        } else {
            match crate::gate::take(rule, state, now, demand.cost) {
                Ok(()) => return Ok(()),
                Err(refusal) if noted => rule.refused(state, now, demand.cost, refusal),
                Err(refusal) => refusal,
            }
        };
        Err(self.explain(rule, state, now, refusal))
    }

    /// The refusal of a limit that is closed.
    pub(super) fn closed(&self, rule: &R, state: &R::State, now: Moment) -> Denied {
        let closed = Refusal::until_returned().with_reason(Reason::Closed);
        self.explain(rule, state, now, closed)
    }

    /// The error of a refusal.
    fn explain(&self, rule: &R, state: &R::State, now: Moment, refusal: Refusal) -> Denied {
        let full_at = rule
            .full_at(state, now)
            .map_or(Moment::NEVER, |at| at.max(now));
        let remaining = rule.remaining(state, now);
        self.denied(rule, refusal.with_full_at(full_at), now, remaining)
    }

    fn denied(&self, rule: &R, refusal: Refusal, now: Moment, remaining: u64) -> Denied {
        Denied::from_rule(refusal, now, (rule.limit(), remaining), self.gates.name)
    }

    pub(super) fn keys_full(&self, rule: &R) -> Denied {
        let refusal = Refusal::until_returned().with_reason(Reason::KeysFull);
        self.denied(rule, refusal, Moment::ORIGIN, 0)
    }
}

impl<K: Hash + Eq, R: Rule + Clone> Table<K, R> {
    /// Applies an operation to the state of a key, if it is known. A key of a limit whose permits are returned always
    /// has a gate.
    ///
    /// `op` is used up unless the key is not known, or has a gate.
    fn apply<Q, T>(
        &mut self,
        hash: u64,
        key: &Q,
        now: Moment,
        (gates, shard): (&Gates, usize),
        op: &mut Option<impl FnOnce(Turn<'_, R>) -> Done<T>>,
    ) -> Option<Step<T, R>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let (closed, paused) = (self.closed, self.paused);
        let Self {
            rule,
            entries,
            wide,
            free,
            starts,
            heard,
            ..
        } = self;
        let entry = entries.find(hash, key)?;
        if place(entry.word.get()).is_none() && heard.is_some() {
            let state = R::Fast::unpack(rule, entry.word.get(), now);
            let one = Wide::new(What::State(state), now);
            entry.word.set(store(wide, free, one));
        }
        if place(entry.word.get()).is_none() {
            let mut state = R::Fast::unpack(rule, entry.word.get(), now);
            let done = op.take()?(Turn {
                rule,
                state: &mut state,
                now,
                closed,
                began: starts.of_key(None, false),
            });
            let packed = R::Fast::pack(rule, &state, now);
            match (done, packed) {
                (Done::Answer(answer), Some(word)) => {
                    entry.word.set(word);
                    return Some(Step::Done(answer));
                }
                (done, _) => {
                    let one = Wide::new(What::State(state), now);
                    entry.word.set(store(wide, free, one));
                    if let Done::Answer(answer) = done {
                        return Some(Step::Done(answer));
                    }
                }
            }
        }
        let found = wide.get_mut(place(entry.word.get())?)?.as_mut()?;
        // A step back of the clock counts as no passage of time, so that a grant has the moment that the rule records.
        let now = found.used.max(now);
        found.used = now;
        let began = starts.of_key(found.began, found.own.is_some());
        let rule = found.own.as_ref().unwrap_or(rule);
        if let What::State(state) = &mut found.what {
            if let Some(op) = op.take_if(|_| !R::RETURNS_PERMITS && heard.is_none())
                && let Done::Answer(answer) = op(Turn {
                    rule,
                    state,
                    now,
                    closed,
                    began,
                })
            {
                return Some(Step::Done(answer));
            }
            let held = gates.make(shard, rule, state.clone(), now, began);
            if paused {
                held.pause();
            } else if closed {
                held.close();
            }
            if let Some(heard) = heard {
                heard.attach(&entry.key, &held.gate);
            }
            found.what = What::Gate(held);
        }
        match &found.what {
            What::Gate(held) => Some(Step::Gate(Lease::new(held))),
            What::State(_) => None,
        }
    }
}
