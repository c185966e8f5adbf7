//! An axum server with a real pool, and a limit before it. It listens to its standard input for what becomes of the pool.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::error_handling::HandleErrorLayer;
use axum::http::StatusCode;
use axum::routing::get;
use plimsoll::Gate;
use plimsoll::adaptive::{Adaptive, Verdict};
use plimsoll_tower::{HttpLimitLayer, RequestLimit, load_shedding};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tower::ServiceBuilder;
use tower::load_shed::LoadShedLayer;

struct Pool {
    workers: Semaphore,
    millis: AtomicU64,
    /// How many workers go when they are done.
    leaving: AtomicUsize,
}

impl Pool {
    async fn work(&self) -> &'static str {
        let worker = self.workers.acquire().await;
        tokio::time::sleep(Duration::from_millis(self.millis.load(Ordering::Relaxed))).await;
        if let Ok(worker) = worker
            && self.one_leaves()
        {
            worker.forget();
        }
        "done\n"
    }

    fn one_leaves(&self) -> bool {
        let less = |leaving: usize| leaving.checked_sub(1);
        let left = self
            .leaving
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        left.is_ok()
    }

    /// From so many workers to so many. Who is at work goes when the work is done, before who waits has a turn.
    fn resize(&self, workers: usize, wanted: usize) {
        let more = wanted.saturating_sub(workers);
        let stay = (0..more).take_while(|_| self.one_leaves()).count();
        self.workers.add_permits(more - stay);
        let fewer = workers.saturating_sub(wanted);
        let idle = self.workers.forget_permits(fewer);
        self.leaving.fetch_add(fewer - idle, Ordering::Relaxed);
    }
}

/// Writes its address, and serves until its standard input ends.
pub(crate) async fn serve(limit: &str) -> io::Result<()> {
    let pool = Arc::new(Pool {
        workers: Semaphore::new(0),
        millis: AtomicU64::new(0),
        leaving: AtomicUsize::new(0),
    });
    let at_work = Arc::clone(&pool);
    let router = Router::new().route(
        "/",
        get(move || {
            let pool = Arc::clone(&at_work);
            async move { pool.work().await }
        }),
    );
    let shed = || {
        let refused = |_| async { StatusCode::SERVICE_UNAVAILABLE };
        ServiceBuilder::new()
            .layer(HandleErrorLayer::new(refused))
            .layer(LoadShedLayer::new())
    };
    let router = match limit {
        "load_shedding" => router.layer(load_shedding()),
        "verdict" => {
            let gate = Gate::builder(Adaptive::new(Verdict::new())).build();
            router.layer(HttpLimitLayer::new(RequestLimit::new(gate)))
        }
        "tower-acc" => {
            let limit = tower_acc::ConcurrencyLimitLayer::new(tower_acc::Vegas::default());
            router.layer(shed().layer(limit))
        }
        "tower-resilience" => {
            let vegas = tower_resilience_adaptive::Vegas::builder().build();
            let vegas = vegas.map_err(io::Error::other)?;
            let limit = tower_resilience_adaptive::AdaptiveLimiterLayer::new(vegas);
            router.layer(shed().layer(limit))
        }
        _ => router,
    };
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let mut out = io::stdout();
    writeln!(out, "{}", listener.local_addr()?)?;
    out.flush()?;
    tokio::select! {
        served = axum::serve(listener, router) => served,
        changed = change(&pool) => changed,
    }
}

/// Lines of two numbers: workers, and milliseconds.
async fn change(pool: &Pool) -> io::Result<()> {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut workers = 0;
    while let Some(line) = lines.next_line().await? {
        let mut numbers = line.split(' ').map(str::parse::<u64>);
        let (Some(Ok(wanted)), Some(Ok(millis))) = (numbers.next(), numbers.next()) else {
            return Err(io::Error::other("expected WORKERS MILLIS"));
        };
        pool.millis.store(millis, Ordering::Relaxed);
        let wanted = usize::try_from(wanted).map_err(io::Error::other)?;
        pool.resize(workers, wanted);
        workers = wanted;
    }
    Ok(())
}
