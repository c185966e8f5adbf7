//! Layers inside of layers.

use axum::Router;
use axum::routing::get;
use plimsoll::{Gate, Keyed, ManualClock, TokenBucket};
use plimsoll_tower::keys::{Address, Peer};
use plimsoll_tower::{HttpLimitLayer, RequestLimit};

use super::clients::http1;
use super::serve;
use crate::eventually::soon;

/// The outer limit was refunded whenever an inner one refused. Whoever had used up the inner one then had the work between
/// the two, such as looking up an account, for nothing and without end.
#[tokio::test]
async fn a_refusal_further_in_does_not_refund_the_outer_limit() {
    let time = ManualClock::new();
    let outer = Keyed::<Address, _>::builder(TokenBucket::per_second(10))
        .clock(time.clock())
        .build();
    let inner = Gate::builder(TokenBucket::per_second(3))
        .clock(time.clock())
        .name("inner")
        .build();
    let router = Router::new()
        .route("/", get(async || "hello"))
        .layer(HttpLimitLayer::new(RequestLimit::new(inner)))
        .layer(HttpLimitLayer::new(RequestLimit::by_key(
            outer.clone(),
            Peer::new(),
        )));
    let address = serve(router).await;
    let key = Peer::new().address([127, 0, 0, 1].into());
    for asked in 1..=15 {
        let response = soon(http1().get(format!("http://{address}/")).send()).await;
        let expected = if asked <= 3 { 200 } else { 429 };
        assert_eq!(response.unwrap().status(), expected);
        let left = keyed_left(&outer, &key);
        assert_eq!(left, 10_u64.saturating_sub(asked), "after {asked}");
    }
}

fn keyed_left(keyed: &Keyed<Address, TokenBucket>, key: &Address) -> u64 {
    keyed.standing(key).remaining.unwrap()
}
