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
use crate::patience::Patience;

/// The body of a request as its limits pass it on.
pub(crate) type FromClient = Replayed<Incoming>;

/// How long a server may think before it sends `100 Continue`. After that the body is sent all the same (RFC 9110, 10.1.1).
const CONTINUE: Duration = Duration::from_secs(1);

/// The body of a request on its way to a server.
pub(crate) enum RequestBody {
    Empty,
    Client(Box<ClientBody>),
}

pub(crate) struct ClientBody {
    body: FromClient,
    progress: Arc<Progress>,
    patience: Patience,
    /// How many bytes may still come.
    left: u64,
    /// Until the server wants it.
    held: Option<Held>,
}

struct Held {
    wanted: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// How far a body has come, for the task that waits for the answer.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    frames: AtomicU64,
    /// Nothing has come from the client, though it was asked for.
    waits_for_client: AtomicBool,
    ended: OnceLock<Instant>,
    /// What went wrong, plus one.
    fault: AtomicU8,
    /// The server wants the body.
    pub(crate) wanted: Notify,
}

impl Progress {
    /// What went wrong with the body, if anything did.
    pub(crate) fn fault(&self) -> Option<Fault> {
        let index = usize::from(self.fault.load(Ordering::Acquire)).checked_sub(1)?;
        Fault::ALL.get(index).copied()
    }

    fn fail(&self, fault: Fault) -> BodyError {
        self.fault.store(fault as u8 + 1, Ordering::Release);
        BodyError(fault)
    }

    /// When all of it was sent.
    pub(crate) fn ended(&self) -> Option<Instant> {
        self.ended.get().copied()
    }

    /// How many parts were sent, and whether the client is waited for.
    pub(crate) fn state(&self) -> (u64, bool) {
        let waits = self.waits_for_client.load(Ordering::Relaxed);
        (self.frames.load(Ordering::Relaxed), waits)
    }
}

/// What is wrong with the body of a request.
#[derive(Debug)]
pub(crate) struct BodyError(Fault);

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.word())
    }
}

impl std::error::Error for BodyError {}

impl RequestBody {
    /// A body, of which at most `most` bytes are passed on. If `is_held`, none before the server wants it.
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
            Held {
                wanted: Box::pin(wanted),
            }
        });
        let body = ClientBody {
            body,
            progress: Arc::clone(&progress),
            patience: Patience::new(idle),
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
                .patience
                .poll_over(cx)
                .map(|()| Some(Err(progress.fail(Fault::SlowBody))));
        };
        self.patience.came();
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
