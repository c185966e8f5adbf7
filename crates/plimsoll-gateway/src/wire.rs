//! The connection of a client, between its socket and hyper.
//!
//! hyper answers a malformed head by itself, without a body; it cannot send an interim response (1xx) but `100 Continue`; and
//! it takes line feeds without carriage returns and requests with two lengths. So what is read is [scanned](crate::scan), interim
//! responses are written between those of hyper, and what hyper answers while no request is open is replaced by a problem
//! document. With HTTP/2 and after an upgrade everything passes as it is.

use std::fmt::Write as _;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::counts::Counts;
use crate::fault::Fault;
use crate::patience::Patience;
use crate::scan::Scan;

/// What is known of the connection of a client, for the service of its requests.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    phase: AtomicU8,
    /// Whether there is something in `between`.
    has_more: AtomicBool,
    between: Mutex<Between>,
}

/// What is to be written before anything else.
#[derive(Debug, Default)]
struct Between {
    text: Vec<u8>,
    /// The task that writes it.
    waker: Option<Waker>,
}

/// So many bytes of interim responses wait for a client that does not read them.
const MOST_BETWEEN: usize = 64 * 1024;

/// No request is open, and all that was answered is sent.
const IDLE: u8 = 0;
/// A request is open.
const BUSY: u8 = 1;
/// A request was answered, and its answer is being sent.
const ENDING: u8 = 2;
/// Another protocol is spoken.
const THROUGH: u8 = 3;

impl Wire {
    fn phase(&self) -> u8 {
        self.phase.load(Ordering::Acquire)
    }

    /// A request is open.
    pub(crate) fn begin(&self) {
        self.phase.store(BUSY, Ordering::Release);
    }

    /// The body of its answer has ended.
    pub(crate) fn end(&self) {
        if self.phase() == BUSY {
            self.phase.store(ENDING, Ordering::Release);
        }
    }

    /// Its answer was that another protocol is spoken.
    pub(crate) fn through(&self) {
        self.phase.store(THROUGH, Ordering::Release);
    }

    fn between(&self) -> MutexGuard<'_, Between> {
        self.between.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes an interim response on.
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
        let mut between = self.between();
        // A server that never answers is not listened to for ever.
        if between.text.len() > MOST_BETWEEN {
            return;
        }
        between.text.extend_from_slice(text);
        self.has_more.store(true, Ordering::Release);
        let waker = between.waker.take();
        drop(between);
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
    counts: Arc<Counts>,
    /// How long a client may read nothing of what is sent.
    patience: Patience,
    /// What is wrong with what was read, once that is so.
    fault: Option<Fault>,
}

impl<T: AsyncRead + AsyncWrite + Unpin> ClientIo<T> {
    pub(crate) fn new(io: T, wire: Arc<Wire>, counts: Arc<Counts>, stall: Duration) -> Self {
        Self {
            io,
            wire,
            scan: Scan::default(),
            counts,
            patience: Patience::new(stall),
            fault: None,
        }
    }

    /// Writes what is to be written before anything else.
    fn poll_between(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.wire.has_more.load(Ordering::Acquire) {
            return Poll::Ready(Ok(()));
        }
        let mut between = self.wire.between();
        while !between.text.is_empty() {
            let written = ready!(Pin::new(&mut self.io).poll_write(cx, &between.text))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            between.text.drain(..written);
        }
        self.wire.has_more.store(false, Ordering::Release);
        Poll::Ready(Ok(()))
    }

    /// Answers a head that is malformed, and says so once.
    fn refuse(&self, fault: Fault) {
        self.counts.note(fault);
        tracing::warn!(fault = fault.word(), "a malformed request");
        self.wire.write(fault.on_the_wire().as_bytes());
    }

    /// hyper's own answer, while no request is open, as a problem.
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

    /// What a write came to, if it does not take too long.
    fn watch<W>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<W>>,
    ) -> Poll<io::Result<W>> {
        if written.is_ready() {
            self.patience.came();
            return written;
        }
        ready!(self.patience.poll_over(cx));
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
            ready!(this.poll_between(cx))?;
            ready!(Pin::new(&mut this.io).poll_flush(cx))?;
            return Poll::Ready(Err(io::Error::new(
                io::ErrorKind::InvalidData,
                fault.word(),
            )));
        }
        let before = buf.filled().len();
        let Poll::Ready(read) = Pin::new(&mut this.io).poll_read(cx, buf) else {
            if this.wire.phase() == BUSY {
                let mut between = this.wire.between();
                let known = between.waker.as_ref();
                if !known.is_some_and(|waker| waker.will_wake(cx.waker())) {
                    between.waker = Some(cx.waker().clone());
                }
            }
            return Poll::Pending;
        };
        read?;
        match this.wire.phase() {
            THROUGH => this.scan.through(),
            IDLE => this.scan.next(),
            _ => {}
        }
        let Err(fault) = this.scan.see(&buf.filled()[before..]) else {
            return Poll::Ready(Ok(()));
        };
        // hyper sees nothing of it. While a request is open nothing can be said: the connection ends.
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
        let written = match this.poll_between(cx)? {
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
        let written = match this.poll_between(cx)? {
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
        let flushed = match this.poll_between(cx)? {
            Poll::Ready(()) => Pin::new(&mut this.io).poll_flush(cx),
            Poll::Pending => Poll::Pending,
        };
        // hyper flushes when it has written all it has.
        if matches!(flushed, Poll::Ready(Ok(()))) && this.wire.phase() == ENDING {
            this.wire.phase.store(IDLE, Ordering::Release);
            this.scan.next();
        }
        this.watch(cx, flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_between(cx))?;
        Pin::new(&mut this.io).poll_shutdown(cx)
    }
}
