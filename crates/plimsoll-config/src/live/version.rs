//! One limiter behind a name, for as long as its kind lasts.

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
use super::change::Change;
use super::keyed::Keys;

/// A limiter that stands behind a name until another takes its place.
///
/// A limit whose permits are returned has permits of its own: it passes them back to the limiter, and tells the binding, where the one
/// that took its place counts them until then.
pub(super) struct Version {
    me: Weak<Self>,
    /// For those who have no key. A limiter with keys counts them as one key.
    pub(super) one: Arc<dyn Limiter>,
    /// For those who have a key. A limiter without keys is the same for all of them.
    pub(super) keys: Arc<dyn Keys>,
    pub(super) class: Class,
    pub(super) keyed: bool,
    /// Whether it is `all`: its members are followed by their names, so who waits in it can stay.
    pub(super) follows_names: bool,
    /// Whether its permits are counted here: in memory, without keys, and returned.
    counts_permits: bool,
    /// How long anybody waits in its queue at most, in nanoseconds.
    timeout: AtomicU64,
    /// When it took the place of another, in nanoseconds, plus 1; 0 if it is the first.
    begun: AtomicU64,
    /// What is out of that which it granted in that instant or before.
    early: AtomicU64,
    retired: AtomicBool,
    /// Whose permits they are.
    pub(super) binding: OnceLock<Weak<Binding>>,
}

/// What a version is made of.
#[derive(Clone)]
pub(super) enum Inner {
    /// A limiter without keys that is in memory.
    One(Arc<dyn Limiter>),
    /// Several by name, as one.
    All(Arc<dyn Limiter>),
    /// A limiter without keys, in a store.
    #[cfg(feature = "redis")]
    Remote(Arc<dyn Limiter>),
    /// A limiter with keys, wherever it is.
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

    /// What is asked in its place by those who have no key.
    pub(super) fn target(&self) -> Result<Target, Denied> {
        let target = self.one.target();
        target.unwrap_or_else(|| Ok(Target::limiter(Arc::clone(&self.one))))
    }

    /// Says how long its queue lets anybody wait.
    pub(super) fn set_timeout(&self, timeout: Option<Duration>) {
        let nanos = timeout.and_then(|timeout| u64::try_from(timeout.as_nanos()).ok());
        self.timeout
            .store(nanos.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Until when one that begins to wait at `now` waits at most, whatever it asks for itself.
    pub(super) fn patience(&self, now: Moment) -> Option<Moment> {
        let timeout = self.timeout.load(Ordering::Relaxed);
        (timeout != u64::MAX).then(|| now.plus(Duration::from_nanos(timeout)))
    }

    /// Whether another has taken its place.
    pub(super) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// Whether a refusal may be that of a moment in which another takes its place, or in which it takes that of another: it
    /// is paused then, and may be asked again by the time somebody looks.
    pub(super) fn is_in_between(&self, denied: &Denied) -> bool {
        denied.reason() == Reason::Closed || self.is_retired()
    }

    /// From now on it stands behind its name, in the place of another, perhaps not for the first time.
    pub(super) fn begin(&self, at: Moment) {
        if self.counts_permits {
            self.early.store(self.in_use(), Ordering::Release);
        }
        let begun = at.as_nanos().saturating_add(1);
        self.begun.store(begun, Ordering::Release);
    }

    /// From now on it is asked.
    pub(super) fn unretire(&self) {
        self.retired.store(false, Ordering::Release);
    }

    /// Whether something was granted in the instant in which it took the place of another, so that the moment does not tell
    /// which of the two granted it.
    #[inline]
    fn is_early(&self, grant: Grant) -> bool {
        grant.taken.as_nanos() < self.begun.load(Ordering::Relaxed)
    }

    /// Whether what was granted is of this version and not of one before: nobody kept the permit itself.
    pub(super) fn has_granted(&self, grant: Grant) -> bool {
        !self.is_early(grant) || self.early.load(Ordering::Acquire) >= grant.cost
    }

    /// How much is in use, of all keys together.
    pub(super) fn in_use(&self) -> u64 {
        if self.keyed {
            self.keys.snapshot().in_use()
        } else {
            self.one.snapshot().in_use()
        }
    }

    /// How many wait, for all keys together.
    pub(super) fn waiters(&self) -> u64 {
        match self.keyed {
            true => self.keys.snapshot().waiters(),
            false => self.one.snapshot().waiters(),
        }
    }

    /// From now on another stands in its place. Whoever asks it all the same is sent on.
    pub(super) fn retire(&self) {
        self.retired.store(true, Ordering::SeqCst);
    }

    /// How many permits are out here, if they come back and are counted.
    pub(super) fn out(&self) -> u64 {
        if !self.counts_permits {
            return 0;
        }
        self.in_use()
    }

    /// Takes so much for permits of earlier ones that are still out.
    pub(super) fn stand_in(&self, change: &dyn Change, out: u64) -> Option<Permit<'static>> {
        if out == 0 || !self.counts_permits {
            return None;
        }
        let permit = change.occupy(out)?;
        // It counts as granted after all that the moment does not tell apart.
        let begun = Moment::from_nanos(self.begun.load(Ordering::Relaxed));
        let taken = permit.granted_at().max(begun);
        let grant = permit.grant().taken(taken);
        permit.forget();
        Some(Permit::shared(self.to_shared(), grant, true))
    }

    /// Whether anybody could still gain if it were forgotten.
    pub(super) fn matters(&self) -> bool {
        !self.follows_names && self.class != Class::Basic && self.in_use() > 0
    }

    /// Makes a permit of the limiter one of this version.
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

    /// The same, independent of the borrow.
    pub(super) fn own_shared(&self, permit: Permit<'static>) -> Permit<'static> {
        self.own(permit).into_owned()
    }

    /// Takes without a key if that is quickly done.
    #[inline]
    pub(super) fn attempt_owned(&self, demand: Demand) -> Option<Permit<'static>> {
        if self.counts_permits {
            // Its own permit is one of the limiter that ends there: a share of the limiter would be taken for nothing.
            let permit = self.one.attempt(demand).ok()?;
            return Some(self.own(permit).into_owned());
        }
        self.one.attempt_owned(demand)
    }

    /// The same for a key.
    #[inline]
    pub(super) fn attempt_key(&self, key: &str, demand: Demand) -> Option<Permit<'static>> {
        let permit = self.keys.attempt_owned(key, demand);
        if self.counts_permits {
            return permit.map(|permit| self.own_shared(permit));
        }
        permit
    }

    /// What was granted has ended.
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
