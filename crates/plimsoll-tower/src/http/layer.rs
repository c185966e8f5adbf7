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

/// Puts limits before a service that speaks HTTP: a handler, a router, a whole server.
///
/// The limits are asked in order, and a request is granted all of them or none. A refusal is a response: 429 with
/// `Retry-After` and `RateLimit` fields for a quota, 503 if the server is full, a status of gRPC for gRPC, each of it as
/// [set](Self::fields). Permits are returned when the *body* of the response has ended, failed or been dropped. If a
/// limiter has a queue, requests wait in it.
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
/// # Layers inside of layers
///
/// If a layer further in refuses, this one returns the slots that the request holds, and keeps what it has charged: the
/// work between the two layers was done. A limit that is set to
/// [refund](crate::RequestLimit::refund_refused) returns that as well. A limit that is used in both layers charges twice,
/// unless it charges [once](crate::RequestLimit::once).
#[must_use = "a layer does nothing until it is put before a service"]
pub struct HttpLimitLayer<L> {
    limits: L,
    answering: Answering,
    settings: Settings,
}

impl<L: Limits> HttpLimitLayer<L> {
    /// A layer with one limit, or with a pair of them.
    pub fn new(limits: L) -> Self {
        Self {
            limits,
            answering: Answering::default(),
            settings: Settings::default(),
        }
    }

    /// Another limit, asked after those that are there.
    pub fn and<M: Limits>(self, limits: M) -> HttpLimitLayer<(L, M)> {
        HttpLimitLayer {
            limits: (self.limits, limits),
            answering: self.answering,
            settings: self.settings,
        }
    }

    /// The answer to a request that is refused on behalf of this layer.
    #[cfg(feature = "axum")]
    pub(crate) fn answer(&self, head: &Head<'_>, denied: Denied) -> Response<Bytes> {
        self.answering.refuse(&self.limits, 0, head, denied)
    }
}

impl<L, W> HttpLimitLayer<RequestLimit<L, W>> {
    /// Takes nothing for a request that a layer further in refuses. See
    /// [`RequestLimit::refund_refused`](crate::RequestLimit::refund_refused).
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

    /// Answers as the [layer](Self::answers) around it does, if there is one.
    #[cfg(feature = "axum")]
    pub(crate) fn inheriting(mut self) -> Self {
        self.answering.inherits = true;
        self
    }

    /// How it answers, for the extensions of requests, where those that inherit it find it.
    #[cfg(feature = "axum")]
    pub(crate) fn answers(&self) -> Answers {
        Answers(Arc::new(self.answering.clone()))
    }

    /// Where refusals are recorded.
    #[cfg(feature = "metrics")]
    pub(crate) fn refusal_log(mut self, log: RefusalLog) -> Self {
        self.answering.log = log;
        self
    }

    /// The priority of requests, which decides who is served first and who is evicted from a queue: a
    /// [`PriorityHeader`](crate::PriorityHeader), an [`EndpointPriority`](crate::EndpointPriority), a
    /// [`Priority`](plimsoll::Priority), a closure. Normal unless set.
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

    /// What a response says about the load, for adaptive limits; [`outcome_of`](crate::outcome_of) unless set.
    ///
    /// ```
    /// use plimsoll::Outcome;
    /// use plimsoll_tower::{load_shedding, outcome_of};
    ///
    /// // The cache answers in no time, which says nothing about the server behind it.
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

    /// Returns the permits of a request with the head of its response, whatever becomes of the body: for bodies that last
    /// as long as the caller likes. A cost that depends on the body is still charged when the body has ended.
    pub const fn until_head(mut self) -> Self {
        self.settings.until_head = true;
        self
    }

    /// How long a caller may go without reading on. Off if `None`, which it is unless set: a body holds what its request holds for as long as
    /// the connection lasts, and clients that never read hold slots until somebody closes their connections.
    ///
    /// Counted is the time between a part of the body that the server took and the next one it asks for. It takes the next
    /// one when its buffers have room, that is, when the client has read from a full connection; time in which the handler has
    /// nothing to send does not count. When it has passed, what the request holds is returned at once and the body is
    /// over: if it is read on after all, it fails with [`Stalled`](crate::Stalled), which ends the connection, or the stream
    /// of HTTP/2. Choose many times what the slowest honest client needs for one part of a body, some ten seconds or more.
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

    /// Which header fields describe limits; the standard ones unless set.
    pub const fn fields(mut self, fields: Fields) -> Self {
        self.answering.fields = fields;
        self
    }

    /// Which responses carry the [fields](Self::fields); refusals unless set.
    ///
    /// ```
    /// use plimsoll_tower::{SendFields, per_address};
    ///
    /// // Clients see what is left before they run into the limit.
    /// let layer = per_address(5, 10).send_fields(SendFields::Always);
    /// # let _ = layer;
    /// ```
    pub const fn send_fields(mut self, when: SendFields) -> Self {
        self.answering.send_fields = when;
        self
    }

    /// Whether refusals have a `Retry-After`; they do unless set.
    pub const fn retry_after(mut self, wanted: bool) -> Self {
        self.answering.retry_after = wanted;
        self
    }

    /// The `Retry-After` of refusals for which nobody knows when there is room: if the server is full (503), or as many
    /// requests of a caller are in flight as it may have (429). None unless set. gRPC carries it as well.
    pub const fn retry_full_after(mut self, wait: Duration) -> Self {
        self.answering.retry_full_after = Some(wait);
        self
    }

    /// Whether the body of a refusal is `application/problem+json`, which it is unless set, or a phrase.
    pub const fn problem(mut self, wanted: bool) -> Self {
        self.answering.problem = wanted;
        self
    }

    /// Answers refusals with a response of your own. The header fields of the layer are added where it has none.
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

    /// Called with every request that is refused.
    pub fn on_refused(mut self, hook: impl Fn(&Head<'_>, &Denied) + Send + Sync + 'static) -> Self {
        self.answering.on_refused = Some(Arc::new(hook));
        self
    }

    /// Called with every request that is let through.
    pub fn on_admitted(mut self, hook: impl Fn(&Head<'_>) + Send + Sync + 'static) -> Self {
        self.answering.on_admitted = Some(Arc::new(hook));
        self
    }
}

impl<S: Clone, L: Clone> Layer<S> for HttpLimitLayer<L> {
    type Service = HttpLimit<S, L>;

    /// Every service made by this layer has the same limits.
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
