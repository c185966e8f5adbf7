//! What keys are called in the store, and where they are not to be seen.

use std::net::{IpAddr, Ipv4Addr};

use crate::server::Server;
use plimsoll::{Concurrency, Demand, FixedWindow, PerKey, Quota, Reason, TokenBucket};
use plimsoll_redis::{Borrow, RedisLimiter, Store, StoreBuilder, StoreKey};

const TOKEN: &str = "sk_live_4eC39HqLyjWDarjtT1zdp7dc";

const QUOTA: Quota = Quota::per_day(10);

fn open(store: StoreBuilder) -> (Store, RedisLimiter) {
    let store = store.open().expect("a store");
    let limiter = store.limiter("api", FixedWindow::new(QUOTA));
    (store, limiter.expect("a limiter"))
}

async fn in_use(limiter: &RedisLimiter) -> u64 {
    limiter.look(TOKEN).await.expect("a look").in_use
}

/// Keys lay in the store as they were, in its slow log, and in what `Debug` printed.
#[tokio::test]
async fn a_token_is_neither_in_the_store_nor_in_its_slow_log_nor_printed() {
    let server = Server::with(&["--slowlog-log-slower-than", "0"]);
    let (store, limiter) = open(server.store());
    let jobs = store.limiter("jobs", Concurrency::new(3)).expect("a limit");
    let fleet = limiter.fleet().borrowing(Borrow::new()).build();
    let (fleet, jobs) = (
        fleet.expect("a fleet"),
        jobs.fleet().build().expect("a fleet"),
    );
    let permit = limiter.decide(TOKEN, 1).await.expect("a decision");
    let borrowed = fleet.acquire_owned(TOKEN, Demand::ONE).await.expect("room");
    let lease = jobs.limiter().decide(TOKEN, 1).await.expect("a decision");
    let held = jobs.acquire_owned(TOKEN, Demand::ONE).await.expect("room");
    let printed = format!(
        "{store:?} {limiter:?} {fleet:?} {:?} {jobs:?} {permit:?} {borrowed:?} {lease:?} {held:?}",
        fleet.key(TOKEN)
    );
    let seen = server.cli(&["slowlog", "get", "1000"]);
    assert!(seen.contains("EVALSHA") && seen.contains("plimsoll:{"));
    let keys = server.cli(&["keys", "*"]);
    assert_eq!(keys.lines().count(), 2);
    for text in [printed, seen, keys] {
        assert!(!text.contains(TOKEN), "{text}");
        assert!(!text.contains("115, 107, 95, 108"), "as bytes: {text}");
    }
}

#[tokio::test]
async fn a_key_is_short_however_long_it_is() {
    let server = Server::start();
    let (_, limiter) = open(server.store());
    let long = "x".repeat(64 * 1024);
    let decision = limiter.decide(&long, 1).await.expect("a decision");
    assert!(decision.is_granted());
    assert!(server.cli(&["keys", "*"]).len() < 64);
}

#[tokio::test]
async fn who_has_the_same_namespace_and_secret_shares_limits() {
    let server = Server::start();
    let (_, one) = open(server.store());
    let (_, same) = open(server.store().namespace("plimsoll"));
    let (_, secret) = open(server.store().key_secret("of this fleet"));
    let (_, same_secret) = open(server.store().key_secret("of this fleet"));
    let (_, raw) = open(server.store().raw_keys());
    let _ = one.decide(TOKEN, 3).await.expect("a decision");
    let _ = secret.decide(TOKEN, 2).await.expect("a decision");
    assert_eq!((in_use(&one).await, in_use(&same).await), (3, 3));
    let seen = (in_use(&secret).await, in_use(&same_secret).await);
    assert_eq!((seen, in_use(&raw).await), ((2, 2), 0));
    let _ = raw.decide(TOKEN, 1).await.expect("a decision");
    let keys = server.cli(&["keys", "*"]);
    assert!(keys.contains(&format!("plimsoll:{{{TOKEN}}}:api:w")));
    let printed = format!(
        "{:?}",
        Store::builder("redis://x").key_secret("of this fleet")
    );
    assert!(!printed.contains("of this"));
}

/// If another program takes the port before a test's own server listens there, which happens under load, the test must not go on
/// with that one: it may want a password or have no memory, and then every key has 0 of 3. Seen to fail: the second had the
/// server of the first.
#[test]
fn the_server_of_another_test_is_not_taken_for_ones_own() {
    for options in [&["--requirepass", "secret"][..], &[]] {
        let first = Server::with(options);
        assert!(Server::try_on(first.port(), &[]).is_none());
        let second = Server::start();
        assert_ne!(first.port(), second.port());
    }
}

/// Pairs had no limits in Redis, because they cannot be displayed.
#[tokio::test]
async fn pairs_bytes_and_types_of_ones_own_are_keys() {
    struct Tenant(u32);

    impl StoreKey for Tenant {
        fn write_key(&self, out: &mut Vec<u8>) {
            self.0.write_key(out);
        }
    }

    async fn granted<Q: ?Sized + Sync>(limits: &(impl PerKey<Q> + ?Sized), key: &Q) -> usize {
        let mut granted = 0;
        for _ in 0..5 {
            match limits.acquire_owned(key, Demand::ONE).await {
                Ok(_) => granted += 1,
                // A store that cannot decide refuses too, and says nothing about keys.
                Err(denied) => assert_eq!(denied.reason(), Reason::Exhausted, "{denied}"),
            }
        }
        granted
    }

    let server = Server::start();
    let store = server.store().open().expect("a store");
    let fleet = store.limiter("api", TokenBucket::interval(Quota::per_day(3)));
    let fleet = fleet.expect("a limit").fleet().build().expect("a fleet");
    let address = |last| IpAddr::V4(Ipv4Addr::new(192, 0, 2, last));
    assert_eq!(granted(&fleet, &("red".to_owned(), address(1))).await, 3);
    assert_eq!(granted(&fleet, &("red".to_owned(), address(1))).await, 0);
    assert_eq!(granted(&fleet, &("red".to_owned(), address(2))).await, 3);
    assert_eq!(granted(&fleet, &(Tenant(7), 3_u8, "x")).await, 3);
    assert_eq!(granted(&fleet, &[0xff_u8, 0][..]).await, 3);
    assert_eq!(granted(&fleet, &Tenant(9)).await, 3);
    assert_eq!(granted(&fleet, "9").await, 0);
    let layered: &dyn PerKey<(String, IpAddr)> = &fleet;
    assert_eq!(granted(layered, &("red".to_owned(), address(3))).await, 3);
}
