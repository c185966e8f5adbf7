//! Keys that are looked up.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Waker};

use plimsoll::together::Key;
use plimsoll::{Denied, Metadata, Moment, PerKey, Standing};

use super::granted::Granted;
use super::limits::{Ask, Asked, Finding};
use super::subject::{Subject, Take, WithoutKey, no_key, now_by};
use crate::Head;
use crate::answer::Class;

/// Requests count by a key that is looked up asynchronously. The subject of
/// [`RequestLimit::by_key_later`](crate::RequestLimit::by_key_later).
///
/// The lookup runs once for each request, before the limits of the layer decide; limits that are asked before hold nothing
/// meanwhile. If a request is dropped during the lookup, the lookup is dropped as well.
///
/// ```
/// use plimsoll::{Keyed, TokenBucket};
/// use plimsoll_tower::{RequestLimit, WithoutKey};
///
/// async fn account_of(token: Option<String>) -> Option<u64> {
///     token?.parse().ok()
/// }
///
/// let per_account: Keyed<u64, _> = Keyed::new(TokenBucket::per_second(50));
/// // Requests without an account are not limited here, but for instance by their address.
/// let limit = RequestLimit::by_key_later(per_account, |head| account_of(head.header("x-account").map(str::to_owned)))
///     .without_key(WithoutKey::Skip);
/// # let _ = limit;
/// ```
pub struct ByKeyLater<K, F> {
    pub(super) find: F,
    pub(super) without: WithoutKey<K>,
}

impl<L, K, F, T> Subject<L> for ByKeyLater<K, F>
where
    L: PerKey<K> + Clone + 'static,
    K: Clone + Send + Sync + 'static,
    F: Fn(&Head<'_>) -> T + Send + Sync + 'static,
    T: Future<Output = Option<K>> + Send + 'static,
{
    /// Empty until the lookup is done; then its result.
    type Key = Arc<OnceLock<Option<K>>>;

    fn ask(
        &self,
        limiter: &L,
        head: &Head<'_>,
        take: Option<Take>,
        held: &mut Granted<Self::Key>,
    ) -> Ask {
        // Looked up once: a request that waits for a second key would otherwise restart with the first, and never
        // finish.
        let found = match &held.key {
            Some(found) => Arc::clone(found),
            None => {
                let found = Self::Key::default();
                held.key = Some(Arc::clone(&found));
                let (finding, share, keep) =
                    ((self.find)(head), self.shared_key(), Arc::clone(&found));
                let mut finding: Finding = Box::pin(async move {
                    let key = finding.await.or(share);
                    let _known = keep.set(key);
                });
                // The waker of the task is stored when the future is polled.
                let looked = finding
                    .as_mut()
                    .poll(&mut Context::from_waker(Waker::noop()));
                if looked.is_pending() {
                    return Ask::FindKey(finding);
                }
                found
            }
        };
        let Some(key) = found.get().and_then(Option::as_ref) else {
            return match self.without {
                WithoutKey::Skip => Ask::Pass,
                _ => Ask::Refused(no_key(limiter.name())),
            };
        };
        let Some(take) = take else {
            return Ask::Pass;
        };
        if let Some(permit) = limiter.attempt_owned(key, take.demand) {
            held.permit = Some(permit);
            return Ask::Pass;
        }
        let acquire = |demand| limiter.acquire_owned(key, demand);
        take.slowly(limiter.is_remote(), || limiter.has_queue(), acquire, held)
    }

    fn asked<'a>(&self, limiter: &'a L, key: Option<&'a Self::Key>) -> Asked<'a> {
        match found(key) {
            Some(key) => Asked::Key(Box::new(Key::new(limiter, key))),
            None => Asked::Nothing,
        }
    }

    fn class(&self, _head: &Head<'_>, denied: &Denied) -> Class {
        Class::of_caller(denied)
    }

    fn standing(&self, limiter: &L, key: Option<&Self::Key>) -> Option<Standing> {
        Some(limiter.standing(found(key)?))
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

impl<K: Clone, F> ByKeyLater<K, F> {
    /// The key of requests for which none is found.
    fn shared_key(&self) -> Option<K> {
        match &self.without {
            WithoutKey::Share(key) => Some(key.clone()),
            _ => None,
        }
    }
}

/// The key that was found, if it was looked up already.
fn found<K>(kept: Option<&Arc<OnceLock<Option<K>>>>) -> Option<&K> {
    kept?.get()?.as_ref()
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
