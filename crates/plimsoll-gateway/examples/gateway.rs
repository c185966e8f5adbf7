//! A gateway that is embedded in a program: `cargo run --example gateway -- examples/config/gateway.yaml`.

use std::error::Error;

use plimsoll_config::Config;
use plimsoll_gateway::{Gateway, Settings};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("expected a file")?;
    let gateway = Gateway::with_config(&Config::from_file(file)?, &Settings::default())?;
    let stop = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    Ok(gateway.run(stop).await?)
}
