//! `docs/howto/redis.md`, with a real Redis.

use std::process::Command;

use crate::server::{Running, client, free_port, get, serve, status};

#[path = "../../examples/redis_for_two.rs"]
#[expect(
    dead_code,
    reason = "an example has a `main`, which is not called here"
)]
mod redis_for_two;

#[tokio::test]
async fn two_processes_grant_as_much_as_one() {
    let port = free_port().await;
    let mut redis = Command::new("redis-server");
    redis.args([
        "--port",
        &port.to_string(),
        "--save",
        "",
        "--bind",
        "127.0.0.1",
    ]);
    let Some(redis) = Running::start(&mut redis) else {
        return;
    };
    redis.listens(port).await;
    let url = format!("redis://127.0.0.1:{port}");
    let one = serve(redis_for_two::app(&url).expect("the limit is right")).await;
    let two = serve(redis_for_two::app(&url).expect("the limit is right")).await;
    let client = client();
    let mut granted = 0;
    for at in [one, two].iter().cycle().take(20) {
        granted += usize::from(status(get(&client, *at, "/")).await == 200);
    }
    // What is refilled meanwhile, and what is granted locally while a busy machine does not answer, comes on top.
    assert!((10..=15).contains(&granted), "{granted}");
}
