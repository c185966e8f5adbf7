//! A worker: a thread with a runtime of its own that accepts and serves connections.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use hyper_util::server::graceful::GracefulShutdown;
use plimsoll_admin::Drain;
use plimsoll_engine::Limits;
use tokio::sync::{mpsc, oneshot};
use tokio_rustls::TlsAcceptor;

use crate::accept::Accept;
use crate::connection::Idle;
use crate::counts::GatewayCounts;
use crate::proxy::{Proxy, Shared};
use crate::table::Table;

/// The largest number of client connections.
const CONNECTIONS: usize = 20_000;
/// The interval of the timer in [`Worker::run`]. Shorter than most time-outs.
const OFTEN: Duration = Duration::from_secs(1);

pub(crate) struct Worker {
    pub(crate) limits: Limits,
    pub(crate) table: Arc<ArcSwap<Table>>,
    pub(crate) counts: Arc<GatewayCounts>,
    pub(crate) idle: Arc<Idle>,
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) listeners: Vec<TcpListener>,
    pub(crate) stop: Drain,
    pub(crate) drain: Duration,
}

impl Worker {
    /// Starts the thread. The returned receiver is ready when it has ended.
    pub(crate) fn spawn(self, number: usize) -> io::Result<oneshot::Receiver<Infallible>> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (end, ended) = oneshot::channel();
        let thread = std::thread::Builder::new().name(format!("gateway-{number}"));
        thread.spawn(move || {
            if let Err(error) = runtime.block_on(self.run()) {
                tracing::error!(%error, "a worker cannot listen");
            }
            // Drops the remaining tasks, which return their permits.
            drop(runtime);
            drop(end);
        })?;
        Ok(ended)
    }

    async fn run(self) -> io::Result<()> {
        let (tunnels, mut all_closed) = mpsc::channel(1);
        let proxy = Proxy(Arc::new(Shared {
            limits: self.limits.clone(),
            table: self.table,
            counts: self.counts,
            idle: self.idle,
            tunnels,
        }));
        // tokio wakes its own thread, by writing to a descriptor, whenever a timer is set that ends before all others, as the
        // timers of most requests do. A timer that always ends soon avoids that.
        let mut often = tokio::time::interval(OFTEN);
        tokio::spawn(async move {
            loop {
                often.tick().await;
            }
        });
        let accept = Accept::new(&self.limits, proxy, self.tls, CONNECTIONS);
        let graceful = Arc::new(GracefulShutdown::new());
        let mut accepting = tokio::task::JoinSet::new();
        for listener in self.listeners {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            accepting.spawn(
                accept
                    .clone()
                    .run(listener, Arc::clone(&graceful), self.stop.clone()),
            );
        }
        drop(accept);
        while accepting.join_next().await.is_some() {}
        let Some(graceful) = Arc::into_inner(graceful) else {
            return Ok(());
        };
        let drained = async {
            graceful.shutdown().await;
            // No message is ever sent: it ends when the last upgraded connection drops its sender.
            let _ = all_closed.recv().await;
        };
        if tokio::time::timeout(self.drain, drained).await.is_err() {
            tracing::warn!("some requests did not end in time");
        }
        Ok(())
    }
}
