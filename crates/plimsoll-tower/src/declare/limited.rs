use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use super::Declaration;
use crate::endpoint::Declared;
use crate::{Head, HttpLimit, HttpLimitLayer, Limits};

/// Limits a handler by its declaration. Clones share its count.
#[derive(Clone, Debug)]
pub(super) struct LimitedLayer(Arc<Declaration>);

impl LimitedLayer {
    pub(super) fn new(declaration: Declaration) -> Self {
        Self(Arc::new(declaration))
    }
}

impl<S> Layer<S> for LimitedLayer {
    type Service = Declared<Limited<S>>;

    fn layer(&self, inner: S) -> Self::Service {
        Declared::limited(Limited {
            inner,
            declaration: Arc::clone(&self.0),
        })
    }
}

/// Limits a handler by any other limits.
#[derive(Clone, Debug)]
pub(super) struct WithLimits<L>(pub(super) HttpLimitLayer<L>);

impl<S: Clone, L: Limits + Clone> Layer<S> for WithLimits<L> {
    type Service = Declared<HttpLimit<S, L>>;

    fn layer(&self, inner: S) -> Self::Service {
        Declared::limited(self.0.layer(inner))
    }
}

/// A handler that is limited by its declaration.
#[derive(Clone, Debug)]
pub(super) struct Limited<S> {
    inner: S,
    declaration: Arc<Declaration>,
}

impl<S, B, R> Service<Request<B>> for Limited<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: From<Bytes>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = LimitedFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let stage = match self.declaration.admit(&Head::of(&request)) {
            Ok(()) => Stage::Calling {
                call: self.inner.call(request),
            },
            Err(refusal) => Stage::Refused {
                refusal: Some(refusal),
            },
        };
        LimitedFuture { stage }
    }
}

pin_project! {
    /// A request to a [`Limited`] handler.
    #[derive(Debug)]
    pub(super) struct LimitedFuture<F> {
        #[pin]
        stage: Stage<F>,
    }
}

pin_project! {
    #[project = StageView]
    #[derive(Debug)]
    enum Stage<F> {
        Calling { #[pin] call: F },
        Refused { refusal: Option<Box<Response<Bytes>>> },
    }
}

impl<F, R, E> Future for LimitedFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: From<Bytes>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().stage.project() {
            StageView::Calling { call } => call.poll(cx),
            StageView::Refused { refusal } => match refusal.take() {
                Some(refusal) => Poll::Ready(Ok(refusal.map(R::from))),
                None => unreachable!("a future is not polled after it is done"),
            },
        }
    }
}
