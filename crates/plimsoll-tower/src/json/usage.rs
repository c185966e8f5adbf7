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

/// A layer that reads the usage of a request from the JSON body of its response, for outer limits that
/// [charge it](crate::RequestLimit::charge_usage). See the [module](super).
///
/// ```
/// use plimsoll_tower::json::JsonUsage;
///
/// let usage = JsonUsage::of("/usage/total_tokens").max(1 << 20);
/// assert!(JsonUsage::try_of("usage.total_tokens").is_err());
/// # let _ = usage;
/// ```
///
/// If the response has no such number, or is too long, the [estimate](BodyCost) from the body of the request is charged, if
/// there is one. A response that is cut short reports nothing, and is charged as described at [`Usage`].
///
/// Streams of server-sent events are not JSON. Their handler reports the usage itself:
///
/// ```
/// use plimsoll_tower::Usage;
///
/// fn on_event(usage: &Usage, tokens: u64, is_last: bool) {
///     usage.add(tokens);
///     if is_last {
///         usage.finish();
///     }
/// }
/// # on_event(&Usage::default(), 1, true);
/// ```
#[derive(Clone, Debug)]
#[must_use = "a layer does nothing until it is put before a service"]
pub struct JsonUsage(Measure);

impl JsonUsage {
    /// Reads the number at this JSON pointer. Fractions are rounded up.
    ///
    /// # Panics
    ///
    /// Panics if it is not a JSON pointer. [`try_of`](Self::try_of) returns an error instead.
    #[track_caller]
    pub fn of(pointer: &str) -> Self {
        match Self::try_of(pointer) {
            Ok(made) => made,
            Err(invalid) => panic!("{invalid}"),
        }
    }

    /// Like [`of`](Self::of), but returns an error instead of panicking. For a pointer from outside the program.
    ///
    /// # Errors
    ///
    /// Returns an error if it is not a JSON pointer: it must be empty or begin with a slash.
    ///
    /// ```
    /// use plimsoll_tower::json::JsonUsage;
    ///
    /// let pointer = "usage/total"; // from a file, without its slash
    /// let error = JsonUsage::try_of(pointer).unwrap_err();
    /// assert!(error.to_string().contains("expected a JSON pointer"));
    /// ```
    pub fn try_of(pointer: &str) -> Result<Self, InvalidLimit> {
        Measure::try_new(pointer, Of::Number).map(Self)
    }

    /// Sets the maximum length of a response that is read. Default: 64 KiB.
    ///
    /// Up to this many bytes are copied for each response in flight. A response is passed on as it arrives, and not
    /// delayed.
    pub const fn max(mut self, bytes: usize) -> Self {
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

/// A service that reads the usage of a request from its response. A [`JsonUsage`] makes one.
///
/// Requests without a [`Usage`] in their extensions, because no outer limit charges usage, are not read: their responses pass
/// without a copy.
///
/// ```
/// use http::{Request, Response};
/// use http_body_util::BodyExt;
/// use plimsoll_tower::{Usage, json::JsonUsage};
/// use tower::{Layer, ServiceExt, service_fn};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let service = JsonUsage::of("/usage/total_tokens").layer(service_fn(async |_: Request<()>| {
///     let body = axum::body::Body::from(r#"{ "usage": { "total_tokens": 42 } }"#);
///     Response::builder().header("content-type", "application/json").body(body)
/// }));
/// let usage = Usage::default();
/// let request = Request::builder().extension(usage.clone()).body(()).unwrap();
/// let response = service.oneshot(request).await.unwrap();
/// let _ = response.into_body().collect().await;
/// assert_eq!((usage.total(), usage.is_final()), (42, true));
/// # });
/// ```
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
    /// The future of a call of a [`Metered`] service. It resolves with the head of the response; the body is read as it passes.
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
            // A body that is not JSON, or is too long, is not copied.
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
