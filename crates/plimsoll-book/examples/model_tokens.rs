//! A thousand tokens a minute for each API key. A request reserves what it may use; what it did not use is returned.

use axum::extract::Extension;
use axum::{Router, routing::post};
use plimsoll::{Keyed, Quota, TokenBucket};
use plimsoll_tower::keys::HeaderKey;
use plimsoll_tower::{Head, HttpLimitLayer, RequestLimit, Usage};
use tokio::net::TcpListener;

/// What a request may use unless it says less.
const MOST: u64 = 500;

pub(crate) fn app() -> Router {
    let tokens = Keyed::<String, _>::builder(TokenBucket::greedy(Quota::per_minute(1000)))
        .name("tokens")
        .build();
    let key = HeaderKey::new(http::HeaderName::from_static("x-api-key"));
    let limit = RequestLimit::by_key(tokens, key)
        .cost(at_most)
        .charge_usage();
    Router::new()
        .route("/v1/complete", post(complete))
        .layer(HttpLimitLayer::new(limit))
}

fn at_most(head: &Head<'_>) -> u64 {
    let said = head
        .header("x-max-tokens")
        .and_then(|text| text.parse().ok());
    said.unwrap_or(MOST).min(MOST)
}

/// Stands for a model whose answer is the question. A real one clones `usage` into the stream that it answers with.
async fn complete(Extension(usage): Extension<Usage>, question: String) -> String {
    for _word in question.split_whitespace() {
        usage.add(1);
    }
    question
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    axum::serve(TcpListener::bind("127.0.0.1:3000").await?, app()).await
}
