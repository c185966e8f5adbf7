//! A connection that first sends a request to upgrade, and then is the upgraded connection.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::upgrade::Upgraded;

/// The request that hyper reads first.
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n";
/// The end of the response to it.
const END: &[u8] = b"\r\n\r\n";

/// Counts bytes that were written to a connection.
pub(super) trait Sent: Send + Sync {
    fn sent(&self, bytes: u64);
}

/// See the [module](super).
pub(super) struct Io {
    request: &'static [u8],
    /// The number of bytes of the end that were written. The response itself is discarded.
    ended: usize,
    /// Empty until the response has been written.
    ready: Arc<Mutex<Option<Upgraded>>>,
    upgraded: Option<Upgraded>,
    held: Arc<dyn Sent>,
}

impl Io {
    pub(super) fn new(ready: Arc<Mutex<Option<Upgraded>>>, held: Arc<dyn Sent>) -> Self {
        Self {
            request: REQUEST,
            ended: 0,
            ready,
            upgraded: None,
            held,
        }
    }

    /// The upgraded connection, once the response has been written.
    fn upgraded(&mut self) -> Option<Pin<&mut Upgraded>> {
        if self.upgraded.is_none() && self.ended == END.len() {
            self.upgraded = lock(&self.ready).take();
        }
        self.upgraded.as_mut().map(Pin::new)
    }

    /// Consumes the response, up to its end. Returns the number of bytes that belonged to it.
    fn swallow(&mut self, bytes: &[u8]) -> usize {
        for (at, byte) in bytes.iter().enumerate() {
            if self.ended == END.len() {
                return at;
            }
            self.ended = match *byte == END[self.ended] {
                true => self.ended + 1,
                false => usize::from(*byte == END[0]),
            };
        }
        bytes.len()
    }
}

impl Read for Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.request.is_empty() {
            let part = self.request.len().min(buf.remaining());
            let (now, later) = self.request.split_at(part);
            buf.put_slice(now);
            self.request = later;
            return Poll::Ready(Ok(()));
        }
        match self.upgraded() {
            Some(upgraded) => upgraded.poll_read(cx, buf),
            None => Poll::Pending,
        }
    }
}

impl Write for Io {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Some(upgraded) = self.upgraded() else {
            return Poll::Ready(Ok(self.swallow(buf)));
        };
        let written = upgraded.poll_write(cx, buf);
        if let Poll::Ready(Ok(written)) = written {
            self.held.sent(written as u64);
        }
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let Some(upgraded) = self.upgraded() else {
            let first = bufs.iter().find(|buf| !buf.is_empty());
            return Poll::Ready(Ok(first.map_or(0, |buf| self.swallow(buf))));
        };
        let written = upgraded.poll_write_vectored(cx, bufs);
        if let Poll::Ready(Ok(written)) = written {
            self.held.sent(written as u64);
        }
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.upgraded.as_ref().is_some_and(Write::is_write_vectored)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.upgraded() {
            Some(upgraded) => upgraded.poll_flush(cx),
            None => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.upgraded() {
            Some(upgraded) => upgraded.poll_shutdown(cx),
            None => Poll::Ready(Ok(())),
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
