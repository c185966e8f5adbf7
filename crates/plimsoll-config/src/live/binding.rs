//! A binding: the name of a limiter, and its present version. Handles hold a binding.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::task::Waker;

use plimsoll::{
    Clock, Denied, Grant, LimiterExt, Moment, Outcome, Permit, Reason, Shareable, Snapshot, Source,
};

use super::carry::{carry, interned};
use super::in_place::ChangeInPlace;
use super::replaced::{Watchers, drain};
use super::version::{Version, lock};
use super::waiting::{self, Waiters};
use crate::check::Definition;

/// A name, and the version of the limiter behind it. It outlives every change of the file.
///
/// The first version is reached by a load of one flag, without a lock. After a replacement, the present version is read
/// under a lock.
pub(super) struct Binding {
    me: Weak<Self>,
    clock: Clock,
    first: Arc<Version>,
    first_name: &'static str,
    /// Whether the lock is needed: `first` was replaced, removed or closed.
    indirect: AtomicBool,
    now: RwLock<Now>,
    pub(super) waiters: Waiters,
    pub(super) watchers: Watchers,
    outs: Mutex<Outs>,
}

/// Permits of earlier versions that are still in use.
#[derive(Default)]
struct Outs {
    past: Vec<Arc<Version>>,
    /// The permit of the present version that counts for them.
    stand_in: Option<Permit<'static>>,
}

struct Now {
    version: Arc<Version>,
    /// The name that refusals carry.
    name: &'static str,
    /// The file no longer has it.
    removed: bool,
    /// The program has closed it.
    closed: bool,
    /// The earlier versions whose state still counts.
    retired: Vec<Past>,
    /// The grants and refusals of earlier versions.
    before: (u64, u64),
}

impl Now {
    /// Continues the totals with `next`, which may already have counts. `carried` of its grants were only carried over.
    fn count(&mut self, next: Snapshot, carried: u64) {
        let old = self.version.one.snapshot();
        let (granted, denied) = self.before;
        let (granted, denied) = (
            granted.wrapping_add(old.granted_total()),
            denied.wrapping_add(old.denied_total()),
        );
        self.before = (
            granted.wrapping_sub(next.granted_total() + carried),
            denied.wrapping_sub(next.denied_total()),
        );
    }
}

/// An earlier version, which may become the present one again.
#[derive(Clone)]
pub(super) struct Past {
    pub(super) version: Arc<Version>,
    pub(super) change: Arc<dyn ChangeInPlace>,
    pub(super) definition: Definition,
}

impl Binding {
    pub(super) fn new(name: &str, version: Arc<Version>, clock: &Clock) -> Arc<Self> {
        let name = interned(name);
        let first = Arc::clone(&version);
        let binding = Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            clock: clock.clone(),
            first: Arc::clone(&version),
            first_name: name,
            indirect: AtomicBool::new(false),
            now: RwLock::new(Now {
                version,
                name,
                removed: false,
                closed: false,
                retired: Vec::new(),
                before: (0, 0),
            }),
            waiters: Waiters::default(),
            watchers: Watchers::default(),
            outs: Mutex::default(),
        });
        let _ = first.binding.set(Arc::downgrade(&binding));
        binding
    }

    /// The present version, if the lock is not needed.
    #[inline]
    pub(super) fn direct(&self) -> Option<&Version> {
        (!self.indirect.load(Ordering::Acquire)).then_some(&*self.first)
    }

    /// The present version, or the refusal of a removed or closed name.
    pub(super) fn current(&self) -> Result<Arc<Version>, Denied> {
        let now = self.read();
        if now.removed || now.closed {
            return Err(Denied::new(Reason::Closed).with_limiter(now.name));
        }
        Ok(Arc::clone(&now.version))
    }

    /// The present version, also of a removed or closed name.
    pub(super) fn latest(&self) -> Arc<Version> {
        Arc::clone(&self.read().version)
    }

    /// Asks the present version, and the next one if it is replaced at that moment.
    pub(super) fn ask<T>(
        &self,
        ask: impl Fn(&Arc<Version>) -> Result<T, Denied>,
    ) -> Result<T, Denied> {
        // A member of an `all` may be closed for good, so the loop is bounded.
        let mut closed = 0;
        loop {
            let version = self.current()?;
            match ask(&version) {
                // It was replaced at this moment.
                Err(_) if version.is_retired() => {}
                Err(denied) if version.is_in_between(&denied) && closed < 1000 => {
                    closed += 1;
                    std::thread::yield_now();
                }
                answer => return answer.map_err(|denied| self.named(denied)),
            }
        }
    }

    /// A refusal with the present name of the limiter.
    pub(super) fn named(&self, denied: Denied) -> Denied {
        if self.direct().is_some() {
            return denied;
        }
        let now = self.read();
        match denied.limiter() {
            // The refusal of an `all` has the name of the member that refused.
            Some(old) if old != now.name && !now.version.follows_names => {
                denied.with_limiter(now.name)
            }
            _ => denied,
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match self.direct() {
            Some(_) => self.first_name,
            None => self.read().name,
        }
    }

    pub(super) fn rename(&self, name: &str) {
        let mut now = self.write();
        now.name = interned(name);
        self.look_up(&now);
    }

    pub(super) fn clock(&self) -> &Clock {
        match self.direct() {
            Some(version) => version.one.clock(),
            None => &self.clock,
        }
    }

    /// The snapshot of the present version, with the totals of earlier ones.
    pub(super) fn snapshot(&self, of: impl Fn(&Version) -> Snapshot) -> Snapshot {
        let now = self.read();
        let (version, (granted, denied)) = (Arc::clone(&now.version), now.before);
        drop(now);
        let seen = of(&version);
        let (granted, denied) = (
            seen.granted_total().wrapping_add(granted),
            seen.denied_total().wrapping_add(denied),
        );
        seen.with_totals(granted, denied)
    }

    /// Closes it for good, and refuses all waiters and all further demands.
    pub(super) fn close(&self) {
        self.refuse(|now| now.closed = true);
    }

    /// Refuses all waiters and demands, until the file has it again.
    pub(super) fn remove(&self) {
        self.refuse(|now| now.removed = true);
    }

    fn refuse(&self, change: impl FnOnce(&mut Now)) {
        let mut now = self.write();
        change(&mut now);
        self.look_up(&now);
        let denied = Denied::new(Reason::Closed).with_limiter(now.name);
        drop(now);
        wake(waiting::refuse_all(&self.waiters, &denied));
        self.wake_watchers();
    }

    /// Reopens it, because the file has it again.
    pub(super) fn restore(&self) {
        let mut now = self.write();
        now.removed = false;
        self.look_up(&now);
    }

    /// Whether its state still counts: dropping it would let a caller exceed a limit.
    pub(super) fn matters(&self) -> bool {
        let now = self.read();
        let retired = now.retired.iter().map(|past| &past.version);
        let mut all = retired.chain([&now.version]);
        all.any(|version| version.matters())
    }

    /// An earlier version, with its state, that can be changed to `to`.
    pub(super) fn past(&self, to: &Definition) -> Option<Past> {
        let now = self.read();
        let mut retired = now.retired.iter().rev();
        retired
            .find(|past| {
                let words = &past.definition.limiter.common.metadata;
                past.change.is_possible(to)
                    && !past.version.one.is_remote()
                    && *words == to.limiter.common.metadata
            })
            .cloned()
    }

    /// Replaces the present version, `old`, by `next`.
    ///
    /// Usage is carried over as far as `next` can count it. Permits in use count in `next` until they are returned. Waiters ask
    /// `next` in their order, and are not refused because its queue is shorter.
    pub(super) fn replace(
        &self,
        (old, next, change): (Past, &Arc<Version>, &dyn ChangeInPlace),
        name: &str,
    ) {
        // Before the lock: callers from now on wait for the lock.
        self.indirect.store(true, Ordering::SeqCst);
        let mut now = self.write();
        let _ = next.binding.set(Weak::clone(&self.me));
        old.version.retire();
        // From here on the old version grants nothing. A caller that it refuses asks again.
        old.change.pause();
        next.begin(self.clock.precise_now());
        now.retired.push(old);
        now.retired.retain(|past| !Arc::ptr_eq(&past.version, next));
        let before = next.one.snapshot();
        carry(&now.retired, next);
        // All earlier versions: if the last one was a rate, it did not count the permits of those before.
        let past = now.retired.iter().map(|past| Arc::clone(&past.version));
        let held = self.hold_for(past.collect(), next, change);
        // Not earlier: a caller that still holds `next` from before could be granted what is in use.
        change.resume();
        next.unretire();
        let carried = next.one.snapshot().granted_total() - before.granted_total();
        let stay = now.version.follows_names;
        let wakers = if stay {
            Vec::new()
        } else {
            waiting::move_all(&self.waiters, next)
        };
        // Not before the waiters have left the old version, which would serve them.
        drop(held);
        self.release_stand_in();
        now.count(before, carried);
        now.retired.retain(|past| past.version.matters());
        now.version = Arc::clone(next);
        now.name = interned(name);
        self.look_up(&now);
        drop(now);
        wake(wakers);
        self.wake_watchers();
    }

    /// Wakes the waiters for several limiters, to ask again.
    fn wake_watchers(&self) {
        drain(&self.watchers).for_each(Waker::wake);
    }

    /// Takes from `next` for the permits of earlier versions. Returns the permit that the last version held for them.
    fn hold_for(
        &self,
        past: Vec<Arc<Version>>,
        next: &Version,
        change: &dyn ChangeInPlace,
    ) -> Option<Permit<'static>> {
        let mut outs = lock(&self.outs);
        let held = outs.stand_in.take();
        let out: u64 = past.iter().map(|past| past.out()).sum();
        let out = out.saturating_sub(held.as_ref().map_or(0, Permit::cost));
        outs.stand_in = next.stand_in(change, out);
        outs.past = past;
        held
    }

    /// Returns what the present version holds for permits that have been returned.
    pub(super) fn release_stand_in(&self) {
        let released = {
            let mut outs = lock(&self.outs);
            outs.past.retain(|past| past.out() > 0);
            let out: u64 = outs.past.iter().map(|past| past.out()).sum();
            match &mut outs.stand_in {
                Some(_) if out == 0 => outs.stand_in.take(),
                Some(held) => held.split(held.cost().saturating_sub(out)),
                None => None,
            }
        };
        // After the lock is released: returning a permit may serve waiters.
        drop(released);
    }

    /// Sets the flag that tells callers whether the lock is needed.
    fn look_up(&self, now: &Now) {
        let direct = Arc::ptr_eq(&now.version, &self.first)
            && now.name == self.first_name
            && !now.removed
            && !now.closed;
        self.indirect.store(!direct, Ordering::Release);
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Now> {
        self.now.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Now> {
        self.now.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a grant without its permit, in the version that granted it; the latest version is asked first. A grant of
    /// none of them belongs to a version without permits in use, and is ignored.
    fn end(&self, grant: Grant, end: impl FnOnce(&dyn Source)) {
        let of = {
            let now = self.read();
            let past = now.retired.iter().rev().map(|past| &past.version);
            let mut all = [&now.version].into_iter().chain(past);
            all.find(|it| it.has_granted(grant)).cloned()
        };
        if let Some(of) = of {
            end(&*of);
        }
    }
}

/// For callers that keep only the grant of a permit, and return it by the grant.
impl Source for Binding {
    fn give_back(&self, grant: Grant, outcome: Outcome) {
        self.end(grant, |source| source.give_back(grant, outcome));
    }

    fn undo(&self, grant: Grant, whole: bool) {
        self.end(grant, |source| source.undo(grant, whole));
    }

    fn now(&self) -> Option<Moment> {
        Some(self.clock().now())
    }
}

impl Shareable for Binding {
    fn to_shared(&self) -> Arc<dyn Source> {
        match self.me.upgrade() {
            Some(me) => me,
            None => unreachable!("it lives in an Arc"),
        }
    }
}

fn wake(wakers: Vec<Waker>) {
    wakers.into_iter().for_each(Waker::wake);
}
