//! The gate of a key, and how the table learns that it is no longer used.
//!
//! A key with waiters, and a key of a limit whose permits are returned, has a gate. Code that uses the gate outside the
//! lock of its shard holds a [`Lease`]. A key may be evicted only while there is no lease, and a full table must learn
//! of that at once; so a lease that ends sets a mark for the next search for room.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use crate::gate::{Counted, WeakGate};
use crate::grant::Era;
use crate::joint::{KeyGate, KeyLease};
use crate::limiter::{LimiterExt, PartsKind};
use crate::name::Name;
use crate::stamp::Stamp;
use crate::totals::Totals;
use crate::{
    Clock, Demand, Denied, Gate, Grant, Moment, Outcome, Permit, Queue, Rule, Shareable, Source,
};

/// The marks and counts that gates leave for their table. Separate from the table, so that a permit need not know the
/// type of its key.
pub(super) struct Room {
    /// For each shard, whether a lease has ended since the last search for room.
    ended: Box<[AtomicBool]>,
    granted: AtomicU64,
    undone: AtomicU64,
    denied: AtomicU64,
    evicted: AtomicU64,
    cancelled: AtomicU64,
}

impl Room {
    pub(super) fn new(shards: usize) -> Self {
        Self {
            ended: (0..shards).map(|_| AtomicBool::new(false)).collect(),
            granted: AtomicU64::new(0),
            undone: AtomicU64::new(0),
            denied: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
            cancelled: AtomicU64::new(0),
        }
    }

    fn note_end(&self, shard: usize) {
        let ended = &self.ended[shard];
        // Usually it is already set, and the cache line stays shared.
        if !ended.load(Ordering::Relaxed) {
            ended.swap(true, Ordering::AcqRel);
        }
    }

    /// Whether a lease of any shard has ended since it was last asked about.
    pub(super) fn any_ended(&self) -> bool {
        self.ended.iter().any(|ended| ended.load(Ordering::Relaxed))
    }

    /// Whether a lease of this shard has ended since this was last asked.
    pub(super) fn take_ended(&self, shard: usize) -> bool {
        let ended = &self.ended[shard];
        ended.load(Ordering::Relaxed) && ended.swap(false, Ordering::AcqRel)
    }

    /// Counts a grant that was undone.
    pub(super) fn undone(&self) {
        self.undone.fetch_add(1, Ordering::Relaxed);
    }

    /// The counts of gates that no longer exist.
    pub(super) fn counted(&self) -> Counted {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counted {
            granted: read(&self.granted),
            undone: read(&self.undone),
            denied: read(&self.denied),
            evicted: read(&self.evicted),
            cancelled: read(&self.cancelled),
        }
    }

    fn add(&self, counted: Counted) {
        let add = |count: &AtomicU64, amount| {
            count.fetch_add(amount, Ordering::Relaxed);
        };
        add(&self.granted, counted.granted);
        add(&self.undone, counted.undone);
        add(&self.denied, counted.denied);
        add(&self.evicted, counted.evicted);
        add(&self.cancelled, counted.cancelled);
    }
}

/// The settings for new gates.
pub(super) struct Gates {
    pub(super) clock: Clock,
    /// The queue of each key. Only demands that are not granted at once read it.
    pub(super) queue: RwLock<Option<Queue>>,
    pub(super) name: Option<Name>,
    pub(super) totals: Totals,
    pub(super) room: Arc<Room>,
}

impl Gates {
    /// The queue of each key, if there is one.
    pub(super) fn queue(&self) -> Option<Queue> {
        *self.queue.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a demand that is not granted at once waits.
    pub(super) fn lets_wait(&self, demand: Demand) -> bool {
        demand.is_kept() || !demand.is_at_once() && self.queue().is_some()
    }

    pub(super) fn set_queue(&self, queue: Option<Queue>) {
        *self.queue.write().unwrap_or_else(PoisonError::into_inner) = queue;
    }

    /// Creates a gate that continues from a state.
    pub(super) fn make<R: Rule + Clone>(
        &self,
        shard: usize,
        rule: &Arc<R>,
        state: R::State,
        now: Moment,
        began: Option<Stamp>,
    ) -> Arc<GateOfKey<R>> {
        // A rule that learns compares the totals with the number of permits that it has timed.
        let totals = if rule.learning().is_some() {
            Totals::new(self.totals.are_counted())
        } else {
            self.totals.share()
        };
        let (mut own, clock) = (R::clone(rule), self.clock.clone());
        let (since, mut queue) = ((now, began), self.queue());
        if own.learning().is_some() {
            own.begin(now);
        }
        if let (Some(queue), Some(learning)) = (&mut queue, own.learning()) {
            queue.bound = learning.begin_queue(queue.bound);
        }
        let gate = Gate::resumed(own, state, since, clock, queue, self.name, totals);
        Arc::new_cyclic(|me| GateOfKey {
            me: Weak::clone(me),
            gate,
            rule: Mutex::new((Arc::clone(rule), None)),
            room: Arc::clone(&self.room),
            shard,
            detached: AtomicBool::new(false),
        })
    }
}

/// The gate of a key. Its permits return to it.
pub(super) struct GateOfKey<R: Rule> {
    me: Weak<Self>,
    pub(super) gate: Gate<R>,
    /// The rule that it should follow, and the start of the new state if that begins one; set under the lock of the
    /// shard.
    rule: Mutex<(Arc<R>, Option<Stamp>)>,
    room: Arc<Room>,
    shard: usize,
    /// Whether its key was forgotten: another state of the key must not undo its later grants.
    detached: AtomicBool,
}

impl<R: Rule> GateOfKey<R> {
    /// Records that its key was forgotten. Other handles to the gate may exist; it follows the rule of all keys from
    /// now on.
    pub(super) fn detach(&self) -> WeakGate<R> {
        self.detached.store(true, Ordering::Release);
        self.gate.downgrade()
    }

    /// The moment from which it equals the gate of a new key; `None` while it is used, or if that moment is not known.
    ///
    /// Called under the lock of the shard, which prevents new users. The lock of the gate is taken only if no other
    /// handle exists.
    pub(super) fn evictable_from(me: &Arc<Self>, now: Moment) -> Option<Moment> {
        if Arc::strong_count(me) > 1 {
            return None;
        }
        me.gate.evictable_from(now)
    }

    /// Refuses every demand from now on. May be called under the lock of the shard only while the gate cannot have
    /// waiters yet.
    pub(super) fn close(&self) {
        self.gate.close();
    }

    /// See [`Gate::pause`]. May be called under the lock of the shard only while the gate cannot have waiters yet.
    pub(super) fn pause(&self) {
        self.gate.pause();
    }

    /// Whether there is no lease.
    pub(super) fn is_alone(me: &Arc<Self>) -> bool {
        Arc::strong_count(me) == 1 && me.gate.is_alone()
    }

    pub(super) fn counted(&self) -> Counted {
        self.gate.counted(self.rule().0.learning().is_none())
    }

    /// Sets the rule that it should follow, under the lock of the shard. [`Lease::follow`] applies it.
    pub(super) fn set_rule(&self, rule: &Arc<R>, start: Option<Stamp>) {
        *self.rule() = (Arc::clone(rule), start);
    }

    fn rule(&self) -> MutexGuard<'_, (Arc<R>, Option<Stamp>)> {
        self.rule.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Rule> Drop for GateOfKey<R> {
    fn drop(&mut self) {
        self.room.add(self.counted());
    }
}

impl<R: Rule> Source for GateOfKey<R> {
    fn give_back(&self, grant: Grant, outcome: Outcome) {
        self.gate.source().give_back(grant, outcome);
        self.room.note_end(self.shard);
    }

    fn undo(&self, grant: Grant, whole: bool) {
        self.gate.source().undo(grant, whole);
        self.room.note_end(self.shard);
    }

    fn now(&self) -> Option<Moment> {
        self.gate.source().now()
    }
}

impl<R: Rule> Shareable for GateOfKey<R> {
    fn to_shared(&self) -> Arc<dyn Source> {
        match self.me.upgrade() {
            Some(me) => me,
            None => unreachable!("it lives in an Arc"),
        }
    }
}

/// The subscribers, as seen by a table.
pub(super) trait OpenFeed<K, R: Rule>: Send + Sync {
    /// Returns whether there still are any.
    fn prune(&self) -> bool;

    /// Subscribes them to a gate.
    fn attach(&self, key: &K, gate: &Gate<R>);

    /// Reports a refusal that was made without a gate.
    fn refused(&self, key: K, demand: Demand, denied: &Denied, clock: &Clock);
}

/// The subscribers of a table.
pub(super) type KeySubscribers<K, R> = Option<Arc<dyn OpenFeed<K, R>>>;

/// The right to use the gate of a key without the lock of its shard.
pub(super) struct Lease<R: Rule>(Option<Arc<GateOfKey<R>>>);

impl<R: Rule> Lease<R> {
    pub(super) fn new(held: &Arc<GateOfKey<R>>) -> Self {
        Self(Some(Arc::clone(held)))
    }

    fn held(&self) -> &Arc<GateOfKey<R>> {
        match &self.0 {
            Some(held) => held,
            None => unreachable!("taken only when it ends"),
        }
    }

    /// The counts of the gate itself.
    pub(super) fn counted(&self) -> Counted {
        self.held().counted()
    }

    /// Makes the gate follow the rule that was set, by `change`. Concurrent changes may reach the gate in another order
    /// than the table, so this repeats until the gate follows the latest.
    pub(super) fn follow(&self, change: impl Fn(&Gate<R>, &R, Option<Stamp>)) {
        let held = self.held();
        loop {
            let (wanted, start) = held.rule().clone();
            change(&held.gate, &wanted, start);
            if Arc::ptr_eq(&wanted, &held.rule().0) {
                return;
            }
        }
    }

    /// Like [`Gate::try_acquire`], for a permit of the key.
    pub(super) fn try_acquire_owned(self, demand: Demand) -> Result<Permit<'static>, Denied> {
        let spent = spend(self.try_acquire(demand)?);
        Ok(self.permit(spent))
    }

    /// Like [`LimiterExt::attempt`], for a permit of the key.
    pub(super) fn attempt_owned(self, demand: Demand) -> Result<Permit<'static>, Denied> {
        let spent = spend(LimiterExt::attempt(&*self, demand)?);
        Ok(self.permit(spent))
    }

    /// Like [`Gate::take_up_to`], for a permit of the key.
    pub(super) fn take_up_to_owned(self, most: u64) -> Permit<'static> {
        let spent = spend(self.take_up_to(most));
        self.permit(spent)
    }

    /// Converts a permit of the gate into one of the key.
    pub(super) fn take_over(self, permit: Permit<'_>) -> Permit<'static> {
        self.permit(spend(permit))
    }

    /// The gate, for callers that wait for several limiters at once.
    pub(super) fn into_key_gate(self) -> KeyGate {
        let gate = match LimiterExt::parts(&*self).kind() {
            PartsKind::Gate(gate) => gate.to_arc(),
            _ => unreachable!("the gate of a key is a gate"),
        };
        let lease = Box::new(self);
        KeyGate { gate, lease }
    }

    /// A permit of the key for a grant of the gate. A permit of a rate has nothing to return, so it does not hold the
    /// gate.
    fn permit(&self, (grant, era): (Grant, Era)) -> Permit<'static> {
        let detached = self.held().detached.load(Ordering::Acquire);
        if R::RETURNS_PERMITS && grant.cost > 0 {
            Permit::shared(Arc::clone(self.held()) as _, grant, true)
        } else if detached {
            Permit::spent(grant).in_era(Era::LOST)
        } else {
            Permit::spent(grant).in_era(era)
        }
    }
}

impl<R: Rule> KeyLease for Lease<R> {
    fn permit(&self, grant: Grant, era: Era) -> Permit<'static> {
        Self::permit(self, (grant, era))
    }
}

/// Converts a permit into the data of its grant.
fn spend(permit: Permit<'_>) -> (Grant, Era) {
    let spent = (permit.grant(), permit.era());
    permit.forget();
    spent
}

impl<R: Rule> Deref for Lease<R> {
    type Target = Gate<R>;

    fn deref(&self) -> &Gate<R> {
        &self.held().gate
    }
}

impl<R: Rule> Drop for Lease<R> {
    fn drop(&mut self) {
        if let Some(held) = self.0.take() {
            let (room, shard) = (Arc::clone(&held.room), held.shard);
            // Dropped before the mark is set, so that a thread that sees the mark finds the key unused.
            drop(held);
            room.note_end(shard);
        }
    }
}
