//! A fleet that counts in one Redis.

use tonic::Code;

use super::{DAY, OK, OVER, Served, descriptor};
use crate::redis_server::Redis;

const CONFIG: &str = "
domain: d
descriptors:
  - { key: small, rate_limit: { unit: year, requests_per_unit: 20 } }
  - { key: large, rate_limit: { unit: year, requests_per_unit: 1000 } }
  - { key: shadowed, shadow_mode: true, rate_limit: { unit: year, requests_per_unit: 1 } }
";

async fn served(redis: &Redis) -> Served {
    let url = format!("redis://127.0.0.1:{}", redis.port);
    Served::with(&[("a", CONFIG)], |envoy| envoy.store = Some(url)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_grant_exactly_as_much_as_one() {
    let Some(redis) = Redis::start() else {
        return;
    };
    let both = || vec![descriptor("large=x"), descriptor("small=x")];
    let one = async || {
        let mut served = served(&redis).await;
        let mut passed = 0;
        for _ in 0..12 {
            let answer = served.ask(both()).await;
            passed += u32::from(answer.overall_code == OK);
        }
        served.stop().await;
        passed
    };
    let each = tokio::join!(one(), one(), one(), one());
    let passed = each.0 + each.1 + each.2 + each.3;
    assert_eq!(passed, 20);
    let mut served = served(&redis).await;
    let large = served.ask(vec![descriptor("large=x")]).await;
    assert_eq!(
        large.remaining(),
        [979],
        "what was refused ate no other quota"
    );
    served.stop().await;
}

/// Asks until it is so.
async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..2000 {
        if is_so().await {
            return;
        }
    }
    panic!("it does not come");
}

#[tokio::test(flavor = "multi_thread")]
async fn looks_returns_shadows_and_own_limits_are_the_same_there() {
    let Some(redis) = Redis::start() else {
        return;
    };
    let mut served = served(&redis).await;
    let small = |hits| vec![descriptor("small=y").hits(hits)];
    assert_eq!(served.ask(small(18)).await.remaining(), [2]);
    assert_eq!(served.ask(small(0)).await.remaining(), [2]);
    assert_eq!(served.ask(small(5)).await.codes(), [OVER]);
    // What is charged and given back after the fact is on its way to the store for a moment.
    until(async || served.ask(small(0)).await.codes() == [OVER]).await;
    served
        .ask(vec![descriptor("small=y").hits(4).negative()])
        .await;
    until(async || served.ask(small(0)).await.remaining() == [4]).await;
    assert_eq!(served.ask(small(0)).await.codes(), [OK]);
    for code in [OK, OK] {
        assert_eq!(
            served.ask(vec![descriptor("shadowed=x")]).await.codes(),
            [code]
        );
    }
    let own = |limit| vec![descriptor("any=x").own(limit, DAY, None)];
    assert_eq!(served.ask(own(2)).await.remaining(), [1]);
    assert_eq!(served.ask(own(2)).await.remaining(), [0]);
    assert_eq!(served.ask(own(2)).await.codes(), [OVER]);
    drop(redis);
    let gone = served
        .try_ask("d", small(1), 0)
        .await
        .expect_err("no store");
    assert_eq!(
        gone.code(),
        Code::Unavailable,
        "Envoy decides what to do then"
    );
    served.stop().await;
}
