use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use super::all::Admission;
use super::body::LimitBody;
use super::future::{Describing, Refusal, ResponseFuture, Stage, Waiting};
use super::limits::Limits;
use super::request_permits::RequestPermits;
use super::shared::Shared;
use crate::Head;

/// A service behind limits, which answers refused requests by itself. [`HttpLimitLayer`](crate::HttpLimitLayer) makes
/// one.
///
/// The service is ready when the inner service is ready: `poll_ready` acquires nothing from the limits, uses no timer,
/// and readiness is not passed on to clones. A request that must wait does so in the future of its call, and calls a
/// clone of the inner service when it is granted. A refused request never reaches the inner service; its response
/// carries [`Refused`](crate::Refused) in its extensions. Errors are those of the inner service only.
///
/// ```
/// use http::{Request, Response, StatusCode};
/// use plimsoll::{Gate, TokenBucket};
/// use plimsoll_tower::{HttpLimitLayer, RequestLimit};
/// use tower::{Layer, Service, ServiceExt, service_fn};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let limit = RequestLimit::new(Gate::new(TokenBucket::per_second(1)));
/// let mut service = HttpLimitLayer::new(limit).layer(service_fn(async |_: Request<()>| {
///     Ok::<_, std::convert::Infallible>(Response::new(axum::body::Body::empty()))
/// }));
/// let first = service.ready().await?.call(Request::new(())).await?;
/// let second = service.ready().await?.call(Request::new(())).await?;
/// assert_eq!((first.status(), second.status()), (StatusCode::OK, StatusCode::TOO_MANY_REQUESTS));
/// assert_eq!(second.headers()["retry-after"], "1");
/// # Ok::<_, std::convert::Infallible>(()) }).unwrap();
/// ```
pub struct HttpLimit<S, L> {
    inner: S,
    shared: Arc<Shared<L>>,
}

impl<S, L> HttpLimit<S, L> {
    pub(super) const fn new(inner: S, shared: Arc<Shared<L>>) -> Self {
        Self { inner, shared }
    }

    /// The same limits before another service.
    #[cfg(feature = "axum")]
    pub(crate) fn around<T>(&self, inner: T) -> HttpLimit<T, L> {
        HttpLimit::new(inner, Arc::clone(&self.shared))
    }

    /// Returns a reference to the inner service. Calls through it bypass the limits.
    ///
    /// ```
    /// use plimsoll_tower::per_address;
    /// use tower::Layer;
    ///
    /// let service = per_address(5, 10).layer("any service");
    /// assert_eq!(*service.inner(), "any service");
    /// assert_eq!(service.into_inner(), "any service");
    /// ```
    pub const fn inner(&self) -> &S {
        &self.inner
    }

    /// Returns the inner service without the limits.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, L, B, R> Service<Request<B>> for HttpLimit<S, L>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    R: Body<Data: From<Bytes>>,
    L: Limits,
{
    type Response = Response<LimitBody<R, L>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, B, L>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    // Always inlined: the future is then built in place, and not copied right after it was written.
    #[inline(always)]
    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let head = Head::of(&request);
        let shared = &*self.shared;
        let priority = shared.priority(&head);
        let mut held = L::Held::default();
        let stage = match shared.ask(&head, priority, &mut held) {
            Admission::Admitted => {
                let after = shared.limits.prepare(&held, request.extensions_mut());
                // For most rates nothing is left to do, except to describe them in the response. Otherwise the future
                // shares no limits, and holds nothing.
                if after.is_nothing() {
                    if !shared.describes() {
                        let call = self.inner.call(request);
                        return ResponseFuture {
                            stage: Stage::Passing { call },
                        };
                    }
                    let shared = Arc::clone(&self.shared);
                    let stage = Stage::Describing {
                        call: self.inner.call(request),
                        describing: Some(Describing { shared, held }),
                    };
                    return ResponseFuture { stage };
                }
                let shared = Arc::clone(&self.shared);
                let mut permits = RequestPermits::new(shared, priority, held);
                permits.prepare_for(after, &mut request);
                Stage::Calling {
                    call: self.inner.call(request),
                    permits: Some(permits),
                }
            }
            Admission::Refused(index, denied) => Stage::Refused {
                refusal: Some(Box::new(Refusal {
                    shared: Arc::clone(&self.shared),
                    index,
                    denied,
                    request,
                })),
            },
            Admission::Wait(pending) => {
                // A clone is not ready. The readiness of this service is released, or the request might wait for it.
                let service = self.inner.clone();
                self.inner = service.clone();
                let permits = RequestPermits::new(Arc::clone(&self.shared), priority, held);
                Stage::Waiting {
                    waiting: Some(Box::new(Waiting::new(pending, permits, (service, request)))),
                }
            }
        };
        ResponseFuture { stage }
    }
}

/// A clone shares the limits.
impl<S: Clone, L> Clone for HttpLimit<S, L> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<S: fmt::Debug, L: fmt::Debug> fmt::Debug for HttpLimit<S, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpLimit")
            .field("inner", &self.inner)
            .field("limits", &self.shared.limits)
            .finish()
    }
}
