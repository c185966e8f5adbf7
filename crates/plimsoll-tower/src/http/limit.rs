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

/// One limit on requests: which limiter, whose requests, and at what cost.
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
#[must_use = "a limit does nothing until it is put into a layer"]
pub struct RequestLimit<L, W = Everyone> {
    pub(super) limiter: L,
    pub(super) subject: W,
    pub(super) options: Options,
}

type CostOf = Arc<dyn Fn(&Head<'_>) -> u64 + Send + Sync>;

/// What does not depend on the type of the limiter.
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
    /// One limit for all requests.
    pub fn new(limiter: L) -> Self {
        Self {
            limiter,
            subject: Everyone,
            options: Options::default(),
        }
    }
}

impl<L: PerKey<K::Key> + 'static, K: KeyFrom> RequestLimit<L, ByKey<K>> {
    /// A limit for each key. Requests without one are [refused](WithoutKey) unless set otherwise.
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

    /// What becomes of requests that have no key.
    pub fn without_key(mut self, without: WithoutKey<Owned<K>>) -> Self {
        self.subject.without = without;
        self
    }

    /// The same limit, whose keys are found in another way.
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
    /// A limit for each key that `find` finds, which may take a while: an account looked up by its token.
    ///
    /// ```
    /// use plimsoll::{Keyed, TokenBucket};
    /// use plimsoll_tower::{HttpLimitLayer, RequestLimit};
    ///
    /// async fn account_of(token: Option<String>) -> Option<u64> {
    ///     // A database knows.
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

    /// What becomes of requests that have no key.
    pub fn without_key(mut self, without: WithoutKey<K>) -> Self {
        self.subject.without = without;
        self
    }
}

impl<L, W> RequestLimit<L, W> {
    /// A limit that is asked in a way of its own.
    pub(crate) fn with_subject(limiter: L, subject: W) -> Self {
        Self {
            limiter,
            subject,
            options: Options::default(),
        }
    }

    /// The same limit, asked in another way.
    #[cfg(feature = "axum")]
    pub(crate) fn map_subject(mut self, other: impl FnOnce(W) -> W) -> Self {
        self.subject = other(self.subject);
        self
    }

    /// What a request costs; 1 unless set. A cost of 0 takes nothing, and is let through while anything is available.
    pub fn cost(mut self, cost: impl Fn(&Head<'_>) -> u64 + Send + Sync + 'static) -> Self {
        self.options.cost = Some(Arc::new(cost));
        self
    }

    /// A request costs as many as the bytes of its body, or `unknown` where that is not said beforehand.
    ///
    /// A length above what a limiter can grant at once is refused as too large, however large it is.
    pub fn cost_by_content_length(self, unknown: u64) -> Self {
        self.cost(move |head| content_length(head, unknown))
    }

    /// A request costs what its JSON body says, or `unknown` where it does not. A layer further out reads it, the `JsonCost` of
    /// the module `json` (feature `json`); any other that puts a [`BodyCost`](crate::BodyCost) into the extensions does as well.
    pub fn cost_by_json(self, unknown: u64) -> Self {
        self.cost(move |head| match head.extensions().get() {
            Some(BodyCost(cost)) => *cost,
            None => unknown,
        })
    }

    /// What a request really cost, when its response is there: if it is less than what was taken before, the rest is
    /// returned; if it is more, that is [charged](plimsoll::Gate::charge).
    ///
    /// ```
    /// # use plimsoll::{Keyed, TokenBucket};
    /// # use plimsoll_tower::{RequestLimit, keys::{Address, Peer}};
    /// // Only logins that fail count. Until it is known, a login counts as failed, so that many at once gain nothing.
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

    /// What a request really cost, by the bytes of the body that were sent, when it has ended or nobody wants the rest.
    pub fn charge_bytes(mut self, cost: impl Fn(u64) -> u64 + Send + Sync + 'static) -> Self {
        self.options.settle = Settle::ByBytes(Arc::new(cost));
        self
    }

    /// What a request really cost, by what its handler says: it finds a [`Usage`](crate::Usage) in the extensions of
    /// the request, and what that says when the body has ended is charged, as if it had been taken when the request
    /// was let in.
    ///
    /// A caller that hangs up before that pays the [cost](Self::cost) that was taken for the request, or what was reported
    /// so far if that is more, unless the handler has said that its report is [complete](crate::Usage::finish).
    pub fn charge_usage(mut self) -> Self {
        self.options.settle = Settle::ByUsage;
        self
    }

    /// Refuses what cannot be granted at once, even if the limiter has a queue.
    pub const fn shed(mut self) -> Self {
        self.options.sheds = true;
        self
    }

    /// How long a request may wait, for this limit and for all that it has waited for before. As long as it takes, or as the
    /// queue of the limiter allows, if `None`, which it is unless set.
    ///
    /// Time that a request has spent waiting, in this layer and in layers further out, counts: a request that passes
    /// several limits has one deadline, not one for each of them.
    ///
    /// A rate knows when a turn comes, and refuses at once what would come too late. A limit on what is under way cannot
    /// know when others end, and refuses when the time is up.
    pub fn queue_timeout(mut self, longest: impl Into<Option<Duration>>) -> Self {
        self.options.queue_timeout = longest.into();
        self
    }

    /// Takes nothing for a request that a layer further in refuses.
    ///
    /// Unless set, the charge stays: between this layer and the one that refuses, work was done for the request, such as
    /// looking up an account, and whoever has used up the inner limit would have that work for nothing, as often as it
    /// likes. Say this where nothing of value is done between the two, and callers should not pay here for what another
    /// limit does not let them do. Slots are returned in any case.
    pub const fn refund_refused(mut self) -> Self {
        self.options.refunds_refused = true;
        self
    }

    /// Charges a request once, though clones of this limit hang in several places that it passes.
    pub fn once(mut self) -> Self {
        self.options.once = Some(Once::default());
        self
    }
}

impl Options {
    /// Whether a grant is the last that is heard of a request, unless something is to be returned.
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

    /// What is asked where something of it is set.
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

/// The length the request says its body has. Of several the largest counts: nobody pays less by saying two things.
pub(crate) fn content_length(head: &Head<'_>, unknown: u64) -> u64 {
    let lines = head.headers().get_all(CONTENT_LENGTH).iter();
    let lengths = lines.map(|line| length(line.as_bytes()).unwrap_or(unknown));
    lengths.max().unwrap_or(unknown)
}

/// A number of nothing but digits. One that does not fit a cost is the largest.
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
