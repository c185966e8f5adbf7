//! Run with: `cargo run -p plimsoll-tower --example outbound_quota -- http://127.0.0.1:3000/`
//!
//! A client that keeps to the quota of the server it calls. Calls wait for their turn instead of being refused by the
//! other side; if too many wait, the rest fails at once.

use std::error::Error;

use plimsoll::{Gate, Queue, Quota, TokenBucket};
use plimsoll_tower::admit::Whole;
use plimsoll_tower::{Limit, LimitError, LimitLayer};
use reqwest::{Client, Request, Response, Url};
use tower::{Layer, Service, ServiceExt};

/// A client of this quota. Clones share it.
#[derive(Clone)]
pub(crate) struct Quoted(Limit<Client, Whole<Gate<TokenBucket>>>);

impl Quoted {
    pub(crate) fn new(quota: Gate<TokenBucket>) -> Self {
        Self(LimitLayer::new(quota).layer(Client::new()))
    }

    pub(crate) async fn get(&mut self, url: Url) -> Result<Response, LimitError<reqwest::Error>> {
        let request = Request::new(reqwest::Method::GET, url);
        self.0.ready().await?.call(request).await
    }
}

/// Two calls a second, spread evenly, and up to a hundred that wait.
pub(crate) fn quota() -> Gate<TokenBucket> {
    let bucket = TokenBucket::greedy(Quota::per_second(2)).burst(1);
    Gate::builder(bucket)
        .queue(Queue::fifo(100))
        .name("their-quota")
        .build()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("which address?")?;
    let url: Url = url.parse()?;
    let mut client = Quoted::new(quota());
    for call in 1..=10 {
        let response = client.get(url.clone()).await?;
        eprintln!("call {call}: {}", response.status());
    }
    Ok(())
}
