//! `docs/howto/tiers.md`.

use std::net::SocketAddr;

use reqwest::Client;

use crate::server::{client, get, serve, status};

#[path = "../../examples/tiers_from_a_database.rs"]
#[expect(
    dead_code,
    reason = "an example has a `main`, which is not called here"
)]
mod tiers_from_a_database;
use tiers_from_a_database::{Accounts, app};

async fn granted(client: &Client, at: SocketAddr, api_key: &str) -> usize {
    let mut granted = 0;
    for _ in 0..120 {
        let request = get(client, at, "/").header("x-api-key", api_key);
        granted += usize::from(status(request).await == 200);
    }
    granted
}

#[tokio::test]
async fn a_plan_may_change_while_it_is_used() {
    let accounts = Accounts::default();
    accounts.set("a", "anna", "basic");
    accounts.set("b", "bob", "pro");
    accounts.set("c", "carl", "internal");
    let at = serve(app(accounts.clone()).expect("the limits are right")).await;
    let client = client();
    // What is refilled meanwhile comes on top.
    let basic = granted(&client, at, "a").await;
    assert!((10..=12).contains(&basic), "{basic}");
    assert!((100..120).contains(&granted(&client, at, "b").await));
    assert_eq!(granted(&client, at, "c").await, 120);

    accounts.set("a", "anna", "pro");
    let more = granted(&client, at, "a").await;
    assert!(
        (88..=110).contains(&more),
        "{more} of 100, of which {basic} were used"
    );

    let unknown = get(&client, at, "/").header("x-api-key", "nobody");
    assert_eq!(status(unknown).await, 400);
}
