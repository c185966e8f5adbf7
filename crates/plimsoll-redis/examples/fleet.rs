//! Run with: `cargo run -p plimsoll-redis --example fleet -- 127.0.0.1:3001 [REDIS_URL [borrowed]]`
//!
//! One of several servers with a limit for each address: ten at once, one every ten seconds. Without a store each server
//! counts for itself, with one they count together, and `borrowed` takes from it in batches. Proxies on this machine are
//! trusted to say whose request it is. What that is good for: `docs/fleets.md`.

use std::env;
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use plimsoll::{Keyed, PerKey, Quota, TokenBucket};
use plimsoll_redis::{Borrow, Fleet, Outage, Store};
use plimsoll_tower::keys::{Address, Forwarded, TrustedProxies};
use plimsoll_tower::{HttpLimitLayer, RequestLimit};
use tokio::net::TcpListener;

fn rule() -> TokenBucket {
    TokenBucket::greedy(Quota::new(1, Duration::from_secs(10))).burst(10)
}

/// A limit of this server alone.
pub(crate) fn alone() -> Keyed<Address, TokenBucket> {
    Keyed::builder(rule()).name("per-address").build()
}

/// A limit of all servers that use this store. If it does not answer, each has a share.
pub(crate) fn shared(store: &Store, borrowed: bool) -> Result<Fleet, Box<dyn Error>> {
    let fleet = store.limiter("per-address", rule())?.fleet();
    let fleet = fleet.outage(Outage::Local { share: 0.5 });
    let fleet = if borrowed {
        fleet.borrowing(Borrow::new())
    } else {
        fleet
    };
    Ok(fleet.build()?)
}

pub(crate) fn app(limits: impl PerKey<Address> + Clone + 'static) -> Router {
    let client = Forwarded::x_forwarded_for(TrustedProxies::loopback());
    Router::new()
        .route("/", get(|| async { "hello\n" }))
        .layer(HttpLimitLayer::new(RequestLimit::by_key(limits, client)))
}

pub(crate) async fn run(listener: TcpListener, app: Router) -> io::Result<()> {
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = env::args().skip(1);
    let listen = words.next().unwrap_or_else(|| "127.0.0.1:3001".to_owned());
    let app = match words.next() {
        Some(url) => app(shared(&Store::open(&url)?, words.next().is_some())?),
        None => app(alone()),
    };
    run(TcpListener::bind(listen).await?, app).await?;
    Ok(())
}
