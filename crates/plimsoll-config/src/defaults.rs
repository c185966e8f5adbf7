//! The defaults of a file are those of the builders. They are written twice, and compared here.

use plimsoll::adaptive::{Aimd, Gradient2, LatencyGradient, Limit, Vegas, Verdict, Windowed};
use plimsoll::{Keyed, Queue, Smooth, TokenBucket};

use plimsoll_spec::{Kind, Limiter, Rate};

use crate::{Config, Format};

fn limiter(fields: &str) -> Limiter {
    let text = format!("limiters: {{ a: {{ {fields} }} }}");
    let config = Config::from_str("a.yaml", &text, Format::Yaml);
    let config = config.unwrap_or_else(|error| panic!("{error}"));
    config.spec.limit("a").expect("there").limiter.clone()
}

fn algorithm(fields: &str) -> Box<dyn Limit> {
    let limiter = limiter(&format!("kind: adaptive, {fields}"));
    let Kind::Adaptive(algorithm) = &limiter.kind else {
        panic!("not adaptive");
    };
    algorithm.build().expect("an algorithm")
}

#[track_caller]
fn same(fields: &str, wanted: impl Limit) {
    let wanted: Box<dyn Limit> = Box::new(wanted);
    assert_eq!(format!("{:?}", algorithm(fields)), format!("{wanted:?}"));
}

#[test]
fn algorithms() {
    same("algorithm: aimd", Aimd::default());
    same("algorithm: vegas", Vegas::default());
    same("algorithm: gradient2", Gradient2::default());
    same("algorithm: latency_gradient", LatencyGradient::default());
    same(
        "algorithm: verdict",
        Verdict::builder().build().expect("built"),
    );
    let delegate: Box<dyn Limit> = Box::new(Vegas::default());
    same(
        "algorithm: windowed, delegate: { algorithm: vegas }",
        Windowed::new(delegate),
    );
}

#[test]
fn what_is_said_of_windows_is_said_of_what_is_behind_them() {
    let delegate = Vegas::builder().min(3).initial(30).max(300).build();
    let delegate: Box<dyn Limit> = Box::new(delegate.expect("built"));
    same(
        "algorithm: windowed, min: 3, initial: 9, max: 300, delegate: { algorithm: vegas, initial: 30 }",
        Windowed::new(delegate),
    );
}

#[test]
fn queues() {
    for (text, queue) in [
        ("bound: 3", Queue::fifo(3)),
        ("bound: 3, order: lifo", Queue::lifo(3)),
    ] {
        let limiter = limiter(&format!("kind: concurrency, limit: 1, queue: {{ {text} }}"));
        let said = limiter
            .common
            .queue
            .as_ref()
            .map(plimsoll_spec::Queue::build);
        assert_eq!(format!("{said:?}"), format!("{:?}", Some(queue)));
    }
}

#[test]
fn keys() {
    let limiter = limiter("kind: token_bucket, burst: 1, refill: 1, every: 1s, keyed: true");
    let keys = limiter.common.max_keys.expect("filled in").0;
    let keyed: Keyed<u8, _> = Keyed::new(TokenBucket::per_second(1));
    assert!(
        format!("{keyed:?}").contains(&format!("max_keys: {keys},")),
        "{keyed:?}"
    );
}

#[cfg(feature = "redis")]
#[test]
fn stores() {
    use plimsoll_redis::{Borrow, Outage, RedisRule, Store};

    use crate::redis;

    let text = "stores: { main: { url: redis://127.0.0.1 } }";
    let config = Config::from_str("a.yaml", text, Format::Yaml).expect("right");
    let store = redis::open(
        config.spec.stores.get("main").expect("there"),
        &plimsoll::Clock::system(),
    );
    let plain = Store::open("redis://127.0.0.1");
    assert_eq!(format!("{store:?}"), format!("{plain:?}"));

    let in_store = |fields: &str| {
        let text = format!("{text}\nlimiters: {{ a: {{ store: main, {fields} }} }}");
        let config = Config::from_str("a.yaml", &text, Format::Yaml);
        let config = config.unwrap_or_else(|error| panic!("{error}"));
        config.spec.limit("a").expect("there").limiter.clone()
    };
    let slots = in_store("kind: concurrency, limit: 4");
    let outage = slots.common.outage.map(redis::outage_of);
    assert_eq!(outage, Some(Outage::default()));
    let Kind::Concurrency {
        lease: Some(lease), ..
    } = slots.kind
    else {
        panic!("no lease");
    };
    let rule = RedisRule::from(plimsoll::Concurrency::new(4));
    let said = rule.clone().lease(lease.into());
    assert_eq!(format!("{said:?}"), format!("{rule:?}"));

    for (limit, most) in [(100, 5), (3, 1)] {
        let rate = in_store(&format!(
            "kind: fixed_window, limit: {limit}, window: 1s, borrow: {{}}"
        ));
        let borrow = rate.common.borrow.as_ref().map(redis::borrow_of);
        assert_eq!(borrow, Some(Borrow::new().max(most)));
    }
}

#[test]
fn smooth_limits() {
    let rule = |fields: &str| match limiter(fields).kind {
        Kind::SmoothBursty(rate) => rate.rule().expect("valid"),
        Kind::SmoothWarmup(rate) => rate.rule().expect("valid"),
        _ => panic!("not smooth"),
    };
    let bursty = rule("kind: smooth_bursty, rate: 2.5");
    let second = std::time::Duration::from_secs(1);
    assert_eq!(
        format!("{bursty:?}"),
        format!("{:?}", Smooth::try_bursty(2.5, second).expect("valid"))
    );
    let warm = rule("kind: smooth_warmup, rate: 2, warmup: 1s");
    assert_eq!(
        format!("{warm:?}"),
        format!(
            "{:?}",
            Smooth::try_warm_up(2.0, second, 3.0).expect("valid")
        )
    );
}

/// Regression test: the default refill of buckets was at intervals in files, and one by one in Rust.
#[test]
fn buckets() {
    let limiter = limiter("kind: token_bucket, burst: 5, refill: 100, every: 1s");
    let Kind::TokenBucket(bucket) = &limiter.kind else {
        panic!("not a bucket");
    };
    let said = bucket.rule();
    let wanted = TokenBucket::per_second(100).burst(5);
    assert_eq!(
        format!("{:?}", said.expect("a rule")),
        format!("{wanted:?}")
    );
}
