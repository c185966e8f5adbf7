//! The handle of a limiter without keys.

use std::sync::Arc;

use plimsoll::adaptive::Insight;
use plimsoll::together::Target;
use plimsoll::{
    Acquire, Clock, Demand, Denied, Limiter, LimiterExt, Metadata, Moment, Permit, Reservation,
    Shareable, Snapshot, Source, Standing,
};
use plimsoll_kinds::{AnyLimiter, Basic, LimiterKind as Class, Rate, RateLimiter, Resource};

use super::binding::Binding;
use super::replaced::Watch;
use super::reserved;
use super::version::Version;
use super::waiting::Wait;

/// The handle of a binding, for callers without a key. Clones share the binding.
#[derive(Clone)]
pub(super) struct Handle(pub(super) Arc<Binding>);

impl Handle {
    /// The handle, as a limiter of the present kind.
    pub(super) fn of_class(self, class: Class) -> AnyLimiter {
        match class {
            Class::Basic => Basic::of(self).into(),
            Class::Rate => Rate::from(self).into(),
            // Any limiter can be used as a resource, including kinds that are added later.
            _ => Resource::from(self).into(),
        }
    }
}

/// The handle has the class that the file describes. If the class changes later, a handle that is held as a rate stays usable:
/// permits that would have to be returned are returned at once.
impl RateLimiter for Handle {}

/// The answer of a version. `None` if a replacement in progress caused it: the caller asks again.
#[inline]
pub(super) fn settled<'a>(
    version: &'a Version,
    answer: Result<Permit<'a>, Denied>,
) -> Option<Result<Permit<'a>, Denied>> {
    match answer {
        Ok(permit) => Some(Ok(version.own(permit))),
        Err(denied) if version.is_in_between(&denied) => None,
        Err(denied) => Some(Err(denied)),
    }
}

impl Limiter for Handle {
    #[inline]
    fn try_acquire(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        if let Some(version) = self.0.direct() {
            let answer = version.one.try_acquire(demand);
            if let Some(answer) = settled(version, answer) {
                return answer;
            }
        }
        self.0.ask(|version| {
            let permit = version.one.try_acquire(demand)?;
            Ok(version.own_shared(permit.into_owned()))
        })
    }

    fn acquire(&self, demand: Demand) -> Acquire<'_> {
        let wait = Wait::new(Arc::clone(&self.0), None, demand);
        Acquire::from_future(async move {
            let permit = wait.await?;
            Ok(permit)
        })
    }

    fn acquire_owned(&self, demand: Demand) -> Acquire<'static> {
        Acquire::from_future(Wait::new(Arc::clone(&self.0), None, demand))
    }

    fn reserve(&self, demand: Demand) -> Result<Reservation<'_>, Denied> {
        let reserve = |version: &Arc<Version>| {
            let reserved = reserved::of_version(&self.0, version, None, demand);
            reserved.map(Reservation::for_borrow)
        };
        self.0.ask(reserve)
    }

    fn estimate(&self, demand: Demand) -> Result<(), Denied> {
        self.0.ask(|version| version.one.estimate(demand))
    }

    fn snapshot(&self) -> Snapshot {
        self.0.snapshot(|version| version.one.snapshot())
    }

    fn standing(&self) -> Standing {
        match self.0.direct() {
            Some(version) => version.one.standing(),
            None => self.0.latest().one.standing(),
        }
    }

    fn close(&self) {
        self.0.close();
    }

    fn name(&self) -> Option<&str> {
        Some(self.0.name())
    }

    fn metadata(&self) -> Option<&Metadata> {
        self.0.direct()?.one.metadata()
    }

    fn clock(&self) -> &Clock {
        self.0.clock()
    }

    fn internals(&self) -> Option<&dyn plimsoll::Internals> {
        Some(self)
    }
}

impl plimsoll::Internals for Handle {
    fn source(&self) -> Option<&dyn Shareable> {
        Some(&*self.0)
    }

    #[inline]
    fn attempt(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        if let Some(version) = self.0.direct() {
            let answer = version.one.attempt(demand);
            if let Some(answer) = settled(version, answer) {
                return answer;
            }
        }
        self.0.ask(|version| {
            let permit = version.one.attempt(demand)?;
            Ok(version.own_shared(permit.into_owned()))
        })
    }

    #[inline]
    fn attempt_owned(&self, demand: Demand) -> Option<Permit<'static>> {
        match self.0.direct() {
            Some(version) => version.attempt_owned(demand),
            None => self.0.current().ok()?.attempt_owned(demand),
        }
    }

    fn spend(&self, cost: u64) -> Option<Moment> {
        match self.0.direct() {
            Some(version) => version.one.spend(cost),
            None => self.0.current().ok()?.one.spend(cost),
        }
    }

    /// A permit without a limiter is one of a rate. Its moment identifies the version that granted it.
    fn undo(&self, permit: Permit<'_>) {
        match self.0.direct() {
            Some(version) => version.one.undo(permit),
            None => permit.undo_by(|grant, whole| Source::undo(&*self.0, grant, whole)),
        }
    }

    fn charge(&self, cost: u64) {
        match self.0.direct() {
            Some(version) => version.one.charge(cost),
            None => self.0.latest().one.charge(cost),
        }
    }

    fn settle(&self, permit: &mut Permit<'_>, cost: u64) {
        match self.0.direct() {
            Some(version) => version.one.settle(permit, cost),
            None => self.0.latest().one.settle(permit, cost),
        }
    }

    fn check_saturation(&self) -> Result<(), Denied> {
        if let Some(version) = self.0.direct() {
            return version.one.check_saturation();
        }
        self.0.ask(|version| version.one.check_saturation())
    }

    fn target(&self) -> Option<Result<Target, Denied>> {
        let version = match self.0.current() {
            Ok(version) => version,
            Err(denied) => return Some(Err(denied)),
        };
        let target = version.target();
        Some(target.map(|target| target.watched(Watch::new(Arc::clone(&self.0), version))))
    }

    fn is_remote(&self) -> bool {
        match self.0.direct() {
            Some(version) => version.one.is_remote(),
            None => self.0.latest().one.is_remote(),
        }
    }

    fn insight(&self) -> Option<Insight> {
        self.0.latest().one.insight()
    }
}
