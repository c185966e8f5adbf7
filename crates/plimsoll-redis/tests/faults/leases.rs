//! What is held while the server forgets, or cannot be reached.

use std::time::Duration;

use plimsoll::Concurrency;
use plimsoll_redis::{Decision, RedisLimiter, RedisPermit, RedisRule, Store};
use tokio::time::{Instant, sleep};

use crate::load::hasty;
use crate::proxy::{Proxy, Weather};
use crate::server::{Server, patient};

const KEY: &str = "subject";

fn one_job(store: &Store, lease: Duration) -> RedisLimiter {
    let rule = RedisRule::from(Concurrency::new(1)).lease(lease);
    store.limiter("jobs", rule).expect("a limiter")
}

/// Takes it as soon as the store decides.
async fn take(limiter: &RedisLimiter) -> RedisPermit {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        match limiter.decide(KEY, 1).await {
            Ok(Decision::Granted(permit)) => return permit,
            Ok(Decision::Denied(_)) | Err(_) => sleep(Duration::from_millis(20)).await,
        }
        assert!(Instant::now() < end, "nothing is granted");
    }
}

async fn in_use(limiter: &RedisLimiter) -> u64 {
    limiter.look(KEY).await.expect("a look").in_use
}

/// One holds it, the store forgets, and another gets it: from then on it is the other's.
async fn is_fenced(before: RedisPermit, jobs: &RedisLimiter) {
    let other = take(jobs).await;
    assert!(!jobs.decide(KEY, 1).await.expect("a decision").is_granted());
    let end = Instant::now() + Duration::from_secs(20);
    while !before.is_lost() {
        assert!(Instant::now() < end, "the first was not told");
        sleep(Duration::from_millis(20)).await;
    }
    assert!(!before.release().await.expect("an answer"));
    assert_eq!(in_use(jobs).await, 1);
    assert!(!other.is_lost());
    assert!(other.release().await.expect("an answer"));
    assert_eq!(in_use(jobs).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_that_were_deleted_give_nothing_back() {
    let server = Server::start();
    let store = server.store().open().expect("a store");
    let jobs = one_job(&store, Duration::from_secs(3));
    let permit = take(&jobs).await;
    assert_eq!(server.cli(&["flushall"]), "OK");
    is_fenced(permit, &jobs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_of_a_server_that_was_killed_give_nothing_back() {
    let server = Server::start();
    let port = server.port();
    let store = patient(Store::builder(&server.url())).open();
    let jobs = one_job(&store.expect("a store"), Duration::from_secs(3));
    let permit = take(&jobs).await;
    drop(server);
    let server = Server::on(port, &[]);
    is_fenced(permit, &jobs).await;
    drop(server);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_outlive_an_outage_that_is_shorter() {
    let server = Server::start();
    let proxy = Proxy::before(server.port()).await;
    let lease = Duration::from_secs(4);
    let jobs = one_job(&hasty(Store::builder(&proxy.url())), lease);
    let observed = one_job(&server.store().open().expect("a store"), lease);
    let permit = take(&jobs).await;
    let began = Instant::now();
    proxy.turns(Weather::Cut);
    while jobs.lease_failures() == 0 {
        assert!(began.elapsed() < lease, "no renewal failed");
        sleep(Duration::from_millis(20)).await;
    }
    proxy.turns(Weather::Fair);
    // Without a renewal it would have run out.
    while began.elapsed() < lease + Duration::from_secs(1) {
        assert_eq!(in_use(&observed).await, 1);
        sleep(Duration::from_millis(50)).await;
    }
    assert!(!permit.is_lost());
    drop(permit);
    drop(take(&observed).await);
}
