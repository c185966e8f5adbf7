//! A connection that does what it is told, one thing at each turn.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Mood {
    Pending,
    /// Moves at most so many bytes.
    Move(usize),
    Fail,
}

/// Moves whatever it can when its moods have run out.
#[derive(Default)]
pub(crate) struct Moody {
    pub(crate) moods: VecDeque<Mood>,
    pub(crate) moved: usize,
    /// The sizes of what it was asked to move.
    pub(crate) asked: Vec<usize>,
    /// How many bytes there are to read.
    pub(crate) left: usize,
}

impl Moody {
    pub(crate) fn new(moods: impl IntoIterator<Item = Mood>) -> Self {
        Self {
            moods: moods.into_iter().collect(),
            left: usize::MAX,
            ..Self::default()
        }
    }

    fn turn(&mut self, most: usize) -> Poll<io::Result<usize>> {
        self.asked.push(most);
        let count = match self.moods.pop_front() {
            Some(Mood::Pending) => return Poll::Pending,
            Some(Mood::Fail) => return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            Some(Mood::Move(count)) => count.min(most),
            None => most,
        };
        self.moved += count;
        Poll::Ready(Ok(count))
    }
}

impl AsyncRead for Moody {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let most = buf.remaining().min(self.left);
        self.turn(most).map_ok(|count| {
            self.left -= count;
            buf.put_slice(&vec![b'x'; count]);
        })
    }
}

impl AsyncWrite for Moody {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.turn(buf.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.turn(bufs.iter().map(|buf| buf.len()).sum())
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
