//! Upgraded connections: bytes are copied in both directions.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional};

use crate::counts::GatewayCounts;

/// Copies bytes in a task of its own, which owns `held` until it ends.
pub(crate) fn spawn(
    client: OnUpgrade,
    server: OnUpgrade,
    idle: Duration,
    counts: Arc<GatewayCounts>,
    held: impl Send + 'static,
) {
    counts.tunnels.fetch_add(1, Ordering::Relaxed);
    let held = (Gauge(counts), held);
    tokio::spawn(async move {
        let _held = held;
        if let Err(error) = run(client, server, idle).await {
            tracing::debug!(%error, "an upgraded connection failed");
        }
    });
}

/// Counts one upgraded connection until it is dropped.
struct Gauge(Arc<GatewayCounts>);

impl Drop for Gauge {
    fn drop(&mut self) {
        self.0.tunnels.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Copies bytes in both directions until both have ended, one has failed, or none has sent anything for `idle`.
async fn run(client: OnUpgrade, server: OnUpgrade, idle: Duration) -> io::Result<()> {
    let both = async { tokio::try_join!(client, server) };
    let both = tokio::time::timeout(idle, both).await;
    let (client, server) = both.map_err(io::Error::other)?.map_err(io::Error::other)?;
    let seen = Arc::new(AtomicU64::new(0));
    let watch = |io| Watched {
        io: TokioIo::new(io),
        seen: Arc::clone(&seen),
    };
    let (mut client, mut server) = (watch(client), watch(server));
    let mut copy = std::pin::pin!(copy_bidirectional(&mut client, &mut server));
    let mut last = 0;
    loop {
        tokio::select! {
            biased;
            done = &mut copy => return done.map(|_| ()),
            () = tokio::time::sleep(idle) => {
                let now = seen.load(Ordering::Relaxed);
                if now == last {
                    return Ok(());
                }
                last = now;
            }
        }
    }
}

/// Counts reads.
struct Watched<T> {
    io: T,
    seen: Arc<AtomicU64>,
}

impl<T: AsyncRead + Unpin> AsyncRead for Watched<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.io).poll_read(cx, buf);
        if read.is_ready() {
            self.seen.fetch_add(1, Ordering::Relaxed);
        }
        read
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Watched<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
