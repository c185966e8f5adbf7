//! What is held by whoever holds a limiter of a file: a name, and whatever limiter stands behind it.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, RwLock, Weak};
use std::task::Waker;

use plimsoll::kinds::Kind as Class;
use plimsoll::{Clock, Denied, Grant, Outcome, Reason, Snapshot, Source};

use super::generation::{Generation, lock};
use super::waiting::{self, Waiters};

/// A name, and the limiter behind it. It outlives every change of the file.
///
/// The first limiter is reached without a lock, by one look at a flag. A name behind which another has come to stand is
/// looked up behind a lock from then on.
pub(super) struct Slot {
    me: Weak<Self>,
    clock: Clock,
    first: Arc<Generation>,
    first_name: &'static str,
    /// Whether `first` is not simply the one to ask.
    indirect: AtomicBool,
    now: RwLock<Now>,
    pub(super) waiters: Waiters,
}

struct Now {
    generation: Arc<Generation>,
    /// The name that refusals carry.
    name: &'static str,
    /// The file knows it no more.
    removed: bool,
    /// The program has closed it.
    closed: bool,
    /// Those before it, as long as anything of them matters.
    retired: Vec<Arc<Generation>>,
    /// What those before it have granted and refused.
    before: (u64, u64),
}

impl Slot {
    pub(super) fn new(name: &str, generation: Arc<Generation>, clock: &Clock) -> Arc<Self> {
        let name = kept(name);
        Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            clock: clock.clone(),
            first: Arc::clone(&generation),
            first_name: name,
            indirect: AtomicBool::new(false),
            now: RwLock::new(Now {
                generation,
                name,
                removed: false,
                closed: false,
                retired: Vec::new(),
                before: (0, 0),
            }),
            waiters: Waiters::default(),
        })
    }

    /// The one to ask, if that needs no lock.
    #[inline]
    pub(super) fn direct(&self) -> Option<&Generation> {
        (!self.indirect.load(Ordering::Acquire)).then_some(&*self.first)
    }

    /// The one to ask.
    pub(super) fn current(&self) -> Result<Arc<Generation>, Denied> {
        let now = self.read();
        if now.removed || now.closed {
            return Err(Denied::new(Reason::Closed).with_limiter(now.name));
        }
        Ok(Arc::clone(&now.generation))
    }

    /// The one that stands there, whether it may be asked or not.
    pub(super) fn latest(&self) -> Arc<Generation> {
        Arc::clone(&self.read().generation)
    }

    /// Asks the present one, and the next one if another takes its place in that moment.
    pub(super) fn ask<T>(
        &self,
        ask: impl Fn(&Arc<Generation>) -> Result<T, Denied>,
    ) -> Result<T, Denied> {
        loop {
            let generation = self.current()?;
            match ask(&generation) {
                Err(denied) if denied.reason() == Reason::Closed && generation.is_retired() => {}
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
            Some(old) if old != now.name && old == self.first_name => denied.with_limiter(now.name),
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
        now.name = kept(name);
        self.look_up(&now);
    }

    pub(super) fn clock(&self) -> &Clock {
        match self.direct() {
            Some(generation) => generation.one.clock(),
            None => &self.clock,
        }
    }

    /// With the totals of those before.
    pub(super) fn snapshot(&self, of: impl Fn(&Generation) -> Snapshot) -> Snapshot {
        let now = self.read();
        let (generation, (granted, denied)) = (Arc::clone(&now.generation), now.before);
        drop(now);
        let seen = of(&generation);
        let (granted, denied) = (
            seen.granted_total().saturating_add(granted),
            seen.denied_total().saturating_add(denied),
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
        let mut all = now.retired.iter().chain([&now.generation]);
        all.any(|generation| generation.matters())
    }

    /// Puts `next` in the place of the one that is there.
    ///
    /// What was used stays used, as far as that means anything to the next one; permits that are out count in it
    /// until they come back; who waits is asked for again, in order. `lift` and `settle` take the bounds of its queues
    /// away meanwhile: nobody who waited already is refused because a queue has become shorter.
    pub(super) fn replace(
        &self,
        next: &Arc<Generation>,
        name: &str,
        lift: impl FnOnce(),
        settle: impl FnOnce(),
    ) {
        // Before the lock: whoever comes now waits for it.
        self.indirect.store(true, Ordering::Release);
        let mut now = self.write();
        let old = Arc::clone(&now.generation);
        next.begin(self.clock.precise_now());
        carry(&old, &now.retired, next);
        // Permits of an earlier one count nowhere if a rate stood here meanwhile.
        for earlier in now.retired.iter().filter(|it| !it.has_stand_in()) {
            earlier.stand_in(next);
        }
        old.stand_in(next);
        let carried = next.one.snapshot();
        lift();
        let woken = if old.follows_names {
            Vec::new()
        } else {
            waiting::move_all(&self.waiters, next)
        };
        old.retire();
        // What was granted while this went on.
        old.stand_in(next);
        let seen = old.one.snapshot();
        let (granted, denied) = (seen.granted_total(), seen.denied_total());
        // What was only carried over was not granted.
        now.before.0 = (now.before.0 + granted).saturating_sub(carried.granted_total());
        now.before.1 = (now.before.1 + denied).saturating_sub(carried.denied_total());
        now.retired.push(old);
        now.retired.retain(|generation| generation.matters());
        now.generation = Arc::clone(next);
        now.name = kept(name);
        drop(now);
        settle();
        wake(woken);
    }

    /// Sets the flag by which everybody sees whether the lock is needed.
    fn look_up(&self, now: &Now) {
        let direct = Arc::ptr_eq(&now.generation, &self.first)
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

    /// Ends a grant whose permit nobody kept, as those of the members of `all`: by the generation that granted it.
    fn end(&self, grant: Grant, mut end: impl FnMut(&dyn Source)) {
        if let Some(generation) = self.direct() {
            return end(generation);
        }
        let now = self.read();
        let (generation, retired) = (Arc::clone(&now.generation), now.retired.clone());
        drop(now);
        // The latest first. What is of none of them is of one of which nothing is out any more.
        let mut all = [&generation].into_iter().chain(retired.iter().rev());
        if let Some(of) = all.find(|it| it.has_granted(grant)) {
            end(&**of);
        }
    }
}

impl Source for Slot {
    fn give_back(&self, grant: Grant, outcome: Outcome) {
        self.end(grant, |source| source.give_back(grant, outcome));
    }

    fn undo(&self, grant: Grant, whole: bool) {
        self.end(grant, |source| source.undo(grant, whole));
    }

    fn to_shared(&self) -> Arc<dyn Source> {
        match self.me.upgrade() {
            Some(me) => me,
            None => unreachable!("it lives in an Arc"),
        }
    }
}

/// Has `next` begin with as much used as there was: of the one before it, or of the last that was a rate.
fn carry(old: &Arc<Generation>, retired: &[Arc<Generation>], next: &Generation) {
    let is_rate =
        |it: &Generation| it.class == Class::Rate && !it.one.is_remote() && !it.follows_names;
    let mut before = [old].into_iter().chain(retired.iter().rev());
    let Some(from) = before.find(|it| is_rate(it)).filter(|_| is_rate(next)) else {
        return;
    };
    if next.keyed {
        from.keys.each_used(&mut |key, used| {
            let now = next.keys.snapshot_of(key).map_or(0, |seen| seen.in_use());
            let now = u32::try_from(now).unwrap_or(u32::MAX);
            next.keys.charge(key, used.saturating_sub(now));
        });
    } else {
        let seen = next.one.snapshot();
        let more = from
            .in_use()
            .min(seen.limit())
            .saturating_sub(seen.in_use());
        next.one.charge(u32::try_from(more).unwrap_or(u32::MAX));
    }
}

fn wake(woken: Vec<Waker>) {
    woken.into_iter().for_each(Waker::wake);
}

/// The one copy of a name, kept for good: refusals keep theirs as well.
fn kept(name: &str) -> &'static str {
    static NAMES: LazyLock<Mutex<HashSet<&'static str>>> = LazyLock::new(Mutex::default);
    let mut names = lock(&NAMES);
    if let Some(known) = names.get(name) {
        return known;
    }
    let name: &'static str = Box::leak(name.into());
    names.insert(name);
    name
}
