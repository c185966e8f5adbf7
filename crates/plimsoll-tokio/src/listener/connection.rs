use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use plimsoll::Permit;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::throttled::Throttled;

/// The permits of a connection. Dropping it returns them.
///
/// [`Connection::into_parts`] returns one, for servers that need the accepted connection itself, such as those that
/// split it or hand it to another library. Hold it until the connection is closed.
#[derive(Debug)]
#[must_use = "the connection no longer counts when this is dropped"]
pub struct Admission {
    _total: Option<Permit<'static>>,
    _address: Option<Permit<'static>>,
}

impl Admission {
    pub(super) fn new(total: Option<Permit<'static>>, address: Option<Permit<'static>>) -> Self {
        Self {
            _total: total,
            _address: address,
        }
    }
}

pin_project! {
    /// A connection that counts until it is dropped. It forwards reads and writes, within the byte budgets of the
    /// listener if there are any.
    #[derive(Debug)]
    pub struct Connection<T> {
        #[pin]
        io: Throttled<T>,
        admission: Admission,
    }
}

impl<T> Connection<T> {
    pub(super) fn new(io: Throttled<T>, admission: Admission) -> Self {
        Self { io, admission }
    }

    /// Returns a reference to the accepted connection, for example to read its addresses.
    pub fn get_ref(&self) -> &T {
        self.io.get_ref()
    }

    /// Returns a mutable reference to the accepted connection. Bytes transferred through it directly are not counted.
    pub fn get_mut(&mut self) -> &mut T {
        self.io.get_mut()
    }

    /// Returns the connection, without its byte budgets, and its permits. It counts until the [`Admission`] is dropped.
    pub fn into_parts(self) -> (T, Admission) {
        (self.io.into_inner(), self.admission)
    }
}

impl<T: AsyncRead> AsyncRead for Connection<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.project().io.poll_read(cx, buf)
    }
}

impl<T: AsyncWrite> AsyncWrite for Connection<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.project().io.poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.project().io.poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().io.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().io.poll_shutdown(cx)
    }
}
