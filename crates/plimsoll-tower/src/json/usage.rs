use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::header::CONTENT_LENGTH;
use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use plimsoll::InvalidLimit;
use tower_layer::Layer;
use tower_service::Service;

use super::copied::{Copied, Reader};
use super::measure::{Measure, Of};
use crate::Usage;
use crate::http::BodyCost;

/// Reads what a request has used from the JSON body of its answer, for limits further out that
/// [charge it](crate::RequestLimit::charge_usage). See the [module](super).
///
/// Where the answer does not say, or is too long, the [estimate](BodyCost) from the body of the request counts, if there is one.
/// An answer that is cut short says nothing, and is charged as [`Usage`] tells.
#[derive(Clone, Debug)]
#[must_use = "a layer does nothing until it is put before a service"]
pub struct JsonUsage(Measure);

impl JsonUsage {
    /// The number at this JSON pointer.
    ///
    /// # Panics
    ///
    /// If it is not a JSON pointer. [`try_of`](Self::try_of) returns an error instead.
    #[track_caller]
    pub fn of(pointer: &str) -> Self {
        match Self::try_of(pointer) {
            Ok(made) => made,
            Err(invalid) => panic!("{invalid}"),
        }
    }

    /// [`of`](Self::of) with a pointer that the program has not chosen itself.
    ///
    /// # Errors
    ///
    /// If it is not a JSON pointer: it begins with a slash, or is empty.
    pub fn try_of(pointer: &str) -> Result<Self, InvalidLimit> {
        Measure::try_new(pointer, Of::Number).map(Self)
    }

    /// So many bytes of an answer are kept at most. 64 KiB unless set.
    pub const fn bound(mut self, bytes: usize) -> Self {
        self.0.bound = bytes;
        self
    }
}

impl<S> Layer<S> for JsonUsage {
    type Service = Metered<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Metered {
            inner,
            measure: Arc::new(self.0.clone()),
        }
    }
}

/// A service whose answers are read for what they used. Made by a [`JsonUsage`].
#[derive(Clone, Debug)]
pub struct Metered<S> {
    inner: S,
    measure: Arc<Measure>,
}

impl<S, B, R> Service<Request<B>> for Metered<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Body,
{
    type Response = Response<Copied<R>>;
    type Error = S::Error;
    type Future = MeteredFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let extensions = request.extensions();
        let reader = extensions.get::<Usage>().map(|usage| Reader {
            measure: Arc::clone(&self.measure),
            usage: usage.clone(),
            otherwise: extensions.get().map(|BodyCost(cost)| *cost),
            length: u64::MAX,
            text: Vec::new(),
            passed: 0,
            is_lost: false,
        });
        MeteredFuture {
            call: self.inner.call(request),
            reader,
        }
    }
}

pin_project! {
    /// A request to a [`Metered`] service.
    pub struct MeteredFuture<F> {
        #[pin]
        call: F,
        reader: Option<Reader>,
    }
}

impl<F, R, E> Future for MeteredFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: Body,
{
    type Output = Result<Response<Copied<R>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let response = ready!(this.call.poll(cx))?;
        let reader = this.reader.take().map(|mut reader| {
            // What is not JSON, or too long, is not kept.
            reader.is_lost = !reader.measure.fits(response.headers());
            let stated = response.headers().get(CONTENT_LENGTH);
            let stated = stated.and_then(|length| length.to_str().ok()?.trim().parse().ok());
            let length = stated.or(response.body().size_hint().exact());
            reader.length = length.unwrap_or(u64::MAX);
            reader
        });
        Poll::Ready(Ok(response.map(|body| Copied::new(body, reader))))
    }
}

impl<F> fmt::Debug for MeteredFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MeteredFuture").finish_non_exhaustive()
    }
}
