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
use super::told::Told;
use crate::admit::Whole;
use crate::{Limit, LimitLayer};

/// A limiter that can be paused.
pub trait Pauses: Send + Sync + 'static {
    /// Grants nothing for so long. Pauses do not add up.
    fn pause_for(&self, span: Duration);
}

impl<R: Rule> Pauses for Gate<Pausable<R>> {
    fn pause_for(&self, span: Duration) {
        Self::pause_for(self, span);
    }
}

/// A layer for clients of a partner that has limits: calls ask our own limiter first, and when the partner says to come back
/// later, nobody asks before. See the [module](super).
///
/// A call that is refused is an error, [`LimitError`](crate::LimitError); where the limiter has a queue, calls wait in it, also
/// through pauses.
#[derive(Clone)]
#[must_use = "a layer does nothing until it is put before a service"]
pub struct PartnerLayer<L> {
    limit: LimitLayer<Whole<L>>,
    heed: Heed<L>,
}

/// No answer pauses for longer, unless set.
const LONGEST: Duration = Duration::from_secs(3600);

impl<L: Limiter + Pauses + Clone> PartnerLayer<L> {
    /// Asks this limiter before each call, and pauses it as answers say.
    pub fn new(limiter: L) -> Self {
        Self {
            heed: Heed {
                limiter: limiter.clone(),
                longest: LONGEST,
                on_told: None,
                learner: None,
            },
            limit: LimitLayer::new(limiter),
        }
    }

    /// No answer pauses for longer than this, whatever it says; an hour unless set.
    pub fn longest_pause(mut self, longest: Duration) -> Self {
        self.heed.longest = longest;
        self
    }

    /// Called with what each answer says about limits, if it says anything: to log it, or to choose another limit.
    pub fn on_told(mut self, hook: impl Fn(&Told) + Send + Sync + 'static) -> Self {
        self.heed.on_told = Some(Arc::new(hook));
        self
    }
}

impl PartnerLayer<Gate<Pausable<TokenBucket>>> {
    /// Learns the rate of the limiter from what the partner answers and refuses, for quotas that nobody knows. The rate that
    /// the limiter was built with is replaced by the initial one.
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
        let learner = Learner::new(self.heed.limiter.clone(), learn.into());
        self.heed.learner = Some(learner);
        self
    }

    /// Learns within the bounds of `learn` from now on, also in services that were made before. What was learned stays, as far
    /// as it is within them; without [`learn_rate`](Self::learn_rate) it changes nothing.
    ///
    /// ```
    /// use plimsoll::{Gate, Pausable, Quota, TokenBucket};
    /// use plimsoll_tower::partner::{LearnRate, PartnerLayer};
    ///
    /// let gate = Gate::new(Pausable::new(TokenBucket::per_second(10)));
    /// let layer = PartnerLayer::new(gate).learn_rate(Quota::per_second(10));
    /// layer.change_rate(LearnRate::from(Quota::per_second(1)).ceiling(Quota::per_second(4)));
    /// assert_eq!(layer.learned_rate(), Some(4.0));
    /// ```
    pub fn change_rate(&self, learn: impl Into<LearnRate>) {
        if let Some(learner) = &self.heed.learner {
            learner.change(learn.into());
        }
    }

    /// The same without learning: the limiter keeps the rate it has.
    pub fn without_learning(mut self) -> Self {
        self.heed.learner = None;
        self
    }

    /// The limiter that is asked before each call.
    #[must_use]
    pub const fn limiter(&self) -> &Gate<Pausable<TokenBucket>> {
        &self.heed.limiter
    }

    /// The rate that was [learned](Self::learn_rate) so far, in calls per second.
    #[must_use]
    pub fn learned_rate(&self) -> Option<f64> {
        Some(self.heed.learner.as_ref()?.rate())
    }
}

impl<S, L: Limiter + Pauses + Clone> Layer<S> for PartnerLayer<L> {
    type Service = Limit<Heeding<S, L>, Whole<L>>;

    fn layer(&self, inner: S) -> Self::Service {
        self.limit.layer(Heeding {
            inner,
            heed: self.heed.clone(),
        })
    }
}

impl<L> fmt::Debug for PartnerLayer<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartnerLayer").finish_non_exhaustive()
    }
}

type OnTold = Arc<dyn Fn(&Told) + Send + Sync>;

/// What is done with answers.
#[derive(Clone)]
struct Heed<L> {
    limiter: L,
    longest: Duration,
    on_told: Option<OnTold>,
    learner: Option<Arc<Learner>>,
}

impl<L: Pauses> Heed<L> {
    /// When a call begins, for who learns from it.
    fn begun(&self) -> Option<Moment> {
        self.learner.as_ref().map(|learner| learner.now())
    }

    fn answered<B>(&self, began: Option<Moment>, response: &Response<B>) {
        #[expect(
            clippy::disallowed_methods,
            reason = "dates in fields are those of the calendar, and no clock of a limiter"
        )]
        let told = Told::read(response.headers(), SystemTime::now());
        if let Some(pause) = told.pause(response.status()) {
            self.limiter.pause_for(pause.min(self.longest));
        }
        if let (Some(learner), Some(began)) = (&self.learner, began) {
            learner.answered(began, response.status(), &told);
        }
        if let Some(hook) = &self.on_told
            && told != Told::default()
        {
            hook(&told);
        }
    }
}

/// A client that heeds what answers say. Made by a [`PartnerLayer`].
#[derive(Clone)]
pub struct Heeding<S, L> {
    inner: S,
    heed: Heed<L>,
}

impl<S, L, Request, B> Service<Request> for Heeding<S, L>
where
    S: Service<Request, Response = Response<B>>,
    L: Pauses + Clone,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = HeedingFuture<S::Future, L>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        HeedingFuture {
            began: self.heed.begun(),
            call: self.inner.call(request),
            heed: self.heed.clone(),
        }
    }
}

impl<S: fmt::Debug, L> fmt::Debug for Heeding<S, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Heeding").field(&self.inner).finish()
    }
}

pin_project! {
    /// A call to a partner.
    pub struct HeedingFuture<F, L> {
        #[pin]
        call: F,
        heed: Heed<L>,
        began: Option<Moment>,
    }
}

impl<F, L, B, E> Future for HeedingFuture<F, L>
where
    F: Future<Output = Result<Response<B>, E>>,
    L: Pauses,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = ready!(this.call.poll(cx));
        if let Ok(response) = &answer {
            this.heed.answered(*this.began, response);
        }
        Poll::Ready(answer)
    }
}

impl<F, L> fmt::Debug for HeedingFuture<F, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeedingFuture").finish_non_exhaustive()
    }
}
