//! The limiter or key that a request counts against, and how it is asked.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use plimsoll::together::{Key, may_wait};
use plimsoll::{
    Acquire, Clock, Demand, Denied, Limiter, LimiterExt, Metadata, Moment, PerKey, Permit, Reason,
    Standing,
};

use super::granted::Granted;
use super::limits::{Ask, Asked};
use crate::answer::Class;
use crate::keys::Missing;
use crate::{Head, KeyFrom};

/// How a limit by key handles a request without a key.
///
/// ```
/// use plimsoll::{Keyed, TokenBucket};
/// use plimsoll_tower::keys::HeaderKey;
/// use plimsoll_tower::{RequestLimit, WithoutKey};
///
/// let per_tenant: Keyed<String, _> = Keyed::new(TokenBucket::per_second(50));
/// let limit = RequestLimit::by_key(per_tenant, HeaderKey::named("x-tenant")?)
///     .without_key(WithoutKey::Share("anonymous".to_owned()));
/// # let _ = limit;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub enum WithoutKey<K> {
    /// Refuses it, so that a client cannot escape the limit by omitting a header. The answer is 400, or 500 if the server [does not
    /// record](crate::keys::Missing) the key.
    #[default]
    Refuse,
    /// Admits it without asking this limit.
    Skip,
    /// Counts it against this key, which all requests without a key share.
    Share(K),
}

/// Asks a limiter for a request. Not to be implemented outside this crate.
#[doc(hidden)]
pub trait Subject<L>: Send + Sync + 'static {
    /// The key that is stored while the request is in flight.
    type Key: Send + Unpin + 'static;

    /// Asks for a request, or only finds the key. The permit is written to `held`: returning it by value takes as long as the
    /// decision.
    fn ask(
        &self,
        limiter: &L,
        head: &Head<'_>,
        take: Option<Take>,
        held: &mut Granted<Self::Key>,
    ) -> Ask;

    /// Returns the limiter or key for the wait for several limits.
    fn asked<'a>(&self, limiter: &'a L, key: Option<&'a Self::Key>) -> Asked<'a>;

    /// Undoes a grant.
    fn undo(&self, limiter: &L, key: Option<&Self::Key>, permit: Permit<'static>) {
        match self.asked(limiter, key) {
            Asked::Limiter(limiter) => limiter.undo(permit),
            Asked::Key(key) => key.undo(permit),
            Asked::Nothing => permit.undo(),
        }
    }

    /// Charges the final cost of the request.
    fn settle(
        &self,
        limiter: &L,
        key: Option<&Self::Key>,
        permit: &mut Permit<'static>,
        cost: u64,
    ) {
        match self.asked(limiter, key) {
            Asked::Limiter(limiter) => limiter.settle(permit, cost),
            Asked::Key(key) => key.settle(permit, cost),
            Asked::Nothing => {}
        }
    }

    /// Returns the class of a refusal.
    fn class(&self, head: &Head<'_>, denied: &Denied) -> Class {
        let _ = head;
        Class::of(denied)
    }

    /// Returns the remedy if the program does not record what the key is made of.
    fn missing(&self, head: &Head<'_>) -> Option<&'static str> {
        let _ = head;
        None
    }

    fn standing(&self, limiter: &L, key: Option<&Self::Key>) -> Option<Standing>;

    fn promise(&self, limiter: &L) -> Standing;

    /// Returns the current time by the clock of the limiter.
    fn now(&self, limiter: &L) -> Moment;

    fn name<'l>(&self, limiter: &'l L) -> Option<&'l str>;

    /// Returns the metadata of the limiter.
    fn metadata<'l>(&self, limiter: &'l L) -> Option<&'l Metadata> {
        let _ = limiter;
        None
    }
}

/// The demand on a limit.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Take {
    pub(crate) demand: Demand,
    pub(crate) alone: bool,
    /// Whether the grant need not be recorded, unless it is to be returned. There is then no permit, because writing it
    /// and its key takes as long as the decision.
    pub(crate) is_final: bool,
    /// Whether the response describes the limit.
    pub(crate) described: bool,
}

impl Take {
    /// Decides a request that was not granted on the fast path. A request that may wait does so for all limits together.
    ///
    /// Not inlined, to keep it off the fast path.
    #[inline(never)]
    pub(crate) fn slowly<K>(
        self,
        is_remote: bool,
        may_wait: impl FnOnce() -> bool,
        acquire: impl FnOnce(Demand) -> Acquire<'static>,
        held: &mut Granted<K>,
    ) -> Ask {
        if !self.alone && !is_remote && !self.demand.is_at_once() && may_wait() {
            return Ask::Wait;
        }
        let mut acquire = acquire(self.demand);
        // The waker of the task is stored when the future is polled.
        match Pin::new(&mut acquire).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(permit)) => {
                held.permit = Some(permit);
                Ask::Pass
            }
            Poll::Ready(Err(denied)) => Ask::Refused(denied),
            Poll::Pending if is_remote => Ask::Store(acquire),
            Poll::Pending if self.alone => Ask::WaitAlone(acquire),
            Poll::Pending => Ask::Wait,
        }
    }
}

/// All requests count against one limiter. The subject of [`RequestLimit::new`](crate::RequestLimit::new), named where the type
/// of a limit is written out:
///
/// ```
/// use plimsoll::{Concurrency, Gate};
/// use plimsoll_tower::{Everyone, HttpLimitLayer, RequestLimit};
///
/// type Slots = HttpLimitLayer<RequestLimit<Gate<Concurrency>, Everyone>>;
///
/// fn slots(limit: u64) -> Slots {
///     HttpLimitLayer::new(RequestLimit::new(Gate::new(Concurrency::new(limit))))
/// }
/// # let _ = slots(10);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Everyone;

impl<L: Limiter + 'static> Subject<L> for Everyone {
    type Key = ();

    #[inline(always)]
    fn ask(
        &self,
        limiter: &L,
        _head: &Head<'_>,
        take: Option<Take>,
        held: &mut Granted<()>,
    ) -> Ask {
        let Some(take) = take else {
            return Ask::Pass;
        };
        if take.is_final
            && let Some(inside) = limiter.internals()
            && inside.spend(take.demand.cost).is_some()
        {
            held.described = take.described;
            return Ask::Pass;
        }
        if let Some(permit) = limiter.attempt_owned(take.demand) {
            held.permit = Some(permit);
            return Ask::Pass;
        }
        let acquire = |demand| limiter.acquire_owned(demand);
        take.slowly(limiter.is_remote(), || may_wait(limiter), acquire, held)
    }

    fn asked<'a>(&self, limiter: &'a L, _key: Option<&'a ()>) -> Asked<'a> {
        Asked::Limiter(limiter)
    }

    fn standing(&self, limiter: &L, _key: Option<&()>) -> Option<Standing> {
        Some(limiter.standing())
    }

    fn promise(&self, limiter: &L) -> Standing {
        limiter.standing()
    }

    fn now(&self, limiter: &L) -> Moment {
        limiter.clock().precise_now()
    }

    fn name<'l>(&self, limiter: &'l L) -> Option<&'l str> {
        limiter.name()
    }

    #[inline]
    fn metadata<'l>(&self, limiter: &'l L) -> Option<&'l Metadata> {
        limiter.metadata()
    }
}

/// Requests count by a key that is read from the request. The subject of [`RequestLimit::by_key`](crate::RequestLimit::by_key),
/// named where the type of a limit is written out:
///
/// ```
/// use plimsoll::{Keyed, TokenBucket};
/// use plimsoll_tower::keys::HeaderKey;
/// use plimsoll_tower::{ByKey, HttpLimitLayer, RequestLimit};
///
/// type PerTenant = HttpLimitLayer<RequestLimit<Keyed<String, TokenBucket>, ByKey<HeaderKey>>>;
///
/// fn per_tenant(header: HeaderKey) -> PerTenant {
///     HttpLimitLayer::new(RequestLimit::by_key(Keyed::new(TokenBucket::per_second(50)), header))
/// }
/// # let _ = per_tenant;
/// ```
#[derive(Clone)]
pub struct ByKey<K: KeyFrom> {
    pub(super) key: K,
    pub(super) without: WithoutKey<Owned<K>>,
}

impl<K: KeyFrom> ByKey<K> {
    /// The remedy if the program does not record what the key is made of.
    fn remedy(&self, head: &Head<'_>) -> Option<&'static str> {
        match self.key.missing(head) {
            Missing::InProgram(remedy) => Some(remedy),
            Missing::InRequest => None,
        }
    }
}

pub(super) type Owned<K> = <<K as KeyFrom>::Key as ToOwned>::Owned;

impl<L, K> Subject<L> for ByKey<K>
where
    L: PerKey<K::Key> + 'static,
    K: KeyFrom,
    Owned<K>: Unpin,
{
    type Key = Owned<K>;

    #[inline(always)]
    fn ask(
        &self,
        limiter: &L,
        head: &Head<'_>,
        take: Option<Take>,
        held: &mut Granted<Self::Key>,
    ) -> Ask {
        let key = match (self.key.key(head), &self.without) {
            (Some(key), _) => key,
            (None, WithoutKey::Share(key)) => Cow::Owned(key.clone()),
            (None, WithoutKey::Skip) => return Ask::Pass,
            (None, WithoutKey::Refuse) => return Ask::Refused(no_key(limiter.name())),
        };
        let Some(take) = take else {
            held.key = Some(key.into_owned());
            return Ask::Pass;
        };
        if take.is_final {
            if limiter.spend(&key, take.demand.cost).is_some() {
                if take.described {
                    held.described = true;
                    held.key = Some(key.into_owned());
                }
                return Ask::Pass;
            }
        } else if let Some(permit) = limiter.attempt_owned(&key, take.demand) {
            held.permit = Some(permit);
            held.key = Some(key.into_owned());
            return Ask::Pass;
        }
        let acquire = |demand| limiter.acquire_owned(&key, demand);
        let answer = take.slowly(limiter.is_remote(), || limiter.has_queue(), acquire, held);
        if !matches!(answer, Ask::Refused(_)) {
            held.key = Some(key.into_owned());
        }
        answer
    }

    fn asked<'a>(&self, limiter: &'a L, key: Option<&'a Self::Key>) -> Asked<'a> {
        match key {
            Some(key) => Asked::Key(Box::new(Key::new(limiter, Borrow::borrow(key)))),
            None => Asked::Nothing,
        }
    }

    fn class(&self, head: &Head<'_>, denied: &Denied) -> Class {
        match denied.reason() {
            Reason::NoKey if self.remedy(head).is_some() => Class::Misconfigured,
            _ if self.key.is_of_caller() => Class::of_caller(denied),
            _ => Class::of(denied),
        }
    }

    fn missing(&self, head: &Head<'_>) -> Option<&'static str> {
        self.remedy(head)
    }

    fn standing(&self, limiter: &L, key: Option<&Self::Key>) -> Option<Standing> {
        Some(limiter.standing(Borrow::borrow(key?)))
    }

    fn promise(&self, limiter: &L) -> Standing {
        limiter.promise()
    }

    fn now(&self, limiter: &L) -> Moment {
        now_by(limiter.clock())
    }

    fn name<'l>(&self, limiter: &'l L) -> Option<&'l str> {
        limiter.name()
    }

    #[inline]
    fn metadata<'l>(&self, limiter: &'l L) -> Option<&'l Metadata> {
        limiter.metadata()
    }
}

pub(super) fn now_by(clock: Option<&Clock>) -> Moment {
    clock.map_or_else(|| Clock::system().precise_now(), Clock::precise_now)
}

pub(super) fn no_key(limiter: Option<&str>) -> Denied {
    let denied = Denied::new(Reason::NoKey);
    match limiter {
        Some(name) => denied.with_limiter(name),
        None => denied,
    }
}

impl<K: KeyFrom + fmt::Debug> fmt::Debug for ByKey<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ByKey").field(&self.key).finish()
    }
}
