//! Whose limit a request counts against, and how that limit is asked.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use plimsoll::{
    Acquire, Demand, Denied, Grant, Limiter, Moment, PerKey, Permit, Reason, Standing, Terms,
};

use crate::{Head, KeyFrom};

/// What becomes of a request that has no key.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum WithoutKey<K> {
    /// It is refused: nobody escapes a limit by leaving a header out.
    #[default]
    Refuse,
    /// This limit does not hold for it.
    Skip,
    /// All that have none share the limit of this key.
    Share(K),
}

/// How the limiter is asked for a request. Not to be implemented elsewhere.
#[doc(hidden)]
pub trait Whose<L>: Send + Sync + 'static {
    /// A key that is kept while the request is worked on.
    type Kept: Send + Unpin + 'static;

    fn ask(&self, limiter: &L, head: &Head<'_>, demand: Demand) -> Found<Self::Kept>;

    fn undo(&self, limiter: &L, key: Option<&Self::Kept>, permit: Permit<'static>);

    fn charge(&self, limiter: &L, key: Option<&Self::Kept>, cost: u32);

    fn standing(&self, limiter: &L, key: Option<&Self::Kept>) -> Option<Standing>;

    fn terms(&self, limiter: &L) -> Terms;

    fn name<'l>(&self, limiter: &'l L) -> Option<&'l str>;
}

/// What is found by asking.
#[doc(hidden)]
#[derive(Debug)]
pub enum Found<K> {
    /// The limit does not hold.
    Nobody,
    Granted(Permit<'static>, Option<K>),
    Refused(Denied),
    Wait(Acquire<'static>, Option<K>),
}

/// Looks whether the answer is there; if not, its place in the queue is taken.
fn first_look<K>(mut acquire: Acquire<'static>, key: impl FnOnce() -> Option<K>) -> Found<K> {
    // The task is told of when the future is polled.
    match Pin::new(&mut acquire).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(permit)) => Found::Granted(permit, key()),
        Poll::Ready(Err(denied)) => Found::Refused(denied),
        Poll::Pending => Found::Wait(acquire, key()),
    }
}

/// All requests count against one limit.
#[derive(Clone, Copy, Debug)]
pub struct Everyone;

impl<L: Limiter + 'static> Whose<L> for Everyone {
    type Kept = ();

    #[inline]
    fn ask(&self, limiter: &L, _head: &Head<'_>, demand: Demand) -> Found<()> {
        match limiter.attempt_owned(demand) {
            Ok(permit) => Found::Granted(permit, None),
            Err(_) => first_look(limiter.acquire_owned(demand), || None),
        }
    }

    fn undo(&self, _limiter: &L, _key: Option<&()>, permit: Permit<'static>) {
        permit.undo();
    }

    fn charge(&self, limiter: &L, _key: Option<&()>, cost: u32) {
        limiter.charge(cost);
    }

    fn standing(&self, limiter: &L, _key: Option<&()>) -> Option<Standing> {
        limiter.standing()
    }

    fn terms(&self, limiter: &L) -> Terms {
        limiter.terms()
    }

    fn name<'l>(&self, limiter: &'l L) -> Option<&'l str> {
        limiter.name()
    }
}

/// Requests count by a key that is in the request.
#[derive(Clone)]
pub struct ByKey<K: KeyFrom> {
    pub(super) key: K,
    pub(super) without: WithoutKey<Owned<K>>,
}

pub(super) type Owned<K> = <<K as KeyFrom>::Key as ToOwned>::Owned;

impl<L, K> Whose<L> for ByKey<K>
where
    L: PerKey<K::Key> + 'static,
    K: KeyFrom,
    Owned<K>: Unpin,
{
    type Kept = Owned<K>;

    #[inline]
    fn ask(&self, limiter: &L, head: &Head<'_>, demand: Demand) -> Found<Self::Kept> {
        let key = match (self.key.key(head), &self.without) {
            (Some(key), _) => key,
            (None, WithoutKey::Share(key)) => Cow::Owned(key.clone()),
            (None, WithoutKey::Skip) => return Found::Nobody,
            (None, WithoutKey::Refuse) => return Found::Refused(no_key(limiter.name())),
        };
        match limiter.attempt(&key, demand) {
            Ok(permit) => Found::Granted(permit.into_owned(), Some(key.into_owned())),
            Err(_) => first_look(limiter.acquire_owned(&key, demand), || {
                Some(key.into_owned())
            }),
        }
    }

    fn undo(&self, limiter: &L, key: Option<&Self::Kept>, permit: Permit<'static>) {
        match key {
            Some(key) => limiter.undo(Borrow::borrow(key), permit),
            None => permit.undo(),
        }
    }

    fn charge(&self, limiter: &L, key: Option<&Self::Kept>, cost: u32) {
        if let Some(key) = key {
            limiter.charge(Borrow::borrow(key), cost);
        }
    }

    fn standing(&self, limiter: &L, key: Option<&Self::Kept>) -> Option<Standing> {
        limiter.standing(Borrow::borrow(key?))
    }

    fn terms(&self, limiter: &L) -> Terms {
        limiter.terms()
    }

    fn name<'l>(&self, limiter: &'l L) -> Option<&'l str> {
        limiter.name()
    }
}

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
    /// Known when it was found.
    type Kept = Arc<OnceLock<K>>;

    fn ask(&self, limiter: &L, head: &Head<'_>, demand: Demand) -> Found<Self::Kept> {
        let kept = Arc::new(OnceLock::new());
        let found = (self.find)(head);
        let (limiter, without, keep) = (limiter.clone(), self.without.clone(), Arc::clone(&kept));
        let acquire = Acquire::from_future(async move {
            let key = match (found.await, without) {
                (Some(key), _) | (None, WithoutKey::Share(key)) => key,
                (None, WithoutKey::Skip) => return Ok(Permit::spent(nothing(demand))),
                (None, WithoutKey::Refuse) => return Err(no_key(limiter.name())),
            };
            let permit = limiter.acquire_owned(&key, demand).await?;
            let _ = keep.set(key);
            Ok(permit)
        });
        first_look(acquire, || Some(kept))
    }

    fn undo(&self, limiter: &L, key: Option<&Self::Kept>, permit: Permit<'static>) {
        match key.and_then(|kept| kept.get()) {
            Some(key) => limiter.undo(key, permit),
            None => permit.undo(),
        }
    }

    fn charge(&self, limiter: &L, key: Option<&Self::Kept>, cost: u32) {
        if let Some(key) = key.and_then(|kept| kept.get()) {
            limiter.charge(key, cost);
        }
    }

    fn standing(&self, limiter: &L, key: Option<&Self::Kept>) -> Option<Standing> {
        limiter.standing(key?.get()?)
    }

    fn terms(&self, limiter: &L) -> Terms {
        limiter.terms()
    }

    fn name<'l>(&self, limiter: &'l L) -> Option<&'l str> {
        limiter.name()
    }
}

fn no_key(limiter: Option<&str>) -> Denied {
    let denied = Denied::new(Reason::NoKey);
    match limiter {
        Some(name) => denied.with_limiter(name),
        None => denied,
    }
}

fn nothing(demand: Demand) -> Grant {
    Grant {
        cost: 0,
        taken: Moment::ORIGIN,
        priority: demand.class(),
        timed: false,
    }
}

impl<K: KeyFrom + fmt::Debug> fmt::Debug for ByKey<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ByKey").field(&self.key).finish()
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
