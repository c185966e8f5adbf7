//! A client that keeps to a partner's quota, and waits when the partner says Retry-After.

use plimsoll::{Gate, Pausable, Queue, TokenBucket};
use plimsoll_tower::partner::PartnerLayer;
use reqwest::{Body, Client, Method, Request, Url};
use tower::util::BoxCloneService;
use tower::{BoxError, Layer, Service, ServiceExt};

/// Their terms say ten a second. Up to a hundred calls wait for their turn.
pub(crate) fn quota() -> Gate<Pausable<TokenBucket>> {
    Gate::builder(Pausable::new(TokenBucket::per_second(10)))
        .queue(Queue::fifo(100))
        .name("partner")
        .build()
}

/// Clones share the quota.
pub(crate) type Partner = BoxCloneService<Request, http::Response<Body>, BoxError>;

pub(crate) fn partner(quota: Gate<Pausable<TokenBucket>>) -> Partner {
    // The layer reads `http::Response`; `reqwest::Response::from` turns one back.
    let client = Client::new().map_response(http::Response::<Body>::from);
    let client = PartnerLayer::new(quota).layer(client);
    BoxCloneService::new(client.map_err(BoxError::from))
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let url: Url = std::env::args().nth(1).ok_or("which address?")?.parse()?;
    let mut partner = partner(quota());
    for call in 1..=20 {
        let request = Request::new(Method::GET, url.clone());
        let response = partner.ready().await?.call(request).await?;
        eprintln!("call {call}: {}", response.status());
    }
    Ok(())
}
