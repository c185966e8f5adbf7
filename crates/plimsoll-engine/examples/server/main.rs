//! Run with: `cargo run -p plimsoll-engine --example server`
//!
//! A server that knows nothing of limits: all of them are in `examples/config/server.yaml`. It reads the file again when it
//! changes. Try `curl -i http://127.0.0.1:3000/`, or `curl -i -d user=anna http://127.0.0.1:3000/login`.

mod app;

use std::time::Duration;

use plimsoll_engine::{Changes, ConfigError, Limits};
use tokio::net::TcpListener;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/config/server.yaml"
    );
    let limits = Limits::from_file(file)?;
    let report = |read: Result<Changes, ConfigError>| match read {
        Ok(changes) => eprintln!("{changes}"),
        Err(error) => eprintln!("the limits stay as they are: {error}"),
    };
    let _watched = limits.watch_file(file, Duration::from_secs(1), report)?;
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    app::serve(listener, &limits).await?;
    Ok(())
}
