use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use http::Request;
use http::request::Parts;
use http_body::{Body, Frame};
use pin_project_lite::pin_project;
use plimsoll::InvalidLimit;
use tower_layer::Layer;
use tower_service::Service;

use super::measure::{Measure, Of};
use super::replayed::{Part, Replayed};
use crate::Head;
use crate::http::{BodyBytes, BodyCost, copy};

/// A layer that reads the cost of a request from its JSON body. See the [module](super).
///
/// It inserts the cost as a [`BodyCost`] into the extensions of the request, for
/// [limits](crate::RequestLimit::cost_by_json) further in.
///
/// ```
/// use plimsoll_tower::json::JsonCost;
///
/// // The maximum that the request asks for, and one for each message of the conversation.
/// let cost = JsonCost::of("/max_tokens").and_length_of("/messages").max(256 << 10);
/// assert!(JsonCost::try_of("max_tokens").is_err());
/// ```
///
/// Several values are added up. A value that is missing or not a number adds nothing; if all of them are missing, the
/// cost is unknown and no [`BodyCost`] is inserted.
///
/// [`BodyCost`]: crate::BodyCost
#[derive(Clone, Debug)]
#[must_use = "a layer does nothing until it is put before a service"]
pub struct JsonCost(Measure);

impl JsonCost {
    /// Reads the number at this JSON pointer. Fractions are rounded up.
    ///
    /// # Panics
    ///
    /// Panics if it is not a JSON pointer. [`try_of`](Self::try_of) returns an error instead.
    #[track_caller]
    pub fn of(pointer: &str) -> Self {
        or_panic(Self::try_of(pointer))
    }

    /// Like [`of`](Self::of), but returns an error instead of panicking. For a pointer from outside the program.
    ///
    /// # Errors
    ///
    /// Returns an error if it is not a JSON pointer: it must be empty or begin with a slash.
    pub fn try_of(pointer: &str) -> Result<Self, InvalidLimit> {
        Measure::try_new(pointer, Of::Number).map(Self)
    }

    /// Reads the length of the array at this JSON pointer.
    ///
    /// ```
    /// use plimsoll_tower::json::JsonCost;
    ///
    /// // A batch costs one for each of its items.
    /// let cost = JsonCost::length_of("/items");
    /// # let _ = cost;
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if it is not a JSON pointer. [`try_length_of`](Self::try_length_of) returns an error instead.
    #[track_caller]
    pub fn length_of(pointer: &str) -> Self {
        or_panic(Self::try_length_of(pointer))
    }

    /// Like [`length_of`](Self::length_of), but returns an error instead of panicking. For a pointer from outside the
    /// program.
    ///
    /// # Errors
    ///
    /// Returns an error if it is not a JSON pointer: it must be empty or begin with a slash.
    pub fn try_length_of(pointer: &str) -> Result<Self, InvalidLimit> {
        Measure::try_new(pointer, Of::Length).map(Self)
    }

    /// Adds the number at this JSON pointer.
    ///
    /// ```
    /// use plimsoll_tower::json::JsonCost;
    ///
    /// // The documents to rank, and the tokens of the summary.
    /// let cost = JsonCost::of("/top_k").and("/summary/max_tokens");
    /// # let _ = cost;
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if it is not a JSON pointer.
    #[track_caller]
    pub fn and(self, pointer: &str) -> Self {
        or_panic(self.0.and(pointer, Of::Number).map(Self))
    }

    /// Adds the length of the array at this JSON pointer.
    ///
    /// ```
    /// use plimsoll_tower::json::JsonCost;
    ///
    /// // The tokens of the answer, and one for each message of the prompt.
    /// let cost = JsonCost::of("/max_tokens").and_length_of("/messages");
    /// # let _ = cost;
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if it is not a JSON pointer.
    #[track_caller]
    pub fn and_length_of(self, pointer: &str) -> Self {
        or_panic(self.0.and(pointer, Of::Length).map(Self))
    }

    /// Sets the maximum length of a body that is read. The cost of a longer body is unknown. Default: 64 KiB.
    ///
    /// Frames are buffered until the body has ended or exceeds the maximum. A body that states a longer length is not buffered at
    /// all.
    pub const fn max(mut self, bytes: usize) -> Self {
        self.0.bound = bytes;
        self
    }
}

#[track_caller]
fn or_panic(made: Result<JsonCost, InvalidLimit>) -> JsonCost {
    match made {
        Ok(made) => made,
        Err(invalid) => panic!("{invalid}"),
    }
}

impl<S> Layer<S> for JsonCost {
    type Service = Estimated<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Estimated::new(inner, Arc::new(self.0.clone()))
    }
}

/// Reads the bodies of requests before inner limits are asked.
#[doc(hidden)]
pub trait BodyReader: Send + Sync {
    /// Returns the maximum number of bytes to read of this body. `None` if it is not read.
    fn bound(&self, head: &Head<'_>) -> Option<usize>;

    /// Returns whether the bytes of this body are counted as they pass, in [`BodyBytes`].
    fn counts(&self, head: &Head<'_>) -> bool {
        let _ = head;
        false
    }

    /// Inserts values from the body into the extensions of the request. The text is empty if the body is longer than the bound, or
    /// has failed.
    fn read(&self, text: &[u8], parts: &mut Parts);
}

impl BodyReader for Measure {
    fn bound(&self, head: &Head<'_>) -> Option<usize> {
        self.fits(head.headers()).then_some(self.bound)
    }

    fn read(&self, text: &[u8], parts: &mut Parts) {
        if let Some(cost) = Self::read(self, text) {
            parts.extensions.insert(BodyCost(cost));
        }
    }
}

/// A service that reads the cost of a request from its body before the inner service is called. A [`JsonCost`] makes
/// one.
///
/// The inner service receives the body as a [`Replayed`] body, with the same frames, trailers and errors. Requests whose body
/// is not read are passed on at once.
///
/// ```
/// use http::Request;
/// use plimsoll_tower::json::{BodyCost, JsonCost, Replayed};
/// use tower::{Layer, ServiceExt, service_fn};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let service = JsonCost::of("/max_tokens").layer(service_fn(async |request: Request<Replayed<axum::body::Body>>| {
///     Ok::<_, std::io::Error>(request.extensions().get::<BodyCost>().copied())
/// }));
/// let request = Request::post("/").header("content-type", "application/json");
/// let request = request.body(axum::body::Body::from(r#"{ "max_tokens": 700 }"#)).unwrap();
/// assert_eq!(service.oneshot(request).await.unwrap(), Some(BodyCost(700)));
/// # });
/// ```
#[derive(Clone)]
pub struct Estimated<S> {
    inner: S,
    reader: Arc<dyn BodyReader>,
}

impl<S> Estimated<S> {
    /// Creates a service with another reader of bodies.
    #[doc(hidden)]
    pub fn new(inner: S, reader: Arc<dyn BodyReader>) -> Self {
        Self { inner, reader }
    }
}

impl<S: fmt::Debug> fmt::Debug for Estimated<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Estimated")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

impl<S, B> Service<Request<B>> for Estimated<S>
where
    S: Service<Request<Replayed<B>>> + Clone,
    B: Body,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = EstimatedFuture<S, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let head = Head::of(&request);
        let counted = self.reader.counts(&head).then(BodyBytes::default);
        let bound = self.reader.bound(&head);
        if let Some(counted) = &counted {
            request.extensions_mut().insert(counted.clone());
        }
        let Some(bound) = bound else {
            let whole = |body| Replayed::whole(body).counted(counted);
            let call = self.inner.call(request.map(whole));
            return EstimatedFuture {
                stage: Stage::Calling { call },
            };
        };
        let (parts, body) = request.into_parts();
        // The service that is ready is called, not its clone.
        let clone = self.inner.clone();
        let reading = Reading {
            parts,
            body: Box::pin(body),
            service: std::mem::replace(&mut self.inner, clone),
            reader: Arc::clone(&self.reader),
            bound,
            counted,
            read: Vec::new(),
            text: Vec::new(),
        };
        EstimatedFuture {
            stage: Stage::Reading {
                reading: Some(reading),
            },
        }
    }
}

/// A request while its body is read.
struct Reading<S, B: Body> {
    parts: Parts,
    body: Pin<Box<B>>,
    service: S,
    reader: Arc<dyn BodyReader>,
    bound: usize,
    counted: Option<BodyBytes>,
    read: Vec<Part<B>>,
    text: Vec<u8>,
}

impl<S, B: Body> Reading<S, B> {
    /// Reads until the body has ended, has failed, or is too long. Returns whether more may follow.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        loop {
            let Some(part) = ready!(self.body.as_mut().poll_frame(cx)) else {
                return Poll::Ready(false);
            };
            let data = part.as_ref().ok().and_then(Frame::data_ref);
            let length = data.map_or(0, Buf::remaining);
            let is_too_long = length > self.bound - self.text.len();
            if let Some(data) = data.filter(|_| !is_too_long) {
                copy(data, &mut self.text);
            }
            let has_failed = part.is_err();
            self.read.push(part);
            if has_failed || is_too_long {
                // The copy is not a whole document.
                self.text.clear();
                return Poll::Ready(!has_failed);
            }
        }
    }

    /// The request, with the values from its body.
    fn finish(mut self, has_rest: bool) -> (S, Request<Replayed<B>>) {
        self.reader.read(&self.text, &mut self.parts);
        let rest = has_rest.then_some(self.body);
        let body = Replayed::after(self.read, rest).counted(self.counted);
        (self.service, Request::from_parts(self.parts, body))
    }
}

pin_project! {
    /// The future of a call of an [`Estimated`] service: reads the body if it must, then calls the inner service when that is ready
    /// again, and waits for its response.
    ///
    /// Dropping it while the body is read drops the request; the inner service is not called.
    pub struct EstimatedFuture<S, B>
    where
        S: Service<Request<Replayed<B>>>,
        B: Body,
    {
        #[pin]
        stage: Stage<S, B>,
    }
}

pin_project! {
    #[project = StageView]
    enum Stage<S, B>
    where
        S: Service<Request<Replayed<B>>>,
        B: Body,
    {
        Reading { reading: Option<Reading<S, B>> },
        Calling { #[pin] call: S::Future },
    }
}

impl<S, B> Future for EstimatedFuture<S, B>
where
    S: Service<Request<Replayed<B>>>,
    B: Body,
{
    type Output = Result<S::Response, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut stage = self.project().stage;
        loop {
            let next = match stage.as_mut().project() {
                StageView::Calling { call } => return call.poll(cx),
                StageView::Reading { reading } => {
                    let has_rest = match reading {
                        Some(reading) => ready!(reading.poll(cx)),
                        None => unreachable!("it is taken once, to go on with the call"),
                    };
                    let Some(read) = reading.take() else {
                        unreachable!("it was there a moment ago")
                    };
                    let (mut service, request) = read.finish(has_rest);
                    service.call(request)
                }
            };
            stage.set(Stage::Calling { call: next });
        }
    }
}

impl<S, B> fmt::Debug for EstimatedFuture<S, B>
where
    S: Service<Request<Replayed<B>>>,
    B: Body,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EstimatedFuture").finish_non_exhaustive()
    }
}
