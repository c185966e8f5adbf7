use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_LENGTH;
use plimsoll::{Demand, Limiter, PerKey};

use super::by_key_later::ByKeyLater;
use super::once::Once;
use super::settle::{ResponseHead, Settle};
use super::subject::{ByKey, Everyone, Owned, WithoutKey};
use super::usage::BodyCost;
use super::waited::waited;
use crate::{Head, KeyFrom};

/// One limit on requests: the limiter, the key that requests count by, and their cost.
///
/// Pass it to an [`HttpLimitLayer`](crate::HttpLimitLayer), alone or with [others](crate::HttpLimitLayer::and):
///
/// ```
/// use plimsoll::{Concurrency, Gate, Keyed, Queue, TokenBucket};
/// use plimsoll_tower::keys::{Address, Peer};
/// use plimsoll_tower::{HttpLimitLayer, RequestLimit};
///
/// let slots = Gate::builder(Concurrency::new(100)).queue(Queue::fifo(50)).name("slots").build();
/// let rate = Keyed::<Address, _>::builder(TokenBucket::per_second(5)).name("per-address").build();
/// let layer = HttpLimitLayer::new(RequestLimit::by_key(rate, Peer::new())).and(RequestLimit::new(slots));
/// # let _ = layer;
/// ```
///
/// | question | methods | default |
/// |---|---|---|
/// | Which requests share a limit? | [`new`](RequestLimit::new), [`by_key`](RequestLimit::by_key), [`by_key_later`](RequestLimit::by_key_later) | |
/// | What does a request cost at first? | [`cost`](Self::cost), [`cost_by_content_length`](Self::cost_by_content_length), [`cost_by_json`](Self::cost_by_json) | 1 |
/// | What did it cost in the end? | [`charge_response`](Self::charge_response), [`charge_bytes`](Self::charge_bytes), [`charge_usage`](Self::charge_usage) | the same |
/// | How long may it wait? | [`shed`](Self::shed), [`queue_timeout`](Self::queue_timeout) | as the queue of the limiter allows |
/// | What if an inner layer refuses it? | [`refund_refused`](Self::refund_refused) | the charge stays |
/// | What if it passes the limit twice? | [`once`](Self::once) | it is charged twice |
#[must_use = "a limit does nothing until it is put into a layer"]
pub struct RequestLimit<L, W = Everyone> {
    pub(super) limiter: L,
    pub(super) subject: W,
    pub(super) options: Options,
}

type CostOf = Arc<dyn Fn(&Head<'_>) -> u64 + Send + Sync>;

/// The settings that do not depend on the type of the limiter.
#[derive(Clone, Default)]
pub(super) struct Options {
    cost: Option<CostOf>,
    pub(super) settle: Settle,
    queue_timeout: Option<Duration>,
    sheds: bool,
    pub(super) once: Option<Once>,
    pub(super) refunds_refused: bool,
}

impl<L: Limiter + 'static> RequestLimit<L> {
    /// Limits all requests by one limiter.
    pub fn new(limiter: L) -> Self {
        Self {
            limiter,
            subject: Everyone,
            options: Options::default(),
        }
    }
}

impl<L: PerKey<K::Key> + 'static, K: KeyFrom> RequestLimit<L, ByKey<K>> {
    /// Limits requests by key: each key has a limit of its own. Requests without a key are [refused](WithoutKey) unless set
    /// otherwise.
    ///
    /// ```
    /// use plimsoll::{Keyed, TokenBucket};
    /// use plimsoll_tower::keys::HeaderKey;
    /// use plimsoll_tower::{HttpLimitLayer, RequestLimit};
    ///
    /// let per_tenant: Keyed<String, _> = Keyed::new(TokenBucket::per_second(50));
    /// let limit = RequestLimit::by_key(per_tenant, HeaderKey::named("x-tenant")?);
    /// let layer = HttpLimitLayer::new(limit);
    /// # let _ = layer;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn by_key(limiter: L, key: K) -> Self {
        Self {
            limiter,
            subject: ByKey {
                key,
                without: WithoutKey::Refuse,
            },
            options: Options::default(),
        }
    }

    /// Sets how requests without a key are handled. Default: [`WithoutKey::Refuse`].
    pub fn without_key(mut self, without: WithoutKey<Owned<K>>) -> Self {
        self.subject.without = without;
        self
    }

    /// The same limit with another key.
    pub(crate) fn with_key(mut self, key: K) -> Self {
        self.subject.key = key;
        self
    }
}

impl<L, K, F, T> RequestLimit<L, ByKeyLater<K, F>>
where
    L: PerKey<K> + Clone + 'static,
    F: Fn(&Head<'_>) -> T,
    T: Future<Output = Option<K>>,
{
    /// Limits requests by a key that `find` looks up asynchronously, such as an account by its token.
    ///
    /// The request waits for the lookup before it is decided. If `find` resolves to `None`, the request has no key. The time of the
    /// lookup counts towards the [`queue_timeout`](Self::queue_timeout).
    ///
    /// ```
    /// use plimsoll::{Keyed, TokenBucket};
    /// use plimsoll_tower::{HttpLimitLayer, RequestLimit};
    ///
    /// async fn account_of(token: Option<String>) -> Option<u64> {
    ///     // A database query.
    ///     token.map(|token| token.len() as u64)
    /// }
    ///
    /// let per_account: Keyed<u64, _> = Keyed::new(TokenBucket::per_second(50));
    /// let limit = RequestLimit::by_key_later(per_account, |head| {
    ///     account_of(head.header("authorization").map(str::to_owned))
    /// });
    /// let layer = HttpLimitLayer::new(limit);
    /// # let _ = layer;
    /// ```
    pub fn by_key_later(limiter: L, find: F) -> Self {
        Self {
            limiter,
            subject: ByKeyLater {
                find,
                without: WithoutKey::Refuse,
            },
            options: Options::default(),
        }
    }

    /// Sets how requests without a key are handled. Default: [`WithoutKey::Refuse`].
    pub fn without_key(mut self, without: WithoutKey<K>) -> Self {
        self.subject.without = without;
        self
    }
}

impl<L, W> RequestLimit<L, W> {
    /// A limit with a subject of its own.
    pub(crate) fn with_subject(limiter: L, subject: W) -> Self {
        Self {
            limiter,
            subject,
            options: Options::default(),
        }
    }

    /// The same limit with another subject.
    #[cfg(feature = "axum")]
    pub(crate) fn map_subject(mut self, other: impl FnOnce(W) -> W) -> Self {
        self.subject = other(self.subject);
        self
    }

    /// Sets the cost of a request. Default: 1. A cost of 0 takes nothing, and is granted while anything is available.
    ///
    /// ```
    /// use plimsoll::{Gate, TokenBucket};
    /// use plimsoll_tower::RequestLimit;
    ///
    /// // A search costs ten times as much as any other request.
    /// let limit = RequestLimit::new(Gate::new(TokenBucket::per_second(100)))
    ///     .cost(|head| if head.uri().path() == "/search" { 10 } else { 1 });
    /// ```
    pub fn cost(mut self, cost: impl Fn(&Head<'_>) -> u64 + Send + Sync + 'static) -> Self {
        self.options.cost = Some(Arc::new(cost));
        self
    }

    /// Sets the cost of a request to the length of its body in bytes, or to `unknown` if the request does not state it.
    ///
    /// A length above the maximum that the limiter can grant at once is refused as too large. If the request states several
    /// lengths, the largest counts.
    ///
    /// ```
    /// use plimsoll::{Gate, TokenBucket};
    /// use plimsoll_tower::RequestLimit;
    ///
    /// // 10 MiB of uploads per second. A chunked body costs 64 KiB.
    /// let uploads = RequestLimit::new(Gate::new(TokenBucket::per_second(10 << 20))).cost_by_content_length(64 << 10);
    /// ```
    pub fn cost_by_content_length(self, unknown: u64) -> Self {
        self.cost(move |head| content_length(head, unknown))
    }

    /// Sets the cost of a request to the cost in its JSON body, or to `unknown` if the body has none. An outer layer reads it: the
    /// `JsonCost` of the module `json` (feature `json`), or any other layer that inserts a [`BodyCost`](crate::BodyCost) into the
    /// extensions of the request.
    pub fn cost_by_json(self, unknown: u64) -> Self {
        self.cost(move |head| match head.extensions().get() {
            Some(BodyCost(cost)) => *cost,
            None => unknown,
        })
    }

    /// Settles the cost from the response. If the final cost is lower than the cost taken before, the difference is
    /// refunded; if it is higher, the difference is [charged](plimsoll::Gate::charge).
    ///
    /// ```
    /// # use plimsoll::{Keyed, TokenBucket};
    /// # use plimsoll_tower::{RequestLimit, keys::{Address, Peer}};
    /// // Only failed logins count. Until the response is there a login counts as failed, so that concurrent ones gain nothing.
    /// # let keyed: Keyed<Address, _> = Keyed::new(TokenBucket::per_second(1));
    /// let logins = RequestLimit::by_key(keyed, Peer::new())
    ///     .charge_response(|response| u64::from(response.status() == 401));
    /// ```
    pub fn charge_response(
        mut self,
        cost: impl Fn(ResponseHead<'_>) -> u64 + Send + Sync + 'static,
    ) -> Self {
        self.options.settle = Settle::ByResponse(Arc::new(cost));
        self
    }

    /// Settles the cost from the body bytes: `cost` is called with the number of bytes of the response body that were sent, when
    /// the body has ended, failed or been dropped.
    ///
    /// ```
    /// use plimsoll::{Gate, TokenBucket};
    /// use plimsoll_tower::RequestLimit;
    ///
    /// // One unit for each started KiB.
    /// let downloads = RequestLimit::new(Gate::new(TokenBucket::per_second(10_000)))
    ///     .charge_bytes(|bytes| bytes.div_ceil(1024));
    /// ```
    pub fn charge_bytes(mut self, cost: impl Fn(u64) -> u64 + Send + Sync + 'static) -> Self {
        self.options.settle = Settle::ByBytes(Arc::new(cost));
        self
    }

    /// Settles the cost from the usage reported by the handler. The handler finds a [`Usage`](crate::Usage) in the extensions of
    /// the request; its total is charged when the body of the response has ended, as if it had been taken when the request was
    /// admitted.
    ///
    /// A caller that disconnects before that is charged the [cost](Self::cost) that was taken for the request, or the usage
    /// reported so far if that is more, unless the handler has marked the usage as [complete](crate::Usage::finish).
    ///
    /// ```
    /// use http::{Request, Response};
    /// use plimsoll_tower::Usage;
    ///
    /// async fn query<B>(request: Request<B>) -> Response<String> {
    ///     let rows = 42;
    ///     if let Some(usage) = request.extensions().get::<Usage>() {
    ///         usage.add(rows);
    ///         usage.finish();
    ///     }
    ///     Response::new(format!("{rows} rows"))
    /// }
    /// ```
    pub fn charge_usage(mut self) -> Self {
        self.options.settle = Settle::ByUsage;
        self
    }

    /// Refuses requests that cannot be granted at once, even if the limiter has a queue.
    pub const fn shed(mut self) -> Self {
        self.options.sheds = true;
        self
    }

    /// Sets the maximum time that a request may wait for this limit and all limits before it. `None`, the default, sets no maximum:
    /// a request waits as long as the queue of the limiter allows.
    ///
    /// Time that a request has already waited, in this layer and in outer layers, counts: a request that passes several limits has
    /// one deadline, not one for each limit.
    ///
    /// A rate limit knows when a request would be granted, and refuses at once if that is too late. A concurrency limit does not
    /// know when other requests end, and refuses when the time is up.
    pub fn queue_timeout(mut self, longest: impl Into<Option<Duration>>) -> Self {
        self.options.queue_timeout = longest.into();
        self
    }

    /// Refunds the charge of a request that an inner layer refuses.
    ///
    /// By default the charge stays: between this layer and the inner one, work was done for the request, such as looking up an
    /// account, and a caller that has used up the inner limit could repeat that work for free. Set this if nothing expensive is
    /// done between the two layers, and callers should not pay here for requests that another limit refuses. Permits of concurrency
    /// limits are returned in any case.
    pub const fn refund_refused(mut self) -> Self {
        self.options.refunds_refused = true;
        self
    }

    /// Charges a request once, although it passes clones of this limit in several layers.
    ///
    /// ```
    /// use plimsoll::{Gate, TokenBucket};
    /// use plimsoll_tower::{HttpLimitLayer, RequestLimit};
    ///
    /// let limit = RequestLimit::new(Gate::new(TokenBucket::per_second(100))).once();
    /// // A request through both layers is charged by the outer one only.
    /// let (outer, inner) = (HttpLimitLayer::new(limit.clone()), HttpLimitLayer::new(limit));
    /// # let _ = (outer, inner);
    /// ```
    pub fn once(mut self) -> Self {
        self.options.once = Some(Once::default());
        self
    }
}

impl Options {
    /// Whether nothing is left to do after a grant, unless permits are to be returned.
    #[inline]
    pub(super) const fn are_final(&self) -> bool {
        self.once.is_none() && !self.refunds_refused && matches!(self.settle, Settle::Never)
    }

    #[inline(always)]
    pub(super) fn demand(&self, head: &Head<'_>) -> Demand {
        match self {
            Self {
                cost: None,
                queue_timeout: None,
                sheds: false,
                ..
            } => Demand::ONE,
            _ => self.set_demand(head),
        }
    }

    /// The demand where some of the options are set.
    #[inline(never)]
    fn set_demand(&self, head: &Head<'_>) -> Demand {
        let demand = Demand::of(self.cost.as_ref().map_or(1, |cost| cost(head)));
        match self.queue_timeout {
            _ if self.sheds => demand.at_once(),
            Some(longest) => match longest.saturating_sub(waited(head)) {
                Duration::ZERO => demand.at_once(),
                left => demand.within(left),
            },
            None => demand,
        }
    }
}

/// The stated length of the body. Of several lengths the largest counts, so that a caller cannot pay less by sending two.
pub(crate) fn content_length(head: &Head<'_>, unknown: u64) -> u64 {
    let lines = head.headers().get_all(CONTENT_LENGTH).iter();
    let lengths = lines.map(|line| length(line.as_bytes()).unwrap_or(unknown));
    lengths.max().unwrap_or(unknown)
}

/// A number that consists of digits only. A number that does not fit saturates.
fn length(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |length, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        Some(length.saturating_mul(10).saturating_add(digit))
    })
}

impl<L: Clone, W: Clone> Clone for RequestLimit<L, W> {
    /// A clone is the same limit.
    fn clone(&self) -> Self {
        Self {
            limiter: self.limiter.clone(),
            subject: self.subject.clone(),
            options: self.options.clone(),
        }
    }
}

impl<L: fmt::Debug, W: fmt::Debug> fmt::Debug for RequestLimit<L, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestLimit")
            .field("limiter", &self.limiter)
            .field("subject", &self.subject)
            .finish_non_exhaustive()
    }
}
