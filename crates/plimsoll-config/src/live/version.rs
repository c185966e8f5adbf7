//! One version of a limiter: from a replacement to the next.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use plimsoll::together::Target;
use plimsoll::{
    Demand, Denied, Grant, Limiter, LimiterExt, Metadata, Moment, Outcome, Permit, Reason,
    Shareable, Source,
};
use plimsoll_kinds::LimiterKind as Class;

use super::adapters::{NoKey, SameForAll};
use super::binding::Binding;
use super::in_place::ChangeInPlace;
use super::keyed::Keys;

/// A limiter behind a name, until another version replaces it.
///
/// If permits are returned to the limiter, the version wraps them in permits of its own. It returns them to the limiter and
/// informs the binding, because the next version counts them until then.
pub(super) struct Version {
    me: Weak<Self>,
    /// For callers without a key. A limiter with keys counts them as one key.
    pub(super) one: Arc<dyn Limiter>,
    /// For callers with a key. A limiter without keys is shared by all keys.
    pub(super) keys: Arc<dyn Keys>,
    pub(super) class: Class,
    pub(super) keyed: bool,
    /// Whether it is an `all`: its members are bindings, so its waiters can stay when a member is replaced.
    pub(super) follows_names: bool,
    /// Whether its permits are counted here: in memory, without keys, and returned.
    counts_permits: bool,
    /// The time-out of its queue, in nanoseconds.
    timeout: AtomicU64,
    /// The moment at which it replaced another version, in nanoseconds plus 1; 0 for the first version.
    begun: AtomicU64,
    /// The permits in use that it granted at that moment or before.
    early: AtomicU64,
    retired: AtomicBool,
    /// The binding that the permits belong to.
    pub(super) binding: OnceLock<Weak<Binding>>,
}

/// The limiter of a version.
#[derive(Clone)]
pub(super) enum Inner {
    /// A limiter without keys, in memory.
    One(Arc<dyn Limiter>),
    /// An `all` of several bindings.
    All(Arc<dyn Limiter>),
    /// A limiter without keys, in a store.
    #[cfg(feature = "redis")]
    Remote(Arc<dyn Limiter>),
    /// A limiter with keys, in memory or in a store.
    Keys(Arc<dyn Keys>),
}

impl Version {
    pub(super) fn new(inner: Inner, class: Class) -> Arc<Self> {
        let keyed = matches!(inner, Inner::Keys(_));
        let follows_names = matches!(inner, Inner::All(_));
        let counts_permits = matches!(inner, Inner::One(_)) && class == Class::Resource;
        let (one, keys): (Arc<dyn Limiter>, Arc<dyn Keys>) = match inner {
            Inner::One(one) | Inner::All(one) => (Arc::clone(&one), Arc::new(SameForAll(one))),
            #[cfg(feature = "redis")]
            Inner::Remote(one) => (Arc::clone(&one), Arc::new(SameForAll(one))),
            Inner::Keys(keys) => (NoKey::of(Arc::clone(&keys)), keys),
        };
        Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            one,
            keys,
            class,
            keyed,
            follows_names,
            counts_permits,
            timeout: AtomicU64::new(u64::MAX),
            begun: AtomicU64::new(0),
            early: AtomicU64::new(0),
            retired: AtomicBool::new(false),
            binding: OnceLock::new(),
        })
    }

    /// The target of callers without a key, for decisions over several limiters.
    pub(super) fn target(&self) -> Result<Target, Denied> {
        let target = self.one.target();
        target.unwrap_or_else(|| Ok(Target::limiter(Arc::clone(&self.one))))
    }

    /// Sets the time-out of its queue.
    pub(super) fn set_timeout(&self, timeout: Option<Duration>) {
        let nanos = timeout.and_then(|timeout| u64::try_from(timeout.as_nanos()).ok());
        self.timeout
            .store(nanos.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// The latest deadline of a waiter that begins to wait at `now`, by the time-out of the queue.
    pub(super) fn queue_deadline(&self, now: Moment) -> Option<Moment> {
        let timeout = self.timeout.load(Ordering::Relaxed);
        (timeout != u64::MAX).then(|| now.plus(Duration::from_nanos(timeout)))
    }

    /// Whether another version has replaced it.
    pub(super) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// Whether a refusal may be caused by a replacement in progress, which pauses the version. The caller should ask again.
    pub(super) fn is_in_between(&self, denied: &Denied) -> bool {
        denied.reason() == Reason::Closed || self.is_retired()
    }

    /// Makes it the present version from the moment `at` on, perhaps not for the first time.
    pub(super) fn begin(&self, at: Moment) {
        if self.counts_permits {
            self.early.store(self.in_use(), Ordering::Release);
        }
        let begun = at.as_nanos().saturating_add(1);
        self.begun.store(begun, Ordering::Release);
    }

    /// Makes it available again.
    pub(super) fn unretire(&self) {
        self.retired.store(false, Ordering::Release);
    }

    /// Whether a grant was made at the moment of the replacement, so that its moment does not identify its version.
    #[inline]
    fn is_early(&self, grant: Grant) -> bool {
        grant.taken.as_nanos() < self.begun.load(Ordering::Relaxed)
    }

    /// Whether this version made a grant, and not an earlier one. For grants without their permit.
    pub(super) fn has_granted(&self, grant: Grant) -> bool {
        !self.is_early(grant) || self.early.load(Ordering::Acquire) >= grant.cost
    }

    /// The usage, summed over all keys.
    pub(super) fn in_use(&self) -> u64 {
        if self.keyed {
            self.keys.snapshot().in_use()
        } else {
            self.one.snapshot().in_use()
        }
    }

    /// The number of waiters, summed over all keys.
    pub(super) fn waiters(&self) -> u64 {
        match self.keyed {
            true => self.keys.snapshot().waiters(),
            false => self.one.snapshot().waiters(),
        }
    }

    /// Retires it: another version has replaced it. Callers that still ask it ask again.
    pub(super) fn retire(&self) {
        self.retired.store(true, Ordering::SeqCst);
    }

    /// The number of its permits in use, if they are counted.
    pub(super) fn out(&self) -> u64 {
        if !self.counts_permits {
            return 0;
        }
        self.in_use()
    }

    /// Takes `out` for permits of earlier versions that are still in use.
    pub(super) fn stand_in(&self, change: &dyn ChangeInPlace, out: u64) -> Option<Permit<'static>> {
        if out == 0 || !self.counts_permits {
            return None;
        }
        let permit = change.occupy(out)?;
        // It counts as granted after all grants of the same moment.
        let begun = Moment::from_nanos(self.begun.load(Ordering::Relaxed));
        let taken = permit.granted_at().max(begun);
        let grant = permit.grant().taken(taken);
        permit.forget();
        Some(Permit::shared(self.to_shared(), grant, true))
    }

    /// Whether its state still counts: dropping it would let a caller exceed a limit.
    pub(super) fn matters(&self) -> bool {
        !self.follows_names && self.class != Class::Basic && self.in_use() > 0
    }

    /// Wraps a permit of the limiter in one of this version.
    #[inline]
    pub(super) fn own<'a>(&'a self, permit: Permit<'a>) -> Permit<'a> {
        if self.counts_permits && permit.gives_back() {
            let grant = permit.grant();
            permit.forget();
            self.note(grant);
            return Permit::new(self, grant, true);
        }
        permit
    }

    #[inline]
    fn note(&self, grant: Grant) {
        if self.is_early(grant) {
            self.early.fetch_add(grant.cost, Ordering::AcqRel);
        }
    }

    /// Like [`own`](Self::own), for a permit that borrows nothing.
    pub(super) fn own_shared(&self, permit: Permit<'static>) -> Permit<'static> {
        self.own(permit).into_owned()
    }

    /// Fast path without a key: takes now, or returns `None` without a decision.
    #[inline]
    pub(super) fn attempt_owned(&self, demand: Demand) -> Option<Permit<'static>> {
        if self.counts_permits {
            // Not `attempt_owned`: the permit is wrapped, so an owned one would clone the limiter's `Arc` for nothing.
            let permit = self.one.attempt(demand).ok()?;
            return Some(self.own(permit).into_owned());
        }
        self.one.attempt_owned(demand)
    }

    /// Fast path for a key: takes now, or returns `None` without a decision.
    #[inline]
    pub(super) fn attempt_key(&self, key: &str, demand: Demand) -> Option<Permit<'static>> {
        let permit = self.keys.attempt_owned(key, demand);
        if self.counts_permits {
            return permit.map(|permit| self.own_shared(permit));
        }
        permit
    }

    /// Counts the end of a grant.
    fn ended(&self, grant: Grant) {
        if self.is_early(grant) {
            let less = |early: u64| Some(early.saturating_sub(grant.cost));
            let _ = self
                .early
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
        }
        if self.is_retired()
            && let Some(binding) = self.binding.get().and_then(Weak::upgrade)
        {
            binding.release_stand_in();
        }
    }
}

impl Source for Version {
    fn give_back(&self, grant: Grant, outcome: Outcome) {
        if let Some(source) = self.one.source() {
            source.give_back(grant, outcome);
        }
        self.ended(grant);
    }

    fn undo(&self, grant: Grant, whole: bool) {
        if let Some(source) = self.one.source() {
            source.undo(grant, whole);
        }
        self.ended(grant);
    }

    fn now(&self) -> Option<Moment> {
        Some(self.one.clock().now())
    }

    fn metadata(&self) -> Option<&Metadata> {
        self.one.metadata()
    }
}

impl Shareable for Version {
    fn to_shared(&self) -> Arc<dyn Source> {
        match self.me.upgrade() {
            Some(me) => me,
            None => unreachable!("it lives in an Arc"),
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
