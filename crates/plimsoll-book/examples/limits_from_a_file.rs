//! All limits are in `limits.yaml`, which is read again when it changes.

use std::error::Error;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use axum::{Router, routing::get};
use plimsoll_engine::{Changes, ConfigError, Limits};
use tokio::net::TcpListener;

pub(crate) fn app(limits: &Limits) -> Router {
    Router::new()
        .route("/", get(|| async { "hello\n" }))
        .layer(limits.layer())
}

/// What was used stays used. A file with a mistake changes nothing.
fn report(read: Result<Changes, ConfigError>) {
    match read {
        Ok(changes) => eprintln!("{changes}"),
        Err(error) => eprintln!("the limits stay as they are: {error}"),
    }
}

pub(crate) async fn run(listener: TcpListener, file: &Path) -> Result<(), Box<dyn Error>> {
    let limits = Limits::from_file(file)?;
    let _watch = limits.watch_file(file, Duration::from_millis(200), report)?;
    let service = app(&limits).into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    if let Err(error) = run(listener, "limits.yaml".as_ref()).await {
        // All mistakes of the file, each with its place.
        eprintln!("{error}");
        std::process::exit(1);
    }
    Ok(())
}
