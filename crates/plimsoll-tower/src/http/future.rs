use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use plimsoll::{Denied, Moment};
use tower_service::Service;

use super::all::{Admission, Pending};
use super::answering::Refused;
use super::body::{BodySource, Hold, LimitBody};
use super::lasting::Lasting;
use super::limits::Limits;
use super::request_permits::{Ahead, RequestPermits};
use super::shared::Shared;
use super::waited;
use crate::Head;

pin_project! {
    /// The future of a call of an [`HttpLimit`](crate::HttpLimit): waits for the limits if it must, then for the response of the
    /// service.
    ///
    /// It resolves to the response of the service, or to the response of the layer if the request is refused. It fails only if the
    /// service fails. Dropping the future while it waits leaves the queue and takes nothing; dropping it later cancels the call of
    /// the service and returns the permits.
    ///
    /// ```
    /// use http::{Request, Response};
    /// use plimsoll::{Concurrency, Gate};
    /// use plimsoll_tower::{HttpLimitLayer, RequestLimit};
    /// use tower::{Layer, Service, service_fn};
    ///
    /// let gate = Gate::new(Concurrency::new(1));
    /// let mut service = HttpLimitLayer::new(RequestLimit::new(gate.clone())).layer(service_fn(async |_: Request<()>| {
    ///     std::future::pending::<Result<Response<axum::body::Body>, std::io::Error>>().await
    /// }));
    /// let call = service.call(Request::new(()));
    /// assert_eq!(gate.snapshot().in_use(), 1);
    /// drop(call);
    /// assert_eq!(gate.snapshot().in_use(), 0);
    /// ```
    #[must_use = "futures do nothing unless they are polled"]
    pub struct ResponseFuture<S, B, L>
    where
        S: Service<Request<B>>,
        L: Limits,
    {
        #[pin]
        pub(super) stage: Stage<S::Future, S, B, L>,
    }
}

pin_project! {
    #[project = StageView]
    pub(super) enum Stage<F, S, B, L>
    where
        L: Limits,
    {
        // The response is only passed on. A separate variant, so that the space for permits is not copied with it.
        Passing {
            #[pin]
            call: F,
        },
        // The response describes the limits, and nothing else is left to do.
        Describing {
            #[pin]
            call: F,
            // `None` once it is done.
            describing: Option<Describing<L>>,
        },
        Calling {
            #[pin]
            call: F,
            // `None` once it is done.
            permits: Option<RequestPermits<L>>,
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

/// The limits that a response describes.
pub(super) struct Describing<L: Limits> {
    pub(super) shared: Arc<Shared<L>>,
    pub(super) held: L::Held,
}

/// A request that is refused. Boxed for the same reason as those that wait.
pub(super) struct Refusal<B, L> {
    pub(super) shared: Arc<Shared<L>>,
    pub(super) index: usize,
    pub(super) denied: Denied,
    pub(super) request: Request<B>,
}

/// A request that waits for its turn. Boxed, so that requests that do not wait stay small.
pub(super) struct Waiting<S, B, L: Limits> {
    /// What it waits for, and the start of the wait by the clock of the limit; `None` if only the service is not ready
    /// yet.
    pending: Option<(Pending, Moment)>,
    /// `None` once the service has been called.
    holding: Option<RequestPermits<L>>,
    /// `None` once the service has been called.
    call: Option<(S, Request<B>)>,
}

impl<S, B, R, L> Future for ResponseFuture<S, B, L>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Body<Data: From<Bytes>>,
    L: Limits,
{
    type Output = Result<Response<LimitBody<R, L>>, S::Error>;

    // Always inlined, as the call is.
    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let stage = self.as_mut().project().stage.project();
            if let StageView::Passing { call } = stage {
                return call
                    .poll(cx)
                    .map_ok(|response| response.map(LimitBody::passed));
            }
            if let StageView::Describing { call, describing } = stage {
                let mut result = ready!(call.poll(cx));
                if let (Ok(response), Some(describing)) = (&mut result, describing.take()) {
                    describing.describe(response);
                }
                return Poll::Ready(result.map(|response| response.map(LimitBody::passed)));
            }
            if let StageView::Calling { call, permits } = stage {
                let mut result = ready!(call.poll(cx));
                let lasting = hold(&mut result, permits);
                return Poll::Ready(result.map(|response| {
                    response.map(|body| LimitBody {
                        body: BodySource::Service { body },
                        lasting,
                    })
                }));
            }
            if let Some(answer) = ready!(self.as_mut().poll_admission(cx)) {
                return Poll::Ready(answer);
            }
        }
    }
}

impl<L: Limits> Describing<L> {
    /// Writes the status of the limits, unless an inner limit has refused.
    #[inline]
    fn describe<R>(&self, response: &mut Response<R>) {
        if response.extensions().get::<Refused>().is_none() {
            let Shared {
                limits, answering, ..
            } = &*self.shared;
            answering.describe(limits, &self.held, response.headers_mut());
        }
    }
}

impl<S, B, R, L> ResponseFuture<S, B, L>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Body<Data: From<Bytes>>,
    L: Limits,
{
    /// Polls a request that is refused, or has to wait. Returns its response, or `None` when the service is called.
    #[inline(never)]
    fn poll_admission(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<<Self as Future>::Output>> {
        let mut stage = self.project().stage;
        let answer = match stage.as_mut().project() {
            StageView::Waiting {
                waiting: Some(here),
            } => match ready!(here.poll(cx)) {
                Some(refusal) => Ok(refusal),
                None => match ready!(here.poll_call(cx)) {
                    Ok((call, permits)) => {
                        let permits = Some(permits);
                        stage.set(Stage::Calling { call, permits });
                        return Poll::Ready(None);
                    }
                    Err(error) => Err(error),
                },
            },
            StageView::Refused {
                refusal: Some(here),
            } => {
                let head = Head::of(&here.request);
                let refusal = here.shared.refuse(here.index, &head, here.denied.clone());
                Ok(refusal.map(LimitBody::refusal))
            }
            _ => unreachable!("a future is not polled after it is done"),
        };
        stage.set(Stage::Done);
        Poll::Ready(Some(answer))
    }
}

/// The start of a wait, by the clock of the limit that is waited for. A wait for all limits records its own start.
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
    pub(super) fn new(pending: Pending, permits: RequestPermits<L>, call: (S, Request<B>)) -> Self {
        let since = since(&permits, &pending);
        Self {
            pending: Some((pending, since)),
            holding: Some(permits),
            call: Some(call),
        }
    }

    /// Waits until all limits have granted, or one has refused. Returns the response to the refusal.
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
                Ok(Some((index, permit))) => holding.granted(index, permit, &head),
                Ok(None) => holding.ask(&head),
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
                    let refusal = holding.shared().refuse(index, &head, denied);
                    return Poll::Ready(Some(refusal.map(LimitBody::refusal)));
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

/// Undoes what was granted while the service was not ready.
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

/// Moves the permits to the body of a response if they are held until it has ended. Otherwise they have been returned, and
/// stay where they are.
#[inline(always)]
fn hold<R: Body, E, L: Limits>(
    result: &mut Result<Response<R>, E>,
    permits: &mut Option<RequestPermits<L>>,
) -> Option<Box<Hold<L>>> {
    // Read in place, and moved once, because it is large.
    let Ok(response) = result else {
        // It says nothing about the load, which dropping the permits records.
        *permits = None;
        return None;
    };
    let ahead = permits.as_mut()?.answered(response)?;
    let permits = permits.take()?;
    match ahead {
        Ahead::Body {
            outcome,
            length,
            web,
        } => Some(Box::new(Hold::new(Lasting {
            permits: permits.into_held(),
            outcome,
            length,
            web,
        }))),
        Ahead::Connection => {
            permits.upgraded(response);
            None
        }
    }
}

impl<S: Service<Request<B>>, B, L: Limits> fmt::Debug for ResponseFuture<S, B, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
