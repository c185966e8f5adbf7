//! The body of a request on its way to a server.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use plimsoll_tower::json::Replayed;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::fault::Fault;
use crate::idle_timeout::IdleTimeout;

/// The body of a request as the limit layers forward it.
pub(crate) type FromClient = Replayed<Incoming>;

/// The time-out for `100 Continue` of a server. After it the body is sent anyway (RFC 9110, 10.1.1).
const CONTINUE: Duration = Duration::from_secs(1);

/// The body of a request on its way to a server.
pub(crate) enum RequestBody {
    Empty,
    Client(Box<ClientBody>),
}

pub(crate) struct ClientBody {
    body: FromClient,
    progress: Arc<Progress>,
    timeout: IdleTimeout,
    /// The number of bytes that may still arrive.
    left: u64,
    /// Set until the server wants the body.
    held: Option<BodyPermit>,
}

/// The permission to read the body, which resolves once the server wants it.
struct BodyPermit {
    wanted: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// The progress of a body, for the task that waits for the response.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    frames: AtomicU64,
    /// The body was polled, and the client has sent nothing.
    waits_for_client: AtomicBool,
    ended: OnceLock<Instant>,
    /// The fault plus one; 0 if there is none.
    fault: AtomicU8,
    /// Notified when the server wants the body.
    pub(crate) wanted: Notify,
}

impl Progress {
    /// The fault of the body, if it has one.
    pub(crate) fn fault(&self) -> Option<Fault> {
        let index = usize::from(self.fault.load(Ordering::Acquire)).checked_sub(1)?;
        Fault::ALL.get(index).copied()
    }

    fn fail(&self, fault: Fault) -> BodyError {
        self.fault.store(fault as u8 + 1, Ordering::Release);
        BodyError(fault)
    }

    /// The time at which the whole body was sent.
    pub(crate) fn ended(&self) -> Option<Instant> {
        self.ended.get().copied()
    }

    /// The number of frames that were sent, and whether the next one is awaited from the client.
    pub(crate) fn state(&self) -> (u64, bool) {
        let waits = self.waits_for_client.load(Ordering::Relaxed);
        (self.frames.load(Ordering::Relaxed), waits)
    }
}

/// The error of a request body.
#[derive(Debug)]
pub(crate) struct BodyError(Fault);

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.word())
    }
}

impl std::error::Error for BodyError {}

impl RequestBody {
    /// A body that forwards at most `most` bytes. With `is_held`, it forwards none before the server wants the body.
    pub(crate) fn new(
        body: FromClient,
        most: u64,
        idle: Duration,
        is_held: bool,
    ) -> (Self, Option<Arc<Progress>>) {
        if body.is_end_stream() {
            return (Self::Empty, None);
        }
        let progress = Arc::<Progress>::default();
        let held = is_held.then(|| {
            let progress = Arc::clone(&progress);
            let wanted = async move {
                let _ = tokio::time::timeout(CONTINUE, progress.wanted.notified()).await;
            };
            BodyPermit {
                wanted: Box::pin(wanted),
            }
        });
        let body = ClientBody {
            body,
            progress: Arc::clone(&progress),
            timeout: IdleTimeout::new(idle),
            left: most,
            held,
        };
        (Self::Client(Box::new(body)), Some(progress))
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            Self::Empty => Poll::Ready(None),
            Self::Client(body) => body.poll(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Client(body) => body.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Client(body) => body.body.size_hint(),
        }
    }
}

impl ClientBody {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(held) = &mut self.held {
            if held.wanted.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.held = None;
        }
        let progress = &self.progress;
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
            progress.waits_for_client.store(true, Ordering::Relaxed);
            return self
                .timeout
                .poll_elapsed(cx)
                .map(|()| Some(Err(progress.fail(Fault::SlowBody))));
        };
        self.timeout.reset();
        progress.waits_for_client.store(false, Ordering::Relaxed);
        progress.frames.fetch_add(1, Ordering::Relaxed);
        let end = || {
            let _ = progress.ended.set(Instant::now());
        };
        let frame = match frame {
            None => {
                end();
                return Poll::Ready(None);
            }
            Some(Err(_)) => return Poll::Ready(Some(Err(progress.fail(Fault::BadBody)))),
            Some(Ok(frame)) => frame,
        };
        let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
        match self.left.checked_sub(bytes) {
            Some(left) => self.left = left,
            None => return Poll::Ready(Some(Err(progress.fail(Fault::BodyTooLarge)))),
        }
        if self.body.is_end_stream() {
            end();
        }
        Poll::Ready(Some(Ok(frame)))
    }
}
