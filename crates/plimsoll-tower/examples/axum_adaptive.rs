//! Run with: `cargo run -p plimsoll-tower --example axum_adaptive --features axum`
//!
//! A server that finds out by itself how much it can do at once, lets a few wait, critical requests first, and turns the rest
//! away with 503. Look at it under load:
//!
//! ```text
//! hey -z 20s -c 200 http://127.0.0.1:3000/work/50 &
//! curl -H 'x-priority: critical' http://127.0.0.1:3000/work/50
//! curl http://127.0.0.1:3000/limit
//! ```

use std::io;
use std::time::Duration;

use axum::Router;
use axum::extract::Path;
use axum::routing::get;
use plimsoll::InvalidLimit;
use plimsoll_tower::LoadShed;
use plimsoll_tower::shedding::SheddingGate;
use tokio::net::TcpListener;

pub(crate) fn shed() -> LoadShed {
    LoadShed::new().queue_timeout(Duration::from_secs(1))
}

pub(crate) fn app(shed: LoadShed) -> Result<(Router, SheddingGate), InvalidLimit> {
    let (layer, gate) = shed.build()?;
    let seen = gate.clone();
    let app = Router::new()
        .route("/work/{millis}", get(work))
        .layer(layer)
        // After the layer, so that one can look while everything else is turned away.
        .route("/limit", get(async move || look(&seen)));
    Ok((app, gate))
}

async fn work(Path(millis): Path<u64>) -> &'static str {
    tokio::time::sleep(Duration::from_millis(millis)).await;
    "done\n"
}

fn look(gate: &SheddingGate) -> String {
    let seen = gate.snapshot();
    let (limit, in_use, queued) = (seen.limit(), seen.in_use(), seen.queued());
    format!("limit {limit}, in use {in_use}, waiting {queued}\n")
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let (app, _gate) = app(shed()).map_err(io::Error::other)?;
    axum::serve(TcpListener::bind("127.0.0.1:3000").await?, app).await
}
