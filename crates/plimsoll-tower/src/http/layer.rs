use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use plimsoll::{Denied, Outcome};
use tower_layer::Layer;

#[cfg(feature = "axum")]
use super::answering::Answers;
use super::answering::{Answering, SendFields};
use super::limit::RequestLimit;
use super::limits::Limits;
use super::service::HttpLimit;
use super::settle::ResponseHead;
use super::shared::{Settings, Shared};
use crate::answer::Fields;
use crate::endpoint::look;
#[cfg(feature = "metrics")]
use crate::refusals::RefusalLog;
use crate::{Head, PriorityFrom};

/// A layer that applies limits to an HTTP service: a handler, a router, or a whole server.
///
/// The limits are asked in order, and a request is granted by all of them or by none. If a limiter has a queue,
/// requests wait in it. A refusal is a response: 429 with `Retry-After` and `RateLimit` fields for a quota, 503 if the
/// server is full, a status of gRPC for gRPC; each part can be [changed](Self::respond). Permits are returned when the
/// *body* of the response ends, fails or is dropped.
///
/// ```
/// use plimsoll::{Keyed, TokenBucket};
/// use plimsoll_tower::keys::{Address, Peer};
/// use plimsoll_tower::{HttpLimitLayer, RequestLimit};
///
/// let per_address = Keyed::<Address, _>::builder(TokenBucket::per_second(5)).name("per-address").build();
/// let layer = HttpLimitLayer::new(RequestLimit::by_key(per_address, Peer::new()));
/// # let _ = layer;
/// ```
///
/// # Nested layers
///
/// If an inner layer refuses a request, this one returns the permits that the request holds, and keeps the charge: the work
/// between the two layers was done. A limit that is set to [refund](crate::RequestLimit::refund_refused) returns the charge as
/// well. A limit that is used in both layers charges twice, unless it charges [once](crate::RequestLimit::once).
///
/// # Responses to refusals
///
/// | part | default | changed by |
/// |---|---|---|
/// | status | that of the [`Class`](crate::answer::Class) of the refusal | [`respond`](Self::respond) |
/// | body | `application/problem+json` | [`problem`](Self::problem), [`respond`](Self::respond) |
/// | `Retry-After` | if the time to retry is known | [`retry_after`](Self::retry_after), [`retry_full_after`](Self::retry_full_after) |
/// | `RateLimit`, `RateLimit-Policy` | in refusals | [`fields`](Self::fields), [`send_fields`](Self::send_fields) |
/// | extensions | [`Refused`](crate::Refused) | |
#[must_use = "a layer does nothing until it is put before a service"]
pub struct HttpLimitLayer<L> {
    limits: L,
    answering: Answering,
    settings: Settings,
}

impl<L: Limits> HttpLimitLayer<L> {
    /// Creates a layer with one limit, or with a pair of limits.
    ///
    /// ```
    /// use plimsoll::{Concurrency, Gate, TokenBucket};
    /// use plimsoll_tower::{HttpLimitLayer, RequestLimit};
    ///
    /// let rate = RequestLimit::new(Gate::new(TokenBucket::per_second(100)));
    /// let slots = RequestLimit::new(Gate::new(Concurrency::new(20)));
    /// let layer = HttpLimitLayer::new((rate, slots)); // the same as `new(rate).and(slots)`
    /// # let _ = layer;
    /// ```
    pub fn new(limits: L) -> Self {
        Self {
            limits,
            answering: Answering::default(),
            settings: Settings::default(),
        }
    }

    /// Adds another limit, which is asked after the current ones.
    ///
    /// ```
    /// use plimsoll::{Concurrency, Gate, TokenBucket};
    /// use plimsoll_tower::{HttpLimitLayer, RequestLimit};
    ///
    /// let rate = RequestLimit::new(Gate::builder(TokenBucket::per_second(100)).name("rate").build());
    /// let slots = RequestLimit::new(Gate::builder(Concurrency::new(20)).name("slots").build());
    /// // A request that finds no slot takes nothing of the rate.
    /// let layer = HttpLimitLayer::new(rate).and(slots);
    /// # let _ = layer;
    /// ```
    pub fn and<M: Limits>(self, limits: M) -> HttpLimitLayer<(L, M)> {
        HttpLimitLayer {
            limits: (self.limits, limits),
            answering: self.answering,
            settings: self.settings,
        }
    }

    /// The response to a request that is refused on behalf of this layer.
    #[cfg(feature = "axum")]
    pub(crate) fn answer(&self, head: &Head<'_>, denied: Denied) -> Response<Bytes> {
        self.answering.refuse(&self.limits, 0, head, denied)
    }
}

impl<L, W> HttpLimitLayer<RequestLimit<L, W>> {
    /// Refunds the charge of a request that an inner layer refuses. See
    /// [`RequestLimit::refund_refused`](crate::RequestLimit::refund_refused).
    ///
    /// ```
    /// use plimsoll_tower::per_address;
    ///
    /// let layer = per_address(100, 200).refund_refused();
    /// # let _ = layer;
    /// ```
    pub fn refund_refused(self) -> Self {
        self.map_limits(RequestLimit::refund_refused)
    }
}

impl<L> HttpLimitLayer<L> {
    /// The same layer with other limits.
    pub(crate) fn map_limits<M>(self, other: impl FnOnce(L) -> M) -> HttpLimitLayer<M> {
        HttpLimitLayer {
            limits: other(self.limits),
            answering: self.answering,
            settings: self.settings,
        }
    }

    /// Answers like the outer [layer](Self::answers), if there is one.
    #[cfg(feature = "axum")]
    pub(crate) fn inheriting(mut self) -> Self {
        self.answering.inherits = true;
        self
    }

    /// The settings for answers, for the extensions of requests, from which inner layers inherit them.
    #[cfg(feature = "axum")]
    pub(crate) fn answers(&self) -> Answers {
        Answers(Arc::new(self.answering.clone()))
    }

    /// Sets where refusals are recorded.
    #[cfg(feature = "metrics")]
    pub(crate) fn refusal_log(mut self, log: RefusalLog) -> Self {
        self.answering.log = log;
        self
    }

    /// Sets the source of the priority of requests, which orders the queue and decides which waiters are evicted: a
    /// [`PriorityHeader`](crate::PriorityHeader), an [`EndpointPriority`](crate::EndpointPriority), a
    /// [`Priority`](plimsoll::Priority), or a closure. Default: all requests are normal.
    ///
    /// ```
    /// use plimsoll::Priority;
    /// use plimsoll_tower::{Head, load_shedding};
    ///
    /// let layer = load_shedding().priority(|head: &Head<'_>| match head.uri().path() {
    ///     "/health" | "/checkout" => Priority::Critical,
    ///     _ => Priority::Normal,
    /// });
    /// # let _ = layer;
    /// ```
    pub fn priority(mut self, from: impl PriorityFrom) -> Self {
        self.settings.priority = Some(Arc::new(from));
        self
    }

    /// Sets how a response is classified for adaptive limits. Default: [`outcome_of`](crate::outcome_of).
    ///
    /// ```
    /// use plimsoll::Outcome;
    /// use plimsoll_tower::{load_shedding, outcome_of};
    ///
    /// // The latency of a cache hit says nothing about the server behind the cache.
    /// let layer = load_shedding().classify(|response| match response.headers().get("x-cache") {
    ///     Some(cache) if cache == "hit" => Outcome::Ignore,
    ///     _ => outcome_of(response).unwrap_or_default(),
    /// });
    /// # let _ = layer;
    /// ```
    pub fn classify(
        mut self,
        classify: impl Fn(ResponseHead<'_>) -> Outcome + Send + Sync + 'static,
    ) -> Self {
        self.settings.classify = Some(Arc::new(classify));
        self
    }

    /// Returns the permits of a request with the head of its response instead of the end of the body. Use it for bodies
    /// whose duration the caller determines. A cost that depends on the body is still charged when the body has ended.
    ///
    /// ```
    /// use plimsoll::{Concurrency, Gate};
    /// use plimsoll_tower::{HttpLimitLayer, RequestLimit};
    ///
    /// // Streams of events stay open for hours; only the work until they begin is limited.
    /// let streams = RequestLimit::new(Gate::new(Concurrency::new(10)));
    /// let layer = HttpLimitLayer::new(streams).until_head();
    /// # let _ = layer;
    /// ```
    pub const fn until_head(mut self) -> Self {
        self.settings.until_head = true;
        self
    }

    /// Sets the maximum time that a client may stop reading the body of a response. `None`, the default, sets no maximum: a request
    /// then holds its permits as long as the connection lasts, and clients that never read hold slots until their connections are
    /// closed.
    ///
    /// The time counts from the moment at which the server took a part of the body to its next poll. The server polls
    /// for the next part when its buffers have room, that is, when the client has read from a full connection; time in
    /// which the handler has nothing to send does not count. When the time has passed, the permits are returned at once
    /// and the body ends: if it is polled again, it fails with [`Stalled`](crate::Stalled), which closes the
    /// connection, or the stream of HTTP/2. Choose many times the time that the slowest honest client needs for one
    /// part of a body: ten seconds or more.
    ///
    /// ```
    /// use plimsoll::{Concurrency, Gate};
    /// use plimsoll_tower::{HttpLimitLayer, RequestLimit};
    /// use std::time::Duration;
    ///
    /// let downloads = RequestLimit::new(Gate::new(Concurrency::new(100)));
    /// let layer = HttpLimitLayer::new(downloads).stall_timeout(Duration::from_secs(30));
    /// # let _ = layer;
    /// ```
    pub fn stall_timeout(mut self, longest: impl Into<Option<Duration>>) -> Self {
        self.settings.stall = longest.into();
        self
    }

    /// Sets the header fields that describe limits. Default: [`Fields::STANDARD`].
    ///
    /// ```
    /// use plimsoll_tower::{answer::Fields, per_address};
    ///
    /// // The old field names, for clients that do not know the new ones.
    /// let layer = per_address(5, 10).fields(Fields::ALL);
    /// # let _ = layer;
    /// ```
    pub const fn fields(mut self, fields: Fields) -> Self {
        self.answering.fields = fields;
        self
    }

    /// Sets which responses carry the [fields](Self::fields). Default: refusals.
    ///
    /// ```
    /// use plimsoll_tower::{SendFields, per_address};
    ///
    /// // Clients see the remaining units before they reach the limit.
    /// let layer = per_address(5, 10).send_fields(SendFields::Always);
    /// # let _ = layer;
    /// ```
    pub const fn send_fields(mut self, when: SendFields) -> Self {
        self.answering.send_fields = when;
        self
    }

    /// Sets whether refusals have a `Retry-After`. Default: `true`. Without it, clients choose their own times to
    /// retry, which spreads the retries.
    pub const fn retry_after(mut self, wanted: bool) -> Self {
        self.answering.retry_after = wanted;
        self
    }

    /// Sets the `Retry-After` of refusals for which the time to retry is unknown: the server is full (503), or the caller has
    /// reached its number of concurrent requests (429). Default: none. gRPC carries it as well.
    ///
    /// ```
    /// use plimsoll::{Concurrency, Gate};
    /// use plimsoll_tower::{HttpLimitLayer, RequestLimit};
    /// use std::time::Duration;
    ///
    /// let slots = RequestLimit::new(Gate::new(Concurrency::new(100)));
    /// let layer = HttpLimitLayer::new(slots).retry_full_after(Duration::from_secs(2));
    /// # let _ = layer;
    /// ```
    pub const fn retry_full_after(mut self, wait: Duration) -> Self {
        self.answering.retry_full_after = Some(wait);
        self
    }

    /// Sets whether the body of a refusal is `application/problem+json` or a phrase of plain text. Default: `true`. See
    /// [`answer::problem`](crate::answer::problem) for the members of a problem.
    pub const fn problem(mut self, wanted: bool) -> Self {
        self.answering.problem = wanted;
        self
    }

    /// Sets a function that makes the response to a refusal. The layer adds those of its header fields that the
    /// response does not have.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use http::Response;
    /// use plimsoll_tower::answer::Class;
    /// use plimsoll_tower::per_address;
    ///
    /// let layer = per_address(5, 10).respond(|_request, denied| {
    ///     let mut response = Response::new(Bytes::from_static(b"slow down"));
    ///     *response.status_mut() = Class::of(denied).status();
    ///     response
    /// });
    /// # let _ = layer;
    /// ```
    pub fn respond(
        mut self,
        respond: impl Fn(&Head<'_>, &Denied) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        self.answering.respond = Some(Arc::new(respond));
        self
    }

    /// Sets a hook that is called with every refused request.
    ///
    /// ```
    /// use plimsoll_tower::per_address;
    ///
    /// let layer = per_address(5, 10).on_refused(|request, denied| {
    ///     eprintln!("{} {}: {}", request.method(), request.uri().path(), denied.reason());
    /// });
    /// # let _ = layer;
    /// ```
    pub fn on_refused(mut self, hook: impl Fn(&Head<'_>, &Denied) + Send + Sync + 'static) -> Self {
        self.answering.on_refused = Some(Arc::new(hook));
        self
    }

    /// Sets a hook that is called with every admitted request, before the service is called.
    ///
    /// ```
    /// use plimsoll_tower::per_address;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// static ADMITTED: AtomicU64 = AtomicU64::new(0);
    ///
    /// let layer = per_address(5, 10).on_admitted(|_request| {
    ///     ADMITTED.fetch_add(1, Ordering::Relaxed);
    /// });
    /// # let _ = layer;
    /// ```
    pub fn on_admitted(mut self, hook: impl Fn(&Head<'_>) + Send + Sync + 'static) -> Self {
        self.answering.on_admitted = Some(Arc::new(hook));
        self
    }
}

impl<S: Clone, L: Clone> Layer<S> for HttpLimitLayer<L> {
    type Service = HttpLimit<S, L>;

    /// Applies the limits to a service. All services made by this layer share the limits.
    fn layer(&self, inner: S) -> Self::Service {
        let mut shared = self.shared();
        let declares = || look(&inner).priority;
        let from = shared.settings.priority.as_ref();
        if let Some(here) = from.and_then(|from| from.at_endpoint(&declares)) {
            shared.settings.priority = Some(here);
        }
        HttpLimit::new(inner, Arc::new(shared))
    }
}

impl<L: Clone> HttpLimitLayer<L> {
    fn shared(&self) -> Shared<L> {
        Shared {
            limits: self.limits.clone(),
            answering: self.answering.clone(),
            settings: self.settings.clone(),
        }
    }
}

impl<L: Clone> Clone for HttpLimitLayer<L> {
    fn clone(&self) -> Self {
        Self {
            limits: self.limits.clone(),
            answering: self.answering.clone(),
            settings: self.settings.clone(),
        }
    }
}

impl<L: fmt::Debug> fmt::Debug for HttpLimitLayer<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpLimitLayer")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
