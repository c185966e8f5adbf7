use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tower_service::Service;

use super::measured::MeasuredBody;
use super::taken::{Meters, Taken, Weights};
use crate::Head;
use crate::http::content_length;

/// A service with measured bodies. A [`WeightsLayer`](super::WeightsLayer) makes one.
///
/// It inserts [`Weights`](super::Weights) into the extensions of each request if the provider limits a weight that only
/// the handler knows, and wraps the bodies of requests and responses in [`MeasuredBody`](super::MeasuredBody). The
/// inner service therefore receives requests with another type of body, which routers of axum convert automatically.
#[derive(Clone)]
pub struct Measured<S> {
    pub(super) inner: S,
    pub(super) meters: Arc<Meters>,
}

impl<S, B, R> Service<Request<B>> for Measured<S>
where
    S: Service<Request<MeasuredBody<B>>, Response = Response<R>>,
    B: Body,
    R: Body,
{
    type Response = Response<MeasuredBody<R>>;
    type Error = S::Error;
    type Future = MeasuredFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let taken = Arc::new(Taken::new(Arc::clone(&self.meters)));
        let stated = content_length(&Head::of(&request), 0);
        if self.meters.is_open {
            request.extensions_mut().insert(Weights(Arc::clone(&taken)));
        }
        let request = request.map(|body| MeasuredBody::request(body, Arc::clone(&taken), stated));
        MeasuredFuture {
            call: self.inner.call(request),
            taken,
        }
    }
}

impl<S: fmt::Debug> fmt::Debug for Measured<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Measured").field(&self.inner).finish()
    }
}

pin_project! {
    /// The future of a call of a [`Measured`] service. It resolves with the head of the response; the body is measured as it
    /// passes.
    pub struct MeasuredFuture<F> {
        #[pin]
        call: F,
        taken: Arc<Taken>,
    }
}

impl<F, R, E> Future for MeasuredFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: Body,
{
    type Output = Result<Response<MeasuredBody<R>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let response = ready!(this.call.poll(cx))?;
        let taken = Arc::clone(this.taken);
        Poll::Ready(Ok(response.map(|body| MeasuredBody::response(body, taken))))
    }
}

impl<F> fmt::Debug for MeasuredFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MeasuredFuture").finish_non_exhaustive()
    }
}
