//! The store is away for a moment, just when many leases are given back or have to be renewed.

use std::sync::Arc;
use std::time::Duration;

use plimsoll::{All, Concurrency, Limiter, TokenBucket};
use plimsoll_redis::{Circuit, Decision, RedisLimiter, RedisPermit, RedisRule, Store};
use tokio::time::{Instant, sleep, timeout};

use crate::proxy::{Proxy, Weather};
use crate::server::Server;

const KEY: &str = "jobs";

fn store(url: &str) -> Store {
    let circuit = Circuit::new().failures(3);
    let store = Store::builder(url).deadline(Duration::from_millis(100));
    store.circuit(circuit).open().expect("a store")
}

fn jobs(store: &Store, lease: Duration) -> RedisLimiter {
    let rule = RedisRule::from(Concurrency::new(20)).lease(lease);
    store.limiter("jobs", rule).expect("a limiter")
}

async fn take(limiter: &RedisLimiter) -> RedisPermit {
    match limiter.decide(KEY, 1).await.expect("a decision") {
        Decision::Granted(permit) => permit,
        Decision::Denied(denied) => panic!("{denied}"),
    }
}

async fn in_use(limiter: &RedisLimiter) -> u64 {
    limiter.look(KEY).await.expect("a look").in_use
}

/// Leases that were given back while the circuit was open stayed taken until they ran out: 20 of 20, for 30 s.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_given_back_during_a_blip_are_free_soon_after_it() {
    let server = Server::start();
    let proxy = Proxy::before(server.port()).await;
    let limiter = jobs(&store(&proxy.url()), Duration::from_secs(30));
    let observer = jobs(
        &server.store().open().expect("a store"),
        Duration::from_secs(30),
    );
    let mut held = Vec::new();
    for _ in 0..20 {
        held.push(take(&limiter).await);
    }
    proxy.turns(Weather::Cut);
    // One of them waits for the answer and hears that there is none; it is given back nevertheless.
    let waited = held.pop().expect("a permit").release().await;
    assert!(waited.is_err());
    drop(held);
    sleep(Duration::from_millis(500)).await;
    assert_eq!(in_use(&observer).await, 20);
    assert_eq!(limiter.unreturned_leases(), 20);
    proxy.turns(Weather::Fair);
    let began = Instant::now();
    while in_use(&observer).await > 0 {
        assert!(began.elapsed() < Duration::from_secs(5), "still taken");
        sleep(Duration::from_millis(10)).await;
    }
    while limiter.unreturned_leases() > 0 {
        assert!(began.elapsed() < Duration::from_secs(5), "still waiting");
        sleep(Duration::from_millis(10)).await;
    }
}

/// What could not be given back was forgotten when it had run out by itself, and nothing is tried any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_given_back_any_more_once_it_has_run_out() {
    let server = Server::start();
    let proxy = Proxy::before(server.port()).await;
    let limiter = jobs(&store(&proxy.url()), Duration::from_millis(600));
    let held = take(&limiter).await;
    proxy.turns(Weather::Cut);
    drop(held);
    let began = Instant::now();
    sleep(Duration::from_millis(200)).await;
    assert_eq!(limiter.unreturned_leases(), 1);
    while limiter.unreturned_leases() > 0 {
        assert!(began.elapsed() < Duration::from_secs(5), "for ever");
        sleep(Duration::from_millis(10)).await;
    }
}

/// A holder that could not renew its lease never learned that it was lost, because only the server said so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_cannot_be_renewed_is_lost_by_the_time_here() {
    let server = Server::start();
    let proxy = Proxy::before(server.port()).await;
    let lease = Duration::from_millis(900);
    let limiter = jobs(&store(&proxy.url()), lease);
    let fleet = limiter.fleet().build().expect("a fleet");
    let memory = plimsoll::Gate::new(TokenBucket::per_second(100));
    let both = All::new([
        Arc::new(memory) as Arc<dyn Limiter>,
        Arc::new(fleet.key(KEY)),
    ]);
    let direct = take(&limiter).await;
    let layered = fleet.key(KEY).acquire_owned(1.into()).await.expect("room");
    let all = both.acquire_owned(1.into()).await.expect("room");
    let other = take(&limiter).await;
    // They are renewed while they can be.
    sleep(lease + Duration::from_millis(300)).await;
    assert!(!direct.is_lost() && !layered.is_lost() && !all.is_lost());
    // Later ones have larger numbers.
    let numbers = [direct.fence(), layered.fence(), all.fence(), other.fence()];
    assert!(
        numbers.iter().all(Option::is_some) && numbers.is_sorted(),
        "{numbers:?}"
    );
    assert!(numbers.windows(2).all(|pair| pair[0] != pair[1]));

    proxy.turns(Weather::Stalled);
    let began = Instant::now();
    for lost in [direct.lost(), layered.lost(), all.lost()] {
        timeout(lease * 3, lost).await.expect("known to be lost");
    }
    assert!(began.elapsed() <= lease + Duration::from_millis(500));
    assert!(direct.is_lost() && layered.is_lost() && all.is_lost());
}
