//! Bytes per second, shared fairly among connections.
//!
//! A [`Budget`] is a rate in bytes. Any number of [`Throttled`] connections may draw on it, in either direction,
//! and one connection may draw on several at once: its own, and one for all.
//!
//! # Who gets how much
//!
//! While there is enough for everybody, a connection takes exactly what it moves. When there is not, connections queue,
//! first come, first served, and each is given one *quantum* when its turn comes. Who has used up its quantum goes
//! to the end of the queue. So connections that always have something to move get equal shares, whatever the sizes of
//! their buffers, and those that want less than their share get what they want.
//!
//! What a connection was given and finds no use for goes back at once: when there is nothing to read, when the other
//! side takes no more, when a writer flushes, at the end, after an error, and when it is dropped. A connection that comes
//! back after a pause is not given a quantum but what it has to move, until it comes back without a pause. Only a writer
//! that stops in the middle of a quantum and does not flush keeps the rest: at most that one, and not for long. The same
//! goes for a read or write that is given up while it waits: its turn is that of the next one.
//!
//! No quantum is larger than the burst of its budget, so every size of buffer works with every budget.

mod budget;
mod meter;

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use self::meter::Meters;

pub use budget::Budget;

/// How many slices of a vectored write are looked at when not all of it may be written.
const SLICES: usize = 16;

pin_project! {
    /// A connection whose bytes are limited.
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
    /// Flushing and shutting down are never delayed. A budget that is closed makes reads and writes fail, with the
    /// refusal as the source of the error; no other refusal does.
    #[derive(Debug)]
    pub struct Throttled<T> {
        #[pin]
        io: T,
        reads: Meters,
        writes: Meters,
    }
}

impl<T> Throttled<T> {
    /// A connection without limits yet.
    pub fn new(io: T) -> Self {
        Self {
            io,
            reads: Meters::default(),
            writes: Meters::default(),
        }
    }

    /// Reads draw on this budget too.
    ///
    /// Where there are several, name the narrowest first, usually the connection's own: it gives whole quanta, and what
    /// it has given is held while the next is waited for. A turn is then worth the smallest of the quanta.
    #[must_use]
    pub fn reads(mut self, budget: &Budget) -> Self {
        self.reads.add(budget.clone());
        self
    }

    /// Writes draw on this budget too. See [`reads`](Self::reads) for the order.
    #[must_use]
    pub fn writes(mut self, budget: &Budget) -> Self {
        self.writes.add(budget.clone());
        self
    }

    /// What is throttled.
    pub fn get_ref(&self) -> &T {
        &self.io
    }

    /// What is throttled. Bytes moved this way are not counted.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.io
    }

    /// What is throttled, without its limits.
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
        // There is no more to come for now.
        this.writes.pause();
        this.io.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        this.writes.give_back();
        this.io.poll_shutdown(cx)
    }
}

/// How much went out.
fn written(polled: &Poll<io::Result<usize>>) -> usize {
    match polled {
        Poll::Ready(Ok(count)) => *count,
        _ => 0,
    }
}

/// The first `most` bytes of `bufs`, in `part`; returns how many slices that takes.
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
