use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use plimsoll::{Acquire, Denied, Permit};
use tower_service::Service;

use crate::LimitError;
use crate::classify::Classify;

pin_project! {
    /// A call of a [`Limit`](crate::Limit): waits for the limit if it has to, then for the response.
    ///
    /// Dropping it leaves the queue, or ends the call and gives its permit back.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct LimitFuture<S, Request, C>
    where
        S: Service<Request>,
    {
        #[pin]
        stage: Stage<S, Request, S::Future>,
        permit: Option<Permit<'static>>,
        classify: C,
    }
}

pin_project! {
    #[project = StageView]
    enum Stage<S, Request, F> {
        /// In the queue.
        Waiting {
            acquire: Acquire<'static>,
            call: Option<(S, Request)>,
        },
        /// Its turn has come; the service may not be ready yet.
        Turn {
            call: Option<(S, Request)>,
        },
        Calling {
            #[pin]
            call: F,
        },
        Refused {
            denied: Option<Denied>,
        },
    }
}

impl<S: Service<Request>, Request, C> LimitFuture<S, Request, C> {
    #[inline]
    pub(crate) fn calling(call: S::Future, permit: Permit<'static>, classify: C) -> Self {
        Self {
            stage: Stage::Calling { call },
            permit: Some(permit),
            classify,
        }
    }

    pub(crate) fn waiting(
        acquire: Acquire<'static>,
        request: Request,
        service: S,
        classify: C,
    ) -> Self {
        Self {
            stage: Stage::Waiting {
                acquire,
                call: Some((service, request)),
            },
            permit: None,
            classify,
        }
    }

    pub(crate) fn refused(denied: Denied, classify: C) -> Self {
        Self {
            stage: Stage::Refused {
                denied: Some(denied),
            },
            permit: None,
            classify,
        }
    }
}

impl<S, Request, C> Future for LimitFuture<S, Request, C>
where
    S: Service<Request>,
    C: Classify<S::Response, S::Error>,
{
    type Output = Result<S::Response, LimitError<S::Error>>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let next = match this.stage.as_mut().project() {
                StageView::Calling { call } => {
                    let result = ready!(call.poll(cx));
                    if let Some(permit) = this.permit.take() {
                        permit.finish(this.classify.classify(result.as_ref()));
                    }
                    return Poll::Ready(result.map_err(LimitError::Service));
                }
                StageView::Waiting { acquire, call } => {
                    match ready!(Pin::new(acquire).poll(cx)) {
                        Ok(permit) => *this.permit = Some(permit),
                        Err(denied) => return Poll::Ready(Err(LimitError::Denied(denied))),
                    }
                    Stage::Turn { call: call.take() }
                }
                StageView::Turn { call } => {
                    let Some((service, _)) = call else {
                        unreachable!("a future is not polled after it is done")
                    };
                    if let Err(error) = ready!(service.poll_ready(cx)) {
                        return Poll::Ready(Err(LimitError::Service(error)));
                    }
                    let Some((mut service, request)) = call.take() else {
                        unreachable!("it was there a moment ago")
                    };
                    Stage::Calling {
                        call: service.call(request),
                    }
                }
                StageView::Refused { denied } => {
                    let Some(denied) = denied.take() else {
                        unreachable!("a future is not polled after it is done")
                    };
                    return Poll::Ready(Err(LimitError::Denied(denied)));
                }
            };
            this.stage.set(next);
        }
    }
}

impl<S: Service<Request>, Request, C> fmt::Debug for LimitFuture<S, Request, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitFuture").finish_non_exhaustive()
    }
}
