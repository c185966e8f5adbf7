use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use plimsoll::{Acquire, Denied, Outcome, Priority};
use tower_service::Service;

use super::answering::Refused;
use super::body::LimitBody;
use super::holding::Holding;
use super::limits::{Admission, Limits};
use super::settle::ResponseHead;
use super::shared::Shared;
use crate::Head;

pin_project! {
    /// A request to an [`HttpLimit`](crate::HttpLimit): waits for its limits if it has to, then for the response.
    ///
    /// Dropping it leaves the queue, or ends the request and gives back what it holds.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct ResponseFuture<S, B, L>
    where
        S: Service<Request<B>>,
        L: Limits,
    {
        #[pin]
        stage: Stage<S::Future, S, B, L>,
    }
}

pin_project! {
    #[project = StageView]
    enum Stage<F, S, B, L>
    where
        L: Limits,
    {
        Calling {
            #[pin]
            call: F,
            holding: Option<Holding<L>>,
        },
        Waiting {
            waiting: Option<Box<Waiting<S, B, L>>>,
        },
        Refused {
            shared: Arc<Shared<L>>,
            refusal: Option<(usize, Denied, Request<B>)>,
        },
        Done,
    }
}

/// A request whose turn has not come yet. Apart, because those that do not wait should be small.
struct Waiting<S, B, L: Limits> {
    shared: Arc<Shared<L>>,
    /// For which of the limits, and how; `None` when only the service is not ready yet.
    acquire: Option<(usize, Acquire<'static>)>,
    priority: Priority,
    held: L::Held,
    /// Until it is called.
    call: Option<(S, Request<B>)>,
}

impl<S, B, L> ResponseFuture<S, B, L>
where
    S: Service<Request<B>>,
    L: Limits,
{
    #[inline]
    pub(super) const fn calling(call: S::Future, holding: Holding<L>) -> Self {
        Self {
            stage: Stage::Calling {
                call,
                holding: Some(holding),
            },
        }
    }

    pub(super) const fn refused(
        shared: Arc<Shared<L>>,
        index: usize,
        denied: Denied,
        request: Request<B>,
    ) -> Self {
        Self {
            stage: Stage::Refused {
                shared,
                refusal: Some((index, denied, request)),
            },
        }
    }

    pub(super) fn waiting(
        shared: Arc<Shared<L>>,
        acquire: (usize, Acquire<'static>),
        priority: Priority,
        held: L::Held,
        call: (S, Request<B>),
    ) -> Self {
        let waiting = Some(Box::new(Waiting {
            shared,
            acquire: Some(acquire),
            priority,
            held,
            call: Some(call),
        }));
        Self {
            stage: Stage::Waiting { waiting },
        }
    }
}

impl<S, B, R, L> Future for ResponseFuture<S, B, L>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Body<Data: From<Bytes>>,
    L: Limits,
{
    type Output = Result<Response<LimitBody<R, L>>, S::Error>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut stage = self.project().stage;
        loop {
            let next = match stage.as_mut().project() {
                StageView::Calling { call, holding } => {
                    let result = ready!(call.poll(cx));
                    // An error says nothing about the load: dropping what is held says so.
                    let Some(holding) = holding.take() else {
                        unreachable!("a future is not polled after it is done")
                    };
                    return Poll::Ready(result.map(|response| answered(response, holding)));
                }
                StageView::Waiting { waiting } => {
                    let Some(here) = waiting.as_mut() else {
                        unreachable!("a future is not polled after it is done")
                    };
                    if let Some(refusal) = ready!(here.poll(cx)) {
                        stage.set(Stage::Done);
                        return Poll::Ready(Ok(refusal));
                    }
                    match ready!(here.poll_call(cx)) {
                        Ok((call, holding)) => Stage::Calling {
                            call,
                            holding: Some(holding),
                        },
                        Err(error) => {
                            stage.set(Stage::Done);
                            return Poll::Ready(Err(error));
                        }
                    }
                }
                StageView::Refused { shared, refusal } => {
                    let Some((index, denied, request)) = refusal.take() else {
                        unreachable!("a future is not polled after it is done")
                    };
                    let response = shared.refuse(index, &Head::of(&request), denied);
                    return Poll::Ready(Ok(response));
                }
                StageView::Done => unreachable!("a future is not polled after it is done"),
            };
            stage.set(next);
        }
    }
}

/// The call of a service, with what its request holds.
type Called<S, R, L> = Result<(<S as Service<R>>::Future, Holding<L>), <S as Service<R>>::Error>;

impl<S, B, L: Limits> Waiting<S, B, L> {
    /// Waits until all limits have granted, or one has refused: then this is the answer.
    fn poll<R>(&mut self, cx: &mut Context<'_>) -> Poll<Option<Response<LimitBody<R, L>>>> {
        let Some((_, request)) = &self.call else {
            unreachable!("it is not called before it is its turn")
        };
        while let Some((index, acquire)) = &mut self.acquire {
            let index = *index;
            let answer = ready!(Pin::new(acquire).poll(cx));
            let head = Head::of(request);
            let admission = match answer {
                Ok(permit) => {
                    self.shared.limits.granted(index, permit, &mut self.held);
                    // The others may have changed their minds while this one was waited for.
                    self.shared
                        .ask(&head, self.priority, &mut self.held, Some(index))
                }
                Err(denied) => Admission::Refused(index, denied),
            };
            self.acquire = match admission {
                Admission::Admitted => None,
                Admission::Wait(index, acquire) => Some((index, acquire)),
                Admission::Refused(index, denied) => {
                    return Poll::Ready(Some(self.shared.refuse(index, &head, denied)));
                }
            };
        }
        Poll::Ready(None)
    }

    /// Calls the service when it is ready.
    fn poll_call(&mut self, cx: &mut Context<'_>) -> Poll<Called<S, Request<B>, L>>
    where
        S: Service<Request<B>>,
    {
        if let Some((service, _)) = &mut self.call {
            ready!(service.poll_ready(cx))?;
        }
        let Some((mut service, mut request)) = self.call.take() else {
            unreachable!("it is called once")
        };
        let usage = self.shared.prepare(request.extensions_mut());
        let held = std::mem::take(&mut self.held);
        let holding = Holding::new(Arc::clone(&self.shared), held, usage);
        Poll::Ready(Ok((service.call(request), holding)))
    }
}

/// Gives up what was granted while the service behind was not ready.
impl<S, B, L: Limits> Drop for Waiting<S, B, L> {
    fn drop(&mut self) {
        self.shared.limits.undo(&mut self.held);
    }
}

/// Passes a response on, with what its request holds.
#[inline]
fn answered<R: Body, L: Limits>(
    mut response: Response<R>,
    mut holding: Holding<L>,
) -> Response<LimitBody<R, L>> {
    if response.extensions().get::<Refused>().is_some() {
        // A limit further in has refused: all or none.
        holding.undo();
        return response.map(LimitBody::free);
    }
    let outcome = holding.answered(ResponseHead::of(&response));
    if holding.shared().tells_always() {
        holding.tell(response.headers_mut());
    }
    let until_head = holding.shared().settings.until_head;
    if until_head || response.body().is_end_stream() {
        holding.end(outcome.unwrap_or(Outcome::Ignore));
        return response.map(LimitBody::free);
    }
    response.map(|body| LimitBody::holding(body, holding, outcome))
}

impl<S: Service<Request<B>>, B, L: Limits> fmt::Debug for ResponseFuture<S, B, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
