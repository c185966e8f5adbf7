//! The permits of a request whose connection is upgraded.
//!
//! A handler that upgrades a connection takes an [`OnUpgrade`] out of its request, responds, and uses the connection
//! for any length of time; the body of its response is empty and ends at once. So the layer replaces the `OnUpgrade` of
//! hyper with another one. That one yields hyper's connection, wrapped so that the permits of the request are dropped
//! with it.
//!
//! # How it works
//!
//! Only hyper can make an `OnUpgrade`. So hyper makes another one: it serves a connection, our [`Io`], on which the
//! only input is one short request to upgrade. The service that answers it keeps the `OnUpgrade` of that request, and
//! responds when the real connection has been upgraded. Then hyper yields the `Io`, which from then on is the real
//! connection. Nothing is copied and no task is needed: the waker of the real upgrade drives everything.

mod io;

use std::convert::Infallible;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use http::{Extensions, Method, Request, Response, StatusCode};
use http_body::{Body, Frame};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::{OnUpgrade, Upgraded};

use self::io::{Io, Sent, lock};
use super::held_permits::HeldPermits;
use super::limits::Limits;

/// The upgrade that a request asks for.
pub(super) struct Upgrade<L: Limits> {
    /// The slot for the permits if the connection is upgraded; dropped if the handler does not take the connection.
    slot: Weak<Slot<L>>,
    is_connect: bool,
}

/// The permits of a request while its connection is upgraded.
struct Slot<L: Limits>(Mutex<Option<HeldPermits<L>>>);

impl<L: Limits> Slot<L> {
    fn lock(&self) -> MutexGuard<'_, Option<HeldPermits<L>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<L: Limits> Sent for Slot<L> {
    fn sent(&self, bytes: u64) {
        if let Some(permits) = &mut *self.lock() {
            permits.bytes = permits.bytes.saturating_add(bytes);
        }
    }
}

impl<L: Limits> Upgrade<L> {
    /// Replaces the upgrade of a request, if it asks for one.
    #[inline]
    pub(super) fn of<B>(request: &mut Request<B>) -> Option<Self> {
        let is_connect = request.method() == Method::CONNECT;
        let upgrade = request.extensions_mut().get_mut::<OnUpgrade>()?;
        Self::replace(upgrade, None, is_connect)
    }

    #[cold]
    fn replace(
        upgrade: &mut OnUpgrade,
        permits: Option<HeldPermits<L>>,
        is_connect: bool,
    ) -> Option<Self> {
        let slot = Arc::new(Slot(Mutex::new(permits)));
        let weak = Arc::downgrade(&slot);
        *upgrade = instead_of(upgrade.clone(), slot)?;
        Some(Self {
            slot: weak,
            is_connect,
        })
    }

    /// Whether a response with this status ends HTTP on the connection or stream of the request.
    pub(super) fn is_done(&self, status: StatusCode) -> bool {
        status == StatusCode::SWITCHING_PROTOCOLS || (self.is_connect && status.is_success())
    }

    /// Lets the connection hold the permits of its request.
    pub(super) fn hold(&self, permits: HeldPermits<L>) {
        if let Some(slot) = self.slot.upgrade() {
            *slot.lock() = Some(permits);
        }
    }
}

/// Whether a response comes with an upgraded connection, as it does to a client.
pub(super) fn comes_with(status: StatusCode, extensions: &Extensions) -> bool {
    (status == StatusCode::SWITCHING_PROTOCOLS || status.is_success())
        && extensions.get::<OnUpgrade>().is_some()
}

/// Lets the connection that comes with a response hold the permits of its request.
#[cold]
pub(super) fn hold_by_response<L: Limits>(extensions: &mut Extensions, permits: HeldPermits<L>) {
    if let Some(upgrade) = extensions.get_mut::<OnUpgrade>() {
        let _ = Upgrade::replace(upgrade, Some(permits), false);
    }
}

/// An upgrade that yields the connection of `real`, and drops `held` when the connection is dropped.
fn instead_of(real: OnUpgrade, held: Arc<dyn Sent>) -> Option<OnUpgrade> {
    let found: Arc<Mutex<Option<OnUpgrade>>> = Arc::default();
    let upgraded: Arc<Mutex<Option<Upgraded>>> = Arc::default();
    let (find, ready) = (Arc::clone(&found), Arc::clone(&upgraded));
    let service = service_fn(move |mut request: Request<Incoming>| {
        *lock(&find) = Some(hyper::upgrade::on(&mut request));
        let ready = Arc::clone(&ready);
        async move {
            poll_fn(|_| match *lock(&ready) {
                Some(_) => Poll::Ready(()),
                None => Poll::Pending,
            })
            .await;
            let mut response = Response::new(Nothing);
            *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            Ok::<_, Infallible>(response)
        }
    });
    let io = Io::new(Arc::clone(&upgraded), held);
    let served = http1::Builder::new().serve_connection(io, service);
    let mut served: Served = Box::pin(served.with_upgrades());
    // The request has already arrived; the response has not been made.
    let begun = served
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()));
    debug_assert!(begun.is_pending(), "it waits for the real one");
    let instead = lock(&found).take()?;
    let relay = Arc::new(Relay {
        again: AtomicBool::new(false),
        state: Mutex::new(Some(Waiting {
            real,
            upgraded,
            served,
        })),
    });
    relay.wake();
    Some(instead)
}

type Served = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

/// Hands a connection on when it has been upgraded.
struct Relay {
    /// Set by a wake-up that came while the state was locked.
    again: AtomicBool,
    state: Mutex<Option<Waiting>>,
}

struct Waiting {
    real: OnUpgrade,
    upgraded: Arc<Mutex<Option<Upgraded>>>,
    served: Served,
}

impl Relay {
    fn look(self: &Arc<Self>) {
        self.again.store(true, Ordering::SeqCst);
        while self.again.load(Ordering::SeqCst) {
            let mut state = match self.state.try_lock() {
                Ok(state) => state,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                // The holder of the lock polls again.
                Err(TryLockError::WouldBlock) => return,
            };
            self.again.store(false, Ordering::SeqCst);
            let Some(waiting) = &mut *state else {
                return;
            };
            let waker = Waker::from(Arc::clone(self));
            let Poll::Ready(real) =
                Pin::new(&mut waiting.real).poll(&mut Context::from_waker(&waker))
            else {
                continue;
            };
            let Some(mut waiting) = state.take() else {
                return;
            };
            drop(state);
            // If it failed, dropping the rest fails the upgrade that the handler awaits.
            if let Ok(real) = real {
                *lock(&waiting.upgraded) = Some(real);
                let done = waiting.served.as_mut();
                let done = done.poll(&mut Context::from_waker(Waker::noop()));
                debug_assert!(done.is_ready(), "there is nothing left to wait for");
            }
            return;
        }
    }
}

impl Wake for Relay {
    fn wake(self: Arc<Self>) {
        self.look();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.look();
    }
}

/// The empty body of a response.
struct Nothing;

impl Body for Nothing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        true
    }
}

impl<L: Limits> fmt::Debug for Upgrade<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upgrade")
            .field("is_connect", &self.is_connect)
            .finish_non_exhaustive()
    }
}
