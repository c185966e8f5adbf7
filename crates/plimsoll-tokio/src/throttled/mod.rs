//! Bytes per second, shared fairly among connections.
//!
//! A [`Budget`] is a rate in bytes. Any number of [`Throttled`] connections can draw on it, in either direction, and one
//! connection can draw on several: its own, and one shared by all.
//!
//! # Fair shares
//!
//! While the budget suffices for all, a connection takes exactly the bytes that it transfers. Otherwise connections
//! queue, first in, first out, and each gets one *quantum* when its turn comes; with its quantum used up, it goes to
//! the end of the queue. So connections that always have data get equal shares, whatever the sizes of their buffers,
//! and connections that need less than their share get what they need.
//!
//! # Refunds
//!
//! A connection refunds unused credit: when there is nothing to read, when the peer accepts no more, on flush, at the
//! end of the stream, after an error, and when it is dropped. After a pause it asks only for the bytes that it has to
//! transfer instead of a quantum, until it asks again without a pause. A writer that stops in the middle of a quantum
//! and does not flush holds the rest, at most one quantum, for up to a second. If a read or write is cancelled while it
//! waits, the next one of the same connection takes its place in the queue.
//!
//! A quantum is never larger than the burst of its budget, so every buffer size works with every budget.

mod budget;
mod meter;

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use self::meter::Meters;

pub use budget::Budget;

/// The number of slices of a vectored write that are used when not all of it may be written.
const SLICES: usize = 16;

pin_project! {
    /// A connection with limited bytes per second.
    ///
    /// ```
    /// use plimsoll_tokio::{Budget, Throttled};
    /// use tokio::io::AsyncWriteExt;
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let uploads = Budget::per_second(1 << 20);
    /// let (client, _server) = tokio::io::duplex(4096);
    /// let mut client = Throttled::new(client).writes(&uploads);
    /// client.write_all(b"within the budget of the first second").await?;
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// Flushing and shutting down are never delayed. If a budget is closed, reads and writes fail with the refusal as
    /// the source of the error. No other refusal causes an error.
    #[derive(Debug)]
    pub struct Throttled<T> {
        #[pin]
        io: T,
        reads: Meters,
        writes: Meters,
    }
}

impl<T> Throttled<T> {
    /// Wraps a connection, without limits yet.
    pub fn new(io: T) -> Self {
        Self {
            io,
            reads: Meters::default(),
            writes: Meters::default(),
        }
    }

    /// Limits reads by `budget`, in addition to earlier ones.
    ///
    /// With several budgets, add the narrowest first, usually that of the connection: its quantum is held while the
    /// connection waits for the next budget. A turn transfers the smallest of the quanta.
    #[must_use]
    pub fn reads(mut self, budget: &Budget) -> Self {
        self.reads.add(budget.clone());
        self
    }

    /// Limits writes by `budget`, in addition to earlier ones. See [`reads`](Self::reads) for the order.
    #[must_use]
    pub fn writes(mut self, budget: &Budget) -> Self {
        self.writes.add(budget.clone());
        self
    }

    /// Returns a reference to the connection.
    pub fn get_ref(&self) -> &T {
        &self.io
    }

    /// Returns a mutable reference to the connection. Bytes transferred through it directly are not counted.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.io
    }

    /// Returns the connection, without its limits.
    pub fn into_inner(self) -> T {
        self.io
    }
}

impl<T: AsyncRead> AsyncRead for Throttled<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.project();
        let room = buf.remaining();
        if room == 0 {
            return this.io.poll_read(cx, buf);
        }
        let allowed = ready!(this.reads.poll_allowed(cx, room))?;
        let polled = if allowed < room {
            let mut part = ReadBuf::new(buf.initialize_unfilled_to(allowed));
            let polled = this.io.poll_read(cx, &mut part);
            let filled = part.filled().len();
            buf.advance(filled);
            polled
        } else {
            this.io.poll_read(cx, buf)
        };
        this.reads.moved(room - buf.remaining());
        polled
    }
}

impl<T: AsyncWrite> AsyncWrite for Throttled<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        if buf.is_empty() {
            return this.io.poll_write(cx, buf);
        }
        let allowed = ready!(this.writes.poll_allowed(cx, buf.len()))?;
        let polled = this.io.poll_write(cx, &buf[..allowed.min(buf.len())]);
        this.writes.moved(written(&polled));
        polled
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        let whole = bufs
            .iter()
            .fold(0, |sum: usize, buf| sum.saturating_add(buf.len()));
        if whole == 0 {
            return this.io.poll_write_vectored(cx, bufs);
        }
        let allowed = ready!(this.writes.poll_allowed(cx, whole))?;
        let polled = if allowed < whole {
            let mut part = [IoSlice::new(&[]); SLICES];
            let count = cut(bufs, allowed, &mut part);
            this.io.poll_write_vectored(cx, &part[..count])
        } else {
            this.io.poll_write_vectored(cx, bufs)
        };
        this.writes.moved(written(&polled));
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        // The writer pauses.
        this.writes.pause();
        this.io.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        this.writes.refund();
        this.io.poll_shutdown(cx)
    }
}

/// The number of bytes written.
fn written(polled: &Poll<io::Result<usize>>) -> usize {
    match polled {
        Poll::Ready(Ok(count)) => *count,
        _ => 0,
    }
}

/// The first `most` bytes of `bufs`, in `part`; returns the number of slices.
fn cut<'a>(bufs: &'a [IoSlice<'_>], mut most: usize, part: &mut [IoSlice<'a>; SLICES]) -> usize {
    let mut count = 0;
    for (buf, slot) in bufs.iter().filter(|buf| !buf.is_empty()).zip(part) {
        if most == 0 {
            break;
        }
        let len = buf.len().min(most);
        *slot = IoSlice::new(&buf[..len]);
        most -= len;
        count += 1;
    }
    count
}
