//! A server with a pool of workers. Like many servers, it finishes every request that it has started, also if the client has
//! timed out.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinSet;

use crate::chance::Chance;
use crate::script::{SERVICE, WORKERS};

/// The bound of the queue for workers. Further requests are answered with 503.
const BACKLOG: usize = 400;

/// The workers, and the queue of requests.
#[derive(Debug)]
struct Pool {
    queue: Mutex<VecDeque<oneshot::Sender<()>>>,
    queued: Semaphore,
    busy: AtomicUsize,
    /// The number of active workers.
    workers: watch::Sender<usize>,
}

impl Pool {
    fn queue(&self) -> MutexGuard<'_, VecDeque<oneshot::Sender<()>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a worker. `None` if the queue is full.
    fn push(&self) -> Option<oneshot::Receiver<()>> {
        let (done, answer) = oneshot::channel();
        let mut queue = self.queue();
        if queue.len() >= BACKLOG {
            return None;
        }
        queue.push_back(done);
        self.queued.add_permits(1);
        Some(answer)
    }

    async fn work(self: Arc<Self>, number: usize) {
        let mut chance = Chance::new(u64::try_from(number).unwrap_or(0) + 100);
        let mut workers = self.workers.subscribe();
        loop {
            if workers.wait_for(|workers| number < *workers).await.is_err() {
                return;
            }
            let Ok(one) = self.queued.acquire().await else {
                return;
            };
            // The worker may have been deactivated while it waited.
            if number >= *workers.borrow() {
                continue;
            }
            one.forget();
            let Some(done) = self.queue().pop_front() else {
                continue;
            };
            self.busy.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(SERVICE.mul_f64(0.75 + 0.5 * chance.share())).await;
            self.busy.fetch_sub(1, Ordering::Relaxed);
            // The client may have timed out.
            let _ = done.send(());
        }
    }
}

/// A listening server, until it is dropped.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    pool: Arc<Pool>,
    _tasks: JoinSet<()>,
}

impl Upstream {
    pub(crate) async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let pool = Arc::new(Pool {
            queue: Mutex::default(),
            queued: Semaphore::new(0),
            busy: AtomicUsize::new(0),
            workers: watch::Sender::new(WORKERS),
        });
        let mut tasks = JoinSet::new();
        for number in 0..WORKERS {
            tasks.spawn(Arc::clone(&pool).work(number));
        }
        tasks.spawn(accept(listener, Arc::clone(&pool)));
        Ok(Self {
            address,
            pool,
            _tasks: tasks,
        })
    }

    /// Sets the number of active workers. The others finish their present request.
    pub(crate) fn set_workers(&self, workers: usize) {
        self.pool.workers.send_replace(workers);
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.pool.queue().is_empty() && self.pool.busy.load(Ordering::Relaxed) == 0
    }
}

async fn accept(listener: TcpListener, pool: Arc<Pool>) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(SERVICE).await;
            continue;
        };
        let pool = Arc::clone(&pool);
        connections.spawn(async move {
            let service = service_fn(move |_: Request<Incoming>| answer(pool.push()));
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            let _ = connection.await;
        });
    }
}

async fn answer(
    worker: Option<oneshot::Receiver<()>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let done = match worker {
        Some(done) => done.await.is_ok(),
        None => false,
    };
    let (status, text) = match done {
        true => (StatusCode::OK, "ok\n"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "overloaded\n"),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    Ok(response)
}
