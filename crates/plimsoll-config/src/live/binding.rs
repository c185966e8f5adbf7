//! What is held by whoever holds a limiter of a file: a name, and whatever limiter stands behind it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::task::Waker;

use plimsoll::{
    Clock, Denied, Grant, LimiterExt, Moment, Outcome, Permit, Reason, Shareable, Snapshot, Source,
};

use super::carry::{carry, interned};
use super::change::Change;
use super::replaced::{Watchers, drain};
use super::version::{Version, lock};
use super::waiting::{self, Waiters};
use crate::check::Definition;

/// A name, and the limiter behind it. It outlives every change of the file.
///
/// The first limiter is reached without a lock, by one look at a flag. A name behind which another has come to stand is
/// looked up behind a lock from then on.
pub(super) struct Binding {
    me: Weak<Self>,
    clock: Clock,
    first: Arc<Version>,
    first_name: &'static str,
    /// Whether `first` is not simply the one to ask.
    indirect: AtomicBool,
    now: RwLock<Now>,
    pub(super) waiters: Waiters,
    pub(super) watchers: Watchers,
    outs: Mutex<Outs>,
}

/// Permits of earlier ones that are still out.
#[derive(Default)]
struct Outs {
    past: Vec<Arc<Version>>,
    /// What the present one holds for them.
    stand_in: Option<Permit<'static>>,
}

struct Now {
    version: Arc<Version>,
    /// The name that refusals carry.
    name: &'static str,
    /// The file knows it no more.
    removed: bool,
    /// The program has closed it.
    closed: bool,
    /// Those before it, as long as anything of them matters.
    retired: Vec<Past>,
    /// What those before it have granted and refused.
    before: (u64, u64),
}

impl Now {
    /// Totals go on: the next one has counted this before, and this much was only carried over to it.
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

/// A limiter that stood behind a name before, and may again.
#[derive(Clone)]
pub(super) struct Past {
    pub(super) version: Arc<Version>,
    pub(super) change: Arc<dyn Change>,
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

    /// The one to ask, if that needs no lock.
    #[inline]
    pub(super) fn direct(&self) -> Option<&Version> {
        (!self.indirect.load(Ordering::Acquire)).then_some(&*self.first)
    }

    /// The one to ask.
    pub(super) fn current(&self) -> Result<Arc<Version>, Denied> {
        let now = self.read();
        if now.removed || now.closed {
            return Err(Denied::new(Reason::Closed).with_limiter(now.name));
        }
        Ok(Arc::clone(&now.version))
    }

    /// The one that stands there, whether it may be asked or not.
    pub(super) fn latest(&self) -> Arc<Version> {
        Arc::clone(&self.read().version)
    }

    /// Asks the present one, and the next one if another takes its place in that moment.
    pub(super) fn ask<T>(
        &self,
        ask: impl Fn(&Arc<Version>) -> Result<T, Denied>,
    ) -> Result<T, Denied> {
        // A member of an `all` may really be closed: that is believed when it says so again and again.
        let mut closed = 0;
        loop {
            let version = self.current()?;
            match ask(&version) {
                // Another has taken its place in this moment.
                Err(_) if version.is_retired() => {}
                Err(denied) if version.is_in_between(&denied) && closed < 1000 => {
                    closed += 1;
                    std::thread::yield_now();
                }
                answer => return answer.map_err(|denied| self.named(denied)),
            }
        }
    }

    /// A refusal with the name that the file says now.
    pub(super) fn named(&self, denied: Denied) -> Denied {
        if self.direct().is_some() {
            return denied;
        }
        let now = self.read();
        match denied.limiter() {
            // An `all` says which of its members refused.
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

    /// With the totals of those before.
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

    /// Refuses everybody who waits and everybody who comes, until the program ends.
    pub(super) fn close(&self) {
        self.refuse(|now| now.closed = true);
    }

    /// The file knows it no more: refuses everybody until it does again.
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

    /// The file knows it again.
    pub(super) fn restore(&self) {
        let mut now = self.write();
        now.removed = false;
        self.look_up(&now);
    }

    /// Whether anybody could gain if it were forgotten.
    pub(super) fn matters(&self) -> bool {
        let now = self.read();
        let retired = now.retired.iter().map(|past| &past.version);
        let mut all = retired.chain([&now.version]);
        all.any(|version| version.matters())
    }

    /// One that stood here before and can become what `to` says, with everything that is still in it.
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

    /// Puts `next` in the place of the one that is there, which is `old` with its description.
    ///
    /// What was used stays used, as far as that means anything to the next one; permits that are out count in it
    /// until they come back; who waits is asked for again, in order, and is not refused because a queue has become
    /// shorter.
    pub(super) fn replace(
        &self,
        (old, next, change): (Past, &Arc<Version>, &dyn Change),
        name: &str,
    ) {
        // Before the lock: whoever comes now waits for it.
        self.indirect.store(true, Ordering::SeqCst);
        let mut now = self.write();
        let _ = next.binding.set(Weak::clone(&self.me));
        old.version.retire();
        // From here on the old one grants nothing more that would have to be carried over. Whoever it refuses asks again.
        old.change.pause();
        next.begin(self.clock.precise_now());
        now.retired.push(old);
        now.retired.retain(|past| !Arc::ptr_eq(&past.version, next));
        let before = next.one.snapshot();
        carry(&now.retired, next);
        // All of them: permits of an earlier one count nowhere if a rate stood here meanwhile.
        let past = now.retired.iter().map(|past| Arc::clone(&past.version));
        let held = self.hold_for(past.collect(), next, change);
        // Not before: one that stood here earlier may still be asked by who found it then, and would grant what is out.
        change.resume();
        next.unretire();
        let carried = next.one.snapshot().granted_total() - before.granted_total();
        let stay = now.version.follows_names;
        let wakers = if stay {
            Vec::new()
        } else {
            waiting::move_all(&self.waiters, next)
        };
        // Not before those who wait have left the old one: it would serve them.
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

    /// Wakes those who wait for a key of the one that stood here, to ask again.
    fn wake_watchers(&self) {
        drain(&self.watchers).for_each(Waker::wake);
    }

    /// Has `next` count what is out of those before it. Returns what the one before it held for that.
    fn hold_for(
        &self,
        past: Vec<Arc<Version>>,
        next: &Version,
        change: &dyn Change,
    ) -> Option<Permit<'static>> {
        let mut outs = lock(&self.outs);
        let held = outs.stand_in.take();
        let out: u64 = past.iter().map(|past| past.out()).sum();
        let out = out.saturating_sub(held.as_ref().map_or(0, Permit::cost));
        outs.stand_in = next.stand_in(change, out);
        outs.past = past;
        held
    }

    /// Gives back what the present one holds for permits that are no longer out.
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
        // When it is not locked: it may serve who waits.
        drop(released);
    }

    /// Sets the flag by which everybody sees whether the lock is needed.
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

    /// Ends a grant whose permit was forgotten, by the version that granted it. The latest comes first; what none of
    /// them has granted is of one of which nothing is out any more.
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

/// For callers that forget the permits that they got, and return them by what was granted.
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
