//! Keys that have to be looked up.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, OnceLock};

use plimsoll::{Acquire, Demand, Denied, Grant, Moment, PerKey, Permit, Standing, Terms};

use super::held::Held;
use super::limits::Ask;
use super::whose::{Whose, WithoutKey, first_look, no_key, now_by};
use crate::Head;
use crate::answer::Class;

/// Requests count by a key that has to be looked up.
pub struct ByKeyLater<K, F> {
    pub(super) find: F,
    pub(super) without: WithoutKey<K>,
}

impl<L, K, F, T> Whose<L> for ByKeyLater<K, F>
where
    L: PerKey<K> + Clone + 'static,
    K: Clone + Send + Sync + 'static,
    F: Fn(&Head<'_>) -> T + Send + Sync + 'static,
    T: Future<Output = Option<K>> + Send + 'static,
{
    /// Empty until it was looked up; then what was found, if anything.
    type Kept = Arc<OnceLock<Option<K>>>;

    fn ask(
        &self,
        limiter: &L,
        head: &Head<'_>,
        demand: Demand,
        held: &mut Held<Self::Kept>,
    ) -> Ask {
        // Looked up once: who waits for a second key would otherwise begin anew with the first, and never end.
        if let Some(kept) = held.key.clone()
            && let Some(key) = kept.get()
        {
            let Some(key) = key else {
                return self.without_any(limiter);
            };
            if let Some(permit) = limiter.attempt_owned(key, demand) {
                held.permit = Some(permit);
                return Ask::Pass;
            }
            return first_look(
                limiter.is_remote(),
                || limiter.acquire_owned(key, demand),
                held,
            );
        }
        let later = Self::Kept::default();
        let is_remote = limiter.is_remote();
        let found = (self.find)(head);
        // From now on: looking up takes time as well.
        let demand = match (limiter.clock(), demand.is_at_once()) {
            (Some(clock), false) => match demand.deadline(clock.precise_now()) {
                Some(deadline) => demand.until(deadline),
                None => demand,
            },
            _ => demand,
        };
        let (limiter, without, keep) = (limiter.clone(), self.without.clone(), Arc::clone(&later));
        let acquire = Acquire::from_future(async move {
            let key = match (found.await, &without) {
                (None, WithoutKey::Share(key)) => Some(key.clone()),
                (key, _) => key,
            };
            match keep.get_or_init(|| key) {
                Some(key) => limiter.acquire_owned(key, demand).await,
                None if matches!(without, WithoutKey::Skip) => Ok(Permit::spent(nothing(demand))),
                None => Err(no_key(limiter.name())),
            }
        });
        held.key = Some(later);
        first_look(is_remote, || acquire, held)
    }

    fn undo(&self, limiter: &L, key: Option<&Self::Kept>, permit: Permit<'static>) {
        match found(key) {
            Some(key) => limiter.undo(key, permit),
            None => permit.undo(),
        }
    }

    fn settle(
        &self,
        limiter: &L,
        key: Option<&Self::Kept>,
        permit: &mut Permit<'static>,
        cost: u32,
    ) {
        if let Some(key) = found(key) {
            limiter.settle(key, permit, cost);
        }
    }

    fn class(&self, _head: &Head<'_>, denied: &Denied) -> Class {
        Class::of_caller(denied)
    }

    fn standing(&self, limiter: &L, key: Option<&Self::Kept>) -> Option<(Standing, Terms)> {
        limiter.standing_and_terms(found(key)?)
    }

    fn terms(&self, limiter: &L) -> Terms {
        limiter.terms()
    }

    fn now(&self, limiter: &L) -> Moment {
        now_by(limiter.clock())
    }

    fn name<'l>(&self, limiter: &'l L) -> Option<&'l str> {
        limiter.name()
    }
}

impl<K, F> ByKeyLater<K, F> {
    /// What becomes of a request for which no key was found.
    fn without_any<L: PerKey<K>>(&self, limiter: &L) -> Ask {
        match self.without {
            WithoutKey::Skip => Ask::Pass,
            _ => Ask::Refused(no_key(limiter.name())),
        }
    }
}

/// The key that was found, if it was looked up already.
fn found<K>(kept: Option<&Arc<OnceLock<Option<K>>>>) -> Option<&K> {
    kept?.get()?.as_ref()
}

fn nothing(demand: Demand) -> Grant {
    Grant {
        cost: 0,
        taken: Moment::ORIGIN,
        priority: demand.class(),
        timed: false,
    }
}

impl<K: fmt::Debug, F> fmt::Debug for ByKeyLater<K, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByKeyLater")
            .field("without", &self.without)
            .finish_non_exhaustive()
    }
}

impl<K: Clone, F: Clone> Clone for ByKeyLater<K, F> {
    fn clone(&self) -> Self {
        Self {
            find: self.find.clone(),
            without: self.without.clone(),
        }
    }
}
