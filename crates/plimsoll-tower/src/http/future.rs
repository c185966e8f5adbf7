use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use plimsoll::{Denied, Moment, Priority};
use tower_service::Service;

use super::body::{Hold, Lasting, LimitBody};
use super::limits::{Admission, Limits, Pending};
use super::request_permits::{Ahead, RequestPermits};
use super::shared::Shared;
use super::waited;
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
            holding: Option<RequestPermits<L>>,
        },
        Waiting {
            waiting: Option<Box<Waiting<S, B, L>>>,
        },
        Refused {
            refusal: Option<Box<Refusal<B, L>>>,
        },
        Done,
    }
}

/// A request that is refused. Apart for the same reason as those that wait.
struct Refusal<B, L> {
    shared: Arc<Shared<L>>,
    index: usize,
    denied: Denied,
    request: Request<B>,
}

/// A request whose turn has not come yet. Apart, because those that do not wait should be small.
struct Waiting<S, B, L: Limits> {
    /// For what, and since when by the clock of the limit; `None` when only the service is not ready yet.
    pending: Option<(Pending, Moment)>,
    priority: Priority,
    /// Until it is called.
    holding: Option<RequestPermits<L>>,
    /// Until it is called.
    call: Option<(S, Request<B>)>,
}

impl<S, B, L> ResponseFuture<S, B, L>
where
    S: Service<Request<B>>,
    L: Limits,
{
    #[inline]
    pub(super) const fn calling(call: S::Future, holding: RequestPermits<L>) -> Self {
        Self {
            stage: Stage::Calling {
                call,
                holding: Some(holding),
            },
        }
    }

    pub(super) fn refused(
        shared: Arc<Shared<L>>,
        index: usize,
        denied: Denied,
        request: Request<B>,
    ) -> Self {
        Self {
            stage: Stage::Refused {
                refusal: Some(Box::new(Refusal {
                    shared,
                    index,
                    denied,
                    request,
                })),
            },
        }
    }

    pub(super) fn waiting(
        pending: Pending,
        priority: Priority,
        holding: RequestPermits<L>,
        call: (S, Request<B>),
    ) -> Self {
        let since = since(&holding, &pending);
        let waiting = Some(Box::new(Waiting {
            pending: Some((pending, since)),
            priority,
            holding: Some(holding),
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

    // Always, as the call.
    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let StageView::Calling { call, holding } = self.as_mut().project().stage.project() {
            let result = ready!(call.poll(cx));
            return Poll::Ready(called(result, holding));
        }
        self.poll_long(cx)
    }
}

impl<S, B, R, L> ResponseFuture<S, B, L>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Body<Data: From<Bytes>>,
    L: Limits,
{
    /// A request that is refused, or has to wait.
    #[inline(never)]
    fn poll_long(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<<Self as Future>::Output> {
        let mut stage = self.project().stage;
        loop {
            let next = match stage.as_mut().project() {
                StageView::Calling { call, holding } => {
                    let result = ready!(call.poll(cx));
                    return Poll::Ready(called(result, holding));
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
                StageView::Refused { refusal } => {
                    let Some(refusal) = refusal.take() else {
                        unreachable!("a future is not polled after it is done")
                    };
                    let head = Head::of(&refusal.request);
                    let refused = &refusal.shared;
                    let response = refused.refuse(refusal.index, &head, refusal.denied.clone());
                    return Poll::Ready(Ok(response));
                }
                StageView::Done => unreachable!("a future is not polled after it is done"),
            };
            stage.set(next);
        }
    }
}

/// When a wait begins, by the clock of the limit that is waited for. One for all limits knows by itself.
fn since<L: Limits>(holding: &RequestPermits<L>, pending: &Pending) -> Moment {
    match pending {
        Pending::One(index, _) | Pending::Key(index, _) => holding.shared().limits.at(*index).now(),
        Pending::All(_) => Moment::ORIGIN,
    }
}

/// The call of a service, with what its request holds.
type Called<S, R, L> =
    Result<(<S as Service<R>>::Future, RequestPermits<L>), <S as Service<R>>::Error>;

impl<S, B, L: Limits> Waiting<S, B, L> {
    /// Waits until all limits have granted, or one has refused: then this is the answer.
    fn poll<R>(&mut self, cx: &mut Context<'_>) -> Poll<Option<Response<LimitBody<R, L>>>> {
        let (Some((_, request)), Some(holding)) = (&mut self.call, &mut self.holding) else {
            unreachable!("it is not called before it is its turn")
        };
        // Each round ends with another limit granted or another key found, or with the wait for all.
        loop {
            let Some((pending, since)) = &mut self.pending else {
                return Poll::Ready(None);
            };
            let since = *since;
            let waited = |holding: &RequestPermits<L>, index| {
                holding.shared().limits.at(index).now().since(since)
            };
            let (waited, answer) = match pending {
                Pending::One(index, acquire) => {
                    let answer = ready!(Pin::new(acquire).poll(cx));
                    let answer = answer.map(|permit| Some((*index, permit)));
                    (
                        waited(holding, *index),
                        answer.map_err(|denied| (*index, denied)),
                    )
                }
                Pending::Key(index, finding) => {
                    ready!(finding.as_mut().poll(cx));
                    (waited(holding, *index), Ok(None))
                }
                Pending::All(all) => {
                    let waited = holding.waited_for(all);
                    let answer = ready!(holding.poll_all(all, cx));
                    (waited, answer.map(|()| None))
                }
            };
            waited::add(request.extensions_mut(), waited);
            let head = Head::of(request);
            let admission = match answer {
                Ok(Some((index, permit))) => holding.granted(index, permit, &head, self.priority),
                Ok(None) => holding.ask(&head, self.priority),
                Err((index, denied)) => {
                    holding.refused(&denied);
                    Admission::Refused(index, denied)
                }
            };
            self.pending = match admission {
                Admission::Admitted => None,
                Admission::Wait(pending) => {
                    let since = self::since(holding, &pending);
                    Some((pending, since))
                }
                Admission::Refused(index, denied) => {
                    self.pending = None;
                    return Poll::Ready(Some(holding.shared().refuse(index, &head, denied)));
                }
            };
        }
    }

    /// Calls the service when it is ready.
    fn poll_call(&mut self, cx: &mut Context<'_>) -> Poll<Called<S, Request<B>, L>>
    where
        S: Service<Request<B>>,
    {
        if let Some((service, _)) = &mut self.call {
            ready!(service.poll_ready(cx))?;
        }
        let (Some((mut service, mut request)), Some(mut holding)) =
            (self.call.take(), self.holding.take())
        else {
            unreachable!("it is called once")
        };
        holding.prepare(&mut request);
        Poll::Ready(Ok((service.call(request), holding)))
    }
}

/// Gives up what was granted while the service behind was not ready.
impl<S, B, L: Limits> Drop for Waiting<S, B, L> {
    fn drop(&mut self) {
        if let Some(holding) = &mut self.holding {
            if let Some((Pending::All(all), _)) = self.pending.take() {
                holding.cancel(*all);
            }
            holding.undo();
        }
    }
}

/// Passes the result of a call on, with what its request holds if that is held until the body ends. Otherwise it
/// stays where it is, and has been returned.
#[inline(always)]
fn called<R: Body, E, L: Limits>(
    mut result: Result<Response<R>, E>,
    holding: &mut Option<RequestPermits<L>>,
) -> Result<Response<LimitBody<R, L>>, E> {
    // Looked at where it is, and moved once: it is large.
    let ahead = match &mut result {
        Ok(response) => {
            let Some(here) = holding else {
                unreachable!("a future is not polled after it is done")
            };
            here.answered(response)
        }
        // It says nothing about the load: dropping what is held says so.
        Err(_) => {
            *holding = None;
            None
        }
    };
    let lasting = ahead.and_then(|ahead| {
        let holding = holding.take()?;
        match ahead {
            Ahead::Body {
                outcome,
                length,
                web,
            } => Some(Box::new(Hold::new(Lasting {
                holding,
                outcome,
                length,
                web,
            }))),
            Ahead::Connection => {
                if let Ok(response) = &mut result {
                    holding.upgraded(response);
                }
                None
            }
        }
    });
    result.map(|response| response.map(|body| LimitBody::new(body, lasting)))
}

impl<S: Service<Request<B>>, B, L: Limits> fmt::Debug for ResponseFuture<S, B, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
