//! Run with: `cargo run -p plimsoll-tower --example llm_budget --features axum`
//!
//! A budget of tokens for each API key. What an answer costs is only known when it has been written, so a request
//! reserves what it may cost at most, and the rest goes back when the last word has been sent.
//!
//! ```text
//! curl -i -H 'x-api-key: ann' -d 'tell me about ships' http://127.0.0.1:3000/v1/complete
//! ```

use std::io;

use axum::Router;
use axum::extract::Extension;
use axum::routing::post;
use plimsoll::{Clock, Keyed, Quota, TokenBucket};
use plimsoll_tower::keys::HeaderKey;
use plimsoll_tower::{Head, HttpLimitLayer, RequestLimit, SendFields, Usage};
use tokio::net::TcpListener;

/// What a request may cost, unless it says less.
const MOST: u64 = 500;

pub(crate) fn app(budget: Quota, clock: Clock) -> Router {
    let tokens = Keyed::<String, _>::builder(TokenBucket::greedy(budget))
        .name("tokens")
        .clock(clock)
        .build();
    let key = HeaderKey::new(http::HeaderName::from_static("x-api-key"));
    let limit = RequestLimit::by_key(tokens, key)
        .cost(at_most)
        .charge_usage();
    Router::new()
        .route("/v1/complete", post(complete))
        .layer(HttpLimitLayer::new(limit).send_fields(SendFields::Always))
}

fn at_most(head: &Head<'_>) -> u64 {
    let said = head
        .header("x-max-tokens")
        .and_then(|text| text.parse().ok());
    said.unwrap_or(MOST).min(MOST)
}

/// Stands for a model: its answer is the question, and a token is a word. A real one would clone `usage` into the stream
/// it answers with.
async fn complete(Extension(usage): Extension<Usage>, question: String) -> String {
    for _word in question.split_whitespace() {
        usage.add(1);
    }
    question
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let app = app(Quota::per_minute(1000), Clock::system());
    axum::serve(TcpListener::bind("127.0.0.1:3000").await?, app).await
}
