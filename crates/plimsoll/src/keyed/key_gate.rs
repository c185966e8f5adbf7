//! The gate of a key, and how the table learns that nobody uses it any more.
//!
//! A key that somebody waits for, or whose permits are returned, has a gate. Whoever uses the gate outside the lock
//! of its shard holds a [`Lease`]. A key may be forgotten only while nobody does, and a table that is full must
//! learn of that at once, so a lease that ends leaves a mark for the next search for room.

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

/// What gates leave behind for the table they belong to. Apart from the table, so that a permit need not know
/// the type of its key.
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
        // Mostly it is set already, and the line stays shared.
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

    /// Counts a grant that was taken back.
    pub(super) fn undone(&self) {
        self.undone.fetch_add(1, Ordering::Relaxed);
    }

    /// What was counted by gates that are gone.
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

/// What a gate needs to be made.
pub(super) struct Gates {
    pub(super) clock: Clock,
    /// How callers wait. Only those who do not get what they ask for at once look.
    pub(super) queue: RwLock<Option<Queue>>,
    pub(super) name: Option<Name>,
    pub(super) totals: Totals,
    pub(super) room: Arc<Room>,
}

impl Gates {
    /// How callers wait, if they may.
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

    /// A gate that goes on from a state.
    pub(super) fn make<R: Rule + Clone>(
        &self,
        shard: usize,
        rule: &Arc<R>,
        state: R::State,
        now: Moment,
        began: Option<Stamp>,
    ) -> Arc<GateOfKey<R>> {
        // A rule that learns compares the totals with what it has timed itself.
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

/// The gate of a key. Permits that are returned come back to it.
pub(super) struct GateOfKey<R: Rule> {
    me: Weak<Self>,
    pub(super) gate: Gate<R>,
    /// The rule it should follow, and the start of a new state by that; set behind the lock of the shard.
    rule: Mutex<(Arc<R>, Option<Stamp>)>,
    room: Arc<Room>,
    shard: usize,
    /// Whether its key was forgotten: what it grants from then on is not to be undone by another state of the key.
    detached: AtomicBool,
}

impl<R: Rule> GateOfKey<R> {
    /// Notes that its key is forgotten. Others may hold the gate, and it follows the rule of all keys from now on.
    pub(super) fn detach(&self) -> WeakGate<R> {
        self.detached.store(true, Ordering::Release);
        self.gate.downgrade()
    }

    /// From when on it equals that of a new key; `None` while anybody uses it, or if nobody knows.
    ///
    /// Called behind the lock of the shard, where nobody can begin to use it. The lock of the gate is taken only if
    /// nobody else can hold it.
    pub(super) fn evictable_from(me: &Arc<Self>, now: Moment) -> Option<Moment> {
        if Arc::strong_count(me) > 1 {
            return None;
        }
        me.gate.evictable_from(now)
    }

    /// Refuses every demand from now on. Behind the lock of the shard only while nobody can wait yet.
    pub(super) fn close(&self) {
        self.gate.close();
    }

    /// See [`Gate::pause`]. Behind the lock of the shard only while nobody can wait yet.
    pub(super) fn pause(&self) {
        self.gate.pause();
    }

    /// Whether nobody uses it.
    pub(super) fn is_alone(me: &Arc<Self>) -> bool {
        Arc::strong_count(me) == 1 && me.gate.is_alone()
    }

    pub(super) fn counted(&self) -> Counted {
        self.gate.counted(self.rule().0.learning().is_none())
    }

    /// Says which rule it should follow, behind the lock of the shard. [`Lease::follow`] sees to it.
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

/// The subscribers, as a table knows them.
pub(super) trait OpenFeed<K, R: Rule>: Send + Sync {
    /// Whether there still are any.
    fn are_left(&self) -> bool;

    /// Has them hear of a gate.
    fn attach(&self, key: &K, gate: &Gate<R>);

    /// Tells them of a refusal that no gate knows of.
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

    /// What the gate has counted by itself.
    pub(super) fn counted(&self) -> Counted {
        self.held().counted()
    }

    /// Makes the gate follow the rule it should, by `change`. Changes that are made at the same time may reach the gate in
    /// another order than the table, so it is done again until the gate follows the latest.
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

    /// Makes a permit of the key of one that the gate granted.
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

    /// A permit of the key for what the gate granted. That of a rate has nothing to return, so it does not hold the gate.
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

/// What was granted, without the permit.
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
            // Before it is noted, so that whoever sees the note finds the key unused.
            drop(held);
            room.note_end(shard);
        }
    }
}
