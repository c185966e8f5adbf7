//! The connection of a client, between its socket and hyper.
//!
//! hyper answers a malformed head by itself, without a body. It cannot send an interim response (1xx) other than `100 Continue`.
//! It accepts line feeds without carriage returns, and requests with two lengths. So this module [scans](crate::scan) the bytes
//! that are read, writes interim responses between those of hyper, and replaces what hyper answers while no request is open by
//! a problem document. With HTTP/2 and after an upgrade all bytes pass unchanged.

use std::fmt::Write as _;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::counts::GatewayCounts;
use crate::fault::Fault;
use crate::idle_timeout::IdleTimeout;
use crate::scan::Scan;

/// The state of a client connection that its socket and the service of its requests share.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    phase: AtomicU8,
    /// Whether `interim` is not empty.
    has_more: AtomicBool,
    interim: Mutex<Interim>,
}

/// Interim responses that are written before anything else.
#[derive(Debug, Default)]
struct Interim {
    text: Vec<u8>,
    /// The task that writes it.
    waker: Option<Waker>,
}

/// The largest number of bytes of interim responses that wait for a client that does not read them.
const MAX_INTERIM: usize = 64 * 1024;

/// No request is open, and all responses are sent.
const IDLE: u8 = 0;
/// A request is open.
const BUSY: u8 = 1;
/// The response of a request is complete, and being sent.
const ENDING: u8 = 2;
/// The connection was upgraded to another protocol.
const UPGRADED: u8 = 3;

impl Wire {
    fn phase(&self) -> u8 {
        self.phase.load(Ordering::Acquire)
    }

    /// Starts a request.
    pub(crate) fn begin(&self) {
        self.phase.store(BUSY, Ordering::Release);
    }

    /// Ends the body of a response.
    pub(crate) fn end(&self) {
        if self.phase() == BUSY {
            self.phase.store(ENDING, Ordering::Release);
        }
    }

    /// Marks the connection as upgraded, after `101 Switching Protocols`.
    pub(crate) fn upgraded(&self) {
        self.phase.store(UPGRADED, Ordering::Release);
    }

    fn interim(&self) -> MutexGuard<'_, Interim> {
        self.interim.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forwards an interim response.
    pub(crate) fn inform(&self, status: StatusCode, headers: &HeaderMap) {
        if self.phase() != BUSY {
            return;
        }
        let mut text = format!("HTTP/1.1 {} ", status.as_u16());
        let _ = write!(
            text,
            "{}\r\n",
            status.canonical_reason().unwrap_or_default()
        );
        let mut text = text.into_bytes();
        let mut headers = headers.clone();
        crate::headers::strip(&mut headers);
        for (name, value) in &headers {
            text.extend_from_slice(name.as_str().as_bytes());
            text.extend_from_slice(b": ");
            text.extend_from_slice(value.as_bytes());
            text.extend_from_slice(b"\r\n");
        }
        text.extend_from_slice(b"\r\n");
        self.write(&text);
    }

    fn write(&self, text: &[u8]) {
        let mut interim = self.interim();
        // A server may send interim responses without end.
        if interim.text.len() > MAX_INTERIM {
            return;
        }
        interim.text.extend_from_slice(text);
        self.has_more.store(true, Ordering::Release);
        let waker = interim.waker.take();
        drop(interim);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The socket of a client.
pub(crate) struct ClientIo<T> {
    io: T,
    wire: Arc<Wire>,
    scan: Scan,
    counts: Arc<GatewayCounts>,
    /// The time-out for a client that reads nothing of a response.
    timeout: IdleTimeout,
    /// The fault of the bytes that were read, if there is one.
    fault: Option<Fault>,
}

impl<T: AsyncRead + AsyncWrite + Unpin> ClientIo<T> {
    pub(crate) fn new(io: T, wire: Arc<Wire>, counts: Arc<GatewayCounts>, stall: Duration) -> Self {
        Self {
            io,
            wire,
            scan: Scan::default(),
            counts,
            timeout: IdleTimeout::new(stall),
            fault: None,
        }
    }

    /// Writes pending interim responses.
    fn poll_interim(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.wire.has_more.load(Ordering::Acquire) {
            return Poll::Ready(Ok(()));
        }
        let mut interim = self.wire.interim();
        while !interim.text.is_empty() {
            let written = ready!(Pin::new(&mut self.io).poll_write(cx, &interim.text))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            interim.text.drain(..written);
        }
        self.wire.has_more.store(false, Ordering::Release);
        Poll::Ready(Ok(()))
    }

    /// Counts, logs and answers a malformed head.
    fn refuse(&self, fault: Fault) {
        self.counts.note(fault);
        tracing::warn!(fault = fault.word(), "a malformed request");
        self.wire.write(fault.on_the_wire().as_bytes());
    }

    /// Replaces hyper's own response, while no request is open, by a problem document. Returns whether it did.
    fn replaces(&self, text: &[u8]) -> bool {
        if self.wire.phase() != IDLE {
            return false;
        }
        let status = text
            .strip_prefix(b"HTTP/1.1 ")
            .or_else(|| text.strip_prefix(b"HTTP/1.0 "));
        let Some(status) =
            status.and_then(|it| std::str::from_utf8(it.get(..3)?).ok()?.parse().ok())
        else {
            return false;
        };
        self.refuse(Fault::of_status(status));
        true
    }

    /// Passes on the result of a write, or returns an error if the client has read nothing for too long.
    fn watch<W>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<W>>,
    ) -> Poll<io::Result<W>> {
        if written.is_ready() {
            self.timeout.reset();
            return written;
        }
        ready!(self.timeout.poll_elapsed(cx));
        tracing::debug!("a client does not read what it is sent");
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncRead for ClientIo<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Some(fault) = this.fault {
            ready!(this.poll_interim(cx))?;
            ready!(Pin::new(&mut this.io).poll_flush(cx))?;
            return Poll::Ready(Err(io::Error::new(
                io::ErrorKind::InvalidData,
                fault.word(),
            )));
        }
        let before = buf.filled().len();
        let Poll::Ready(read) = Pin::new(&mut this.io).poll_read(cx, buf) else {
            if this.wire.phase() == BUSY {
                let mut interim = this.wire.interim();
                let known = interim.waker.as_ref();
                if !known.is_some_and(|waker| waker.will_wake(cx.waker())) {
                    interim.waker = Some(cx.waker().clone());
                }
            }
            return Poll::Pending;
        };
        read?;
        match this.wire.phase() {
            UPGRADED => this.scan.upgraded(),
            IDLE => this.scan.next(),
            _ => {}
        }
        let Err(fault) = this.scan.see(&buf.filled()[before..]) else {
            return Poll::Ready(Ok(()));
        };
        // hyper does not receive these bytes. While a request is open, no response can be written, so the connection ends.
        buf.set_filled(before);
        this.fault = Some(fault);
        if this.wire.phase() == IDLE {
            this.refuse(fault);
        } else {
            this.counts.note(fault);
            tracing::warn!(fault = fault.word(), "a malformed request");
        }
        Pin::new(this).poll_read(cx, buf)
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for ClientIo<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.replaces(buf) {
            return Poll::Ready(Ok(buf.len()));
        }
        let written = match this.poll_interim(cx)? {
            Poll::Ready(()) => Pin::new(&mut this.io).poll_write(cx, buf),
            Poll::Pending => Poll::Pending,
        };
        this.watch(cx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if bufs.first().is_some_and(|first| this.replaces(first)) {
            return Poll::Ready(Ok(bufs.iter().map(|buf| buf.len()).sum()));
        }
        let written = match this.poll_interim(cx)? {
            Poll::Ready(()) => Pin::new(&mut this.io).poll_write_vectored(cx, bufs),
            Poll::Pending => Poll::Pending,
        };
        this.watch(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = match this.poll_interim(cx)? {
            Poll::Ready(()) => Pin::new(&mut this.io).poll_flush(cx),
            Poll::Pending => Poll::Pending,
        };
        // hyper flushes after it has written everything.
        if matches!(flushed, Poll::Ready(Ok(()))) && this.wire.phase() == ENDING {
            this.wire.phase.store(IDLE, Ordering::Release);
            this.scan.next();
        }
        this.watch(cx, flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_interim(cx))?;
        Pin::new(&mut this.io).poll_shutdown(cx)
    }
}
