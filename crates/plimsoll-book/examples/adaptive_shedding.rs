//! A server that finds out how many requests it can work on at once, lets a few wait by priority, and answers 503 to the rest.

use std::time::Duration;

use axum::{Router, extract::Path, routing::get};
use plimsoll::InvalidLimit;
use plimsoll_tower::LoadShed;
use tokio::net::TcpListener;

pub(crate) fn app() -> Result<Router, InvalidLimit> {
    let (layer, gate) = LoadShed::new()
        .queue_timeout(Duration::from_millis(250))
        .build()?;
    Ok(Router::new()
        .route("/work/{millis}", get(work))
        .layer(layer)
        // Added after the layer, so it is not limited: one can look while everything else is refused.
        .route(
            "/limit",
            get(async move || format!("{}\n", gate.snapshot().limit())),
        ))
}

async fn work(Path(millis): Path<u64>) -> &'static str {
    tokio::time::sleep(Duration::from_millis(millis)).await;
    "done\n"
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    axum::serve(TcpListener::bind("127.0.0.1:3000").await?, app()?).await?;
    Ok(())
}
