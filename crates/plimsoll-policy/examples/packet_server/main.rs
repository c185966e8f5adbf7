//! Run: `cargo run -p plimsoll-policy --example packet_server -- 127.0.0.1:7777`, then send it packets:
//! `printf '\0\5\0\1hey' | nc -N 127.0.0.1 7777 | xxd`

mod server;

use std::io;
use std::time::Duration;

use tokio::net::TcpListener;

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let address = std::env::args().nth(1);
    let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:7777")).await?;
    let policies = server::policies()
        .lockout(Duration::from_secs(30))
        .build()
        .map_err(io::Error::other)?;
    eprintln!("listening on {}", listener.local_addr()?);

    let serving = server::serve(listener, policies.clone());
    tokio::select! {
        ended = serving => ended?,
        stopped = tokio::signal::ctrl_c() => stopped?,
    }
    eprint!("{}", policies.report());
    policies.close();
    Ok(())
}
