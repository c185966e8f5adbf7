//! The limiter that is handed out for a name without keys.

use std::sync::Arc;

use plimsoll::together::Target;
use plimsoll::{
    Acquire, Clock, Demand, Denied, Limiter, LimiterExt, Permit, Reservation, Shareable, Snapshot,
    Source, Standing,
};
use plimsoll_kinds::{AnyLimiter, Basic, LimiterKind as Class, Rate, RateLimiter, Resource};

use super::generation::Generation;
use super::replaced::Watch;
use super::reserved;
use super::slot::Slot;
use super::waiting::Wait;

/// Whatever limiter stands behind a name. A clone is the same.
#[derive(Clone)]
pub(super) struct Handle(pub(super) Arc<Slot>);

impl Handle {
    /// The handle, as one of the kind that stands behind the name now.
    pub(super) fn of_class(self, class: Class) -> AnyLimiter {
        match class {
            Class::Basic => {
                let name = self.0.name();
                Basic::new(name, move || self.check_saturation()).into()
            }
            Class::Rate => Rate::from(self).into(),
            Class::Resource => Resource::from(self).into(),
        }
    }
}

/// It is one of the class that the file says. If the file says otherwise later, whoever holds it as a rate goes on asking: what
/// is returned is returned at once.
impl RateLimiter for Handle {}

/// The answer of a generation, unless another has taken its place in this moment: then it refuses everybody.
#[inline]
pub(super) fn settled<'a>(
    generation: &'a Generation,
    answer: Result<Permit<'a>, Denied>,
) -> Option<Result<Permit<'a>, Denied>> {
    match answer {
        Ok(permit) => Some(Ok(generation.own(permit))),
        Err(_) if generation.is_retired() => None,
        Err(denied) => Some(Err(denied)),
    }
}

impl Limiter for Handle {
    #[inline]
    fn try_acquire(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        if let Some(generation) = self.0.direct() {
            let answer = generation.one.try_acquire(demand);
            if let Some(answer) = settled(generation, answer) {
                return answer;
            }
        }
        self.0.ask(|generation| {
            let permit = generation.one.try_acquire(demand)?;
            Ok(generation.own_shared(permit.into_owned()))
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
        self.0
            .ask(|generation| reserved::of_generation(Arc::clone(generation), demand))
    }

    fn estimate(&self, demand: Demand) -> Result<(), Denied> {
        self.0.ask(|generation| generation.one.estimate(demand))
    }

    fn snapshot(&self) -> Snapshot {
        self.0.snapshot(|generation| generation.one.snapshot())
    }

    fn standing(&self) -> Standing {
        match self.0.direct() {
            Some(generation) => generation.one.standing(),
            None => self.0.latest().one.standing(),
        }
    }

    fn close(&self) {
        self.0.close();
    }

    fn name(&self) -> Option<&str> {
        Some(self.0.name())
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
        if let Some(generation) = self.0.direct() {
            let answer = generation.one.attempt(demand);
            if let Some(answer) = settled(generation, answer) {
                return answer;
            }
        }
        self.0.ask(|generation| {
            let permit = generation.one.attempt(demand)?;
            Ok(generation.own_shared(permit.into_owned()))
        })
    }

    #[inline]
    fn attempt_owned(&self, demand: Demand) -> Option<Permit<'static>> {
        if let Some(generation) = self.0.direct() {
            let permit = generation.one.attempt_owned(demand)?;
            return Some(generation.own_shared(permit));
        }
        let generation = self.0.current().ok()?;
        let permit = generation.one.attempt_owned(demand)?;
        Some(generation.own_shared(permit))
    }

    /// A permit that does not know its limiter is one of a rate: which it was the moment tells.
    fn undo(&self, permit: Permit<'_>) {
        match self.0.direct() {
            Some(generation) => generation.one.undo(permit),
            None => permit.undo_by(|grant, whole| Source::undo(&*self.0, grant, whole)),
        }
    }

    fn charge(&self, cost: u64) {
        match self.0.direct() {
            Some(generation) => generation.one.charge(cost),
            None => self.0.latest().one.charge(cost),
        }
    }

    fn settle(&self, permit: &mut Permit<'_>, cost: u64) {
        match self.0.direct() {
            Some(generation) => generation.one.settle(permit, cost),
            None => self.0.latest().one.settle(permit, cost),
        }
    }

    fn check_saturation(&self) -> Result<(), Denied> {
        if let Some(generation) = self.0.direct() {
            return generation.one.check_saturation();
        }
        self.0.ask(|generation| generation.one.check_saturation())
    }

    fn target(&self) -> Option<Result<Target, Denied>> {
        let generation = match self.0.current() {
            Ok(generation) => generation,
            Err(denied) => return Some(Err(denied)),
        };
        let target = generation.target();
        Some(target.map(|target| target.watched(Watch::new(Arc::clone(&self.0), generation))))
    }

    fn is_remote(&self) -> bool {
        match self.0.direct() {
            Some(generation) => generation.one.is_remote(),
            None => self.0.latest().one.is_remote(),
        }
    }
}
