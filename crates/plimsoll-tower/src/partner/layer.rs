use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};

use http::Response;
use pin_project_lite::pin_project;
use plimsoll::{Gate, Limiter, Moment, Pausable, Rule, TokenBucket};
use tower_layer::Layer;
use tower_service::Service;

use super::learn::{LearnRate, Learner};
use super::upstream::UpstreamLimits;
use crate::admit::Whole;
use crate::{Limit, LimitLayer};

/// A limiter that can be paused. Implemented by a [`Gate`] with a [`Pausable`] rule.
pub trait Pauses: Send + Sync + 'static {
    /// Pauses the limiter for this time, in which it grants nothing. Overlapping pauses do not add up: the one that
    /// ends last counts.
    fn pause_for(&self, span: Duration);
}

impl<R: Rule> Pauses for Gate<Pausable<R>> {
    fn pause_for(&self, span: Duration) {
        Self::pause_for(self, span);
    }
}

/// A layer for clients of an upstream that has limits. Each call asks your own limiter first; after a response that demands a
/// pause, no call is sent before the pause has ended. See the [module](super).
///
/// A refused call is an error, [`LimitError`](crate::LimitError). If the limiter has a queue, calls wait in it, also during
/// pauses. The layer reads every response with [`UpstreamLimits::read`], and pauses the limiter for the time that
/// [`UpstreamLimits::pause`] returns.
///
/// ```
/// use plimsoll::{Gate, Pausable, TokenBucket};
/// use plimsoll_tower::partner::PartnerLayer;
/// use tower::{Layer, ServiceExt, service_fn};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let gate = Gate::new(Pausable::new(TokenBucket::per_second(10)));
/// let client = PartnerLayer::new(gate).layer(service_fn(async |_: http::Request<()>| {
///     http::Response::builder().status(429).header("retry-after", "30").body(())
/// }));
/// let response = client.clone().oneshot(http::Request::new(())).await.unwrap();
/// assert_eq!(response.status(), 429);
/// // The next call is not sent: the upstream wants no calls for 30 s.
/// let error = client.oneshot(http::Request::new(())).await.unwrap_err();
/// assert!(error.denied().unwrap().retry_after().unwrap().as_secs() >= 29);
/// # });
/// ```
#[derive(Clone)]
#[must_use = "a layer does nothing until it is put before a service"]
pub struct PartnerLayer<L> {
    limit: LimitLayer<Whole<L>>,
    policy: PausePolicy<L>,
}

/// The default maximum of a pause.
const MAX_PAUSE: Duration = Duration::from_secs(3600);

impl<L: Limiter + Pauses + Clone> PartnerLayer<L> {
    /// Asks this limiter before each call, and pauses it as responses demand.
    pub fn new(limiter: L) -> Self {
        Self {
            policy: PausePolicy {
                limiter: limiter.clone(),
                max_pause: MAX_PAUSE,
                on_upstream_limits: None,
                learner: None,
            },
            limit: LimitLayer::new(limiter),
        }
    }

    /// Sets the maximum time for which one response can pause the limiter. Default: one hour.
    ///
    /// ```
    /// use plimsoll::{Gate, Pausable, TokenBucket};
    /// use plimsoll_tower::partner::PartnerLayer;
    /// use std::time::Duration;
    ///
    /// let gate = Gate::new(Pausable::new(TokenBucket::per_second(10)));
    /// // An upstream that asks for a pause of a day by mistake stops the calls for a minute.
    /// let layer = PartnerLayer::new(gate).max_pause(Duration::from_secs(60));
    /// # let _ = layer;
    /// ```
    pub fn max_pause(mut self, max: Duration) -> Self {
        self.policy.max_pause = max;
        self
    }

    /// Sets a hook that is called with the rate-limit headers of each response that has any, for instance to log them or to change
    /// the limiter.
    ///
    /// ```
    /// use plimsoll::{Gate, Pausable, TokenBucket};
    /// use plimsoll_tower::partner::PartnerLayer;
    ///
    /// let gate = Gate::new(Pausable::new(TokenBucket::per_second(10)));
    /// let layer = PartnerLayer::new(gate).on_upstream_limits(|upstream| {
    ///     for limit in &upstream.limits {
    ///         println!("{}: {:?} of {:?} left", limit.name, limit.remaining, limit.quota);
    ///     }
    /// });
    /// # let _ = layer;
    /// ```
    pub fn on_upstream_limits(
        mut self,
        hook: impl Fn(&UpstreamLimits) + Send + Sync + 'static,
    ) -> Self {
        self.policy.on_upstream_limits = Some(Arc::new(hook));
        self
    }
}

impl PartnerLayer<Gate<Pausable<TokenBucket>>> {
    /// Learns the rate of the limiter from the responses of the upstream, for upstreams whose quota is unknown. The rate of the
    /// limiter is replaced by the initial rate of `learn`.
    ///
    /// ```
    /// use plimsoll::{Gate, Pausable, Queue, Quota, TokenBucket};
    /// use plimsoll_tower::partner::PartnerLayer;
    ///
    /// let gate = Gate::builder(Pausable::new(TokenBucket::per_second(10))).queue(Queue::fifo(100)).build();
    /// let layer = PartnerLayer::new(gate).learn_rate(Quota::per_second(10));
    /// assert_eq!(layer.learned_rate(), Some(10.0));
    /// ```
    pub fn learn_rate(mut self, learn: impl Into<LearnRate>) -> Self {
        let learner = Learner::new(self.policy.limiter.clone(), learn.into());
        self.policy.learner = Some(learner);
        self
    }

    /// Changes the bounds of learning, also for services that were made before. The learned rate stays, clamped to the new bounds.
    /// Does nothing without [`learn_rate`](Self::learn_rate).
    ///
    /// ```
    /// use plimsoll::{Gate, Pausable, Quota, TokenBucket};
    /// use plimsoll_tower::partner::{LearnRate, PartnerLayer};
    ///
    /// let gate = Gate::new(Pausable::new(TokenBucket::per_second(10)));
    /// let layer = PartnerLayer::new(gate).learn_rate(Quota::per_second(10));
    /// layer.change_rate(LearnRate::from(Quota::per_second(1)).max(Quota::per_second(4)));
    /// assert_eq!(layer.learned_rate(), Some(4.0));
    /// ```
    pub fn change_rate(&self, learn: impl Into<LearnRate>) {
        if let Some(learner) = &self.policy.learner {
            learner.change(learn.into());
        }
    }

    /// Stops learning. The limiter keeps its current rate.
    pub fn without_learning(mut self) -> Self {
        self.policy.learner = None;
        self
    }

    /// Returns the limiter that is asked before each call.
    #[must_use]
    pub const fn limiter(&self) -> &Gate<Pausable<TokenBucket>> {
        &self.policy.limiter
    }

    /// Returns the [learned](Self::learn_rate) rate in calls per second. `None` if the layer does not learn.
    #[must_use]
    pub fn learned_rate(&self) -> Option<f64> {
        Some(self.policy.learner.as_ref()?.rate())
    }
}

impl<S, L: Limiter + Pauses + Clone> Layer<S> for PartnerLayer<L> {
    type Service = Limit<Pausing<S, L>, Whole<L>>;

    fn layer(&self, inner: S) -> Self::Service {
        self.limit.layer(Pausing {
            inner,
            policy: self.policy.clone(),
        })
    }
}

impl<L> fmt::Debug for PartnerLayer<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartnerLayer").finish_non_exhaustive()
    }
}

type OnUpstreamLimits = Arc<dyn Fn(&UpstreamLimits) + Send + Sync>;

/// The handling of responses.
#[derive(Clone)]
struct PausePolicy<L> {
    limiter: L,
    max_pause: Duration,
    on_upstream_limits: Option<OnUpstreamLimits>,
    learner: Option<Arc<Learner>>,
}

impl<L: Pauses> PausePolicy<L> {
    /// The start of a call, if the layer learns.
    fn begun(&self) -> Option<Moment> {
        self.learner.as_ref().map(|learner| learner.now())
    }

    fn answered<B>(&self, began: Option<Moment>, response: &Response<B>) {
        #[expect(
            clippy::disallowed_methods,
            reason = "dates in fields are those of the calendar, and no clock of a limiter"
        )]
        let upstream = UpstreamLimits::read(response.headers(), SystemTime::now());
        if let Some(pause) = upstream.pause(response.status()) {
            self.limiter.pause_for(pause.min(self.max_pause));
        }
        if let (Some(learner), Some(began)) = (&self.learner, began) {
            learner.answered(began, response.status(), &upstream);
        }
        if let Some(hook) = &self.on_upstream_limits
            && upstream != UpstreamLimits::default()
        {
            hook(&upstream);
        }
    }
}

/// A service that pauses as upstream responses demand. A [`PartnerLayer`] makes one, behind its [`Limit`].
///
/// It passes requests, responses and errors on unchanged. Errors of the inner service, such as a connection that fails, pause
/// nothing.
#[derive(Clone)]
pub struct Pausing<S, L> {
    inner: S,
    policy: PausePolicy<L>,
}

impl<S, L, Request, B> Service<Request> for Pausing<S, L>
where
    S: Service<Request, Response = Response<B>>,
    L: Pauses + Clone,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = PausingFuture<S::Future, L>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        PausingFuture {
            began: self.policy.begun(),
            call: self.inner.call(request),
            policy: self.policy.clone(),
        }
    }
}

impl<S: fmt::Debug, L> fmt::Debug for Pausing<S, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pausing").field(&self.inner).finish()
    }
}

pin_project! {
    /// The future of a call of a [`Pausing`] service. It reads the rate-limit headers when the response is there.
    pub struct PausingFuture<F, L> {
        #[pin]
        call: F,
        policy: PausePolicy<L>,
        began: Option<Moment>,
    }
}

impl<F, L, B, E> Future for PausingFuture<F, L>
where
    F: Future<Output = Result<Response<B>, E>>,
    L: Pauses,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = ready!(this.call.poll(cx));
        if let Ok(response) = &answer {
            this.policy.answered(*this.began, response);
        }
        Poll::Ready(answer)
    }
}

impl<F, L> fmt::Debug for PausingFuture<F, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PausingFuture").finish_non_exhaustive()
    }
}
