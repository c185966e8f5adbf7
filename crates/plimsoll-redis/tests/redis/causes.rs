//! Why a store does not decide: counted by cause, remembered and told.

use std::time::Duration;

use crate::server::{Server, free_port, patient};
use plimsoll::{Demand, FixedWindow, PerKey, Quota, Reason};
use plimsoll_redis::{Circuit, Store, StoreErrorKind, StoreEvent};

const KEY: &str = "subject";

/// Asks through a fleet, which says no more than that it is unavailable.
async fn ask(store: &Store, times: u32) {
    let limiter = store.limiter("api", FixedWindow::new(Quota::per_day(1000)));
    let fleet = limiter.expect("a limit").fleet().build().expect("a fleet");
    for _ in 0..times {
        let denied = fleet.acquire_owned(KEY, Demand::ONE).await;
        let denied = denied.expect_err("no decision");
        assert_eq!(denied.reason(), Reason::Unavailable);
    }
}

/// Whoever asked through a fleet heard "unavailable", and nothing anywhere said that a password was missing or the memory
/// was full.
#[tokio::test]
async fn the_cause_of_a_failure_is_counted_remembered_and_told() {
    use StoreErrorKind as Kind;

    let secret = Server::with(&["--requirepass", "secret"]);
    let full = Server::with(&["--maxmemory", "1", "--maxmemory-policy", "noeviction"]);
    let node = Server::with(&[
        "--cluster-enabled",
        "yes",
        "--cluster-config-file",
        &format!("plimsoll-causes-{}.conf", free_port()),
    ]);
    let replica = Server::with(&["--replicaof", "127.0.0.1", &full.port().to_string()]);
    let cases = [
        (secret.url(), Kind::NotPermitted, "NOAUTH"),
        (full.url(), Kind::OutOfMemory, "OOM"),
        (node.url(), Kind::Unreachable, "Hash slot not served"),
        (replica.url(), Kind::ReadOnly, "read only replica"),
        (
            format!("redis://127.0.0.1:{}", free_port()),
            Kind::Unreachable,
            "refused",
        ),
    ];
    for (url, kind, said) in cases {
        let circuit = Circuit::new().failures(1000);
        let store = patient(Store::builder(&url)).circuit(circuit);
        let store = store.open().expect("a store");
        let mut events = store.subscribe();
        ask(&store, 3).await;
        let stats = store.stats();
        assert!(stats.failures(kind) >= 3, "{url} {stats:?}");
        let others = Kind::ALL.into_iter().filter(|other| *other != kind);
        assert_eq!(others.map(|kind| stats.failures(kind)).sum::<u64>(), 0);
        let last = stats.last_failure.expect("a cause");
        assert_eq!(last.kind, kind, "{last:?}");
        assert!(last.message.contains(said), "{last:?}");
        assert!(last.message.len() <= 200, "{last:?}");
        let mut told = 0;
        while let Some(event) = events.try_next() {
            told += u32::from(matches!(event, StoreEvent::Failed(failure) if failure.kind == kind));
        }
        assert!(told >= 3, "{url}: {told}");
    }
}

/// What is not sent because the circuit is open is counted, and does not hide why it opened.
#[tokio::test]
async fn an_open_circuit_does_not_hide_the_cause() {
    let url = format!("redis://127.0.0.1:{}", free_port());
    let circuit = Circuit::new().min_outage(Duration::ZERO);
    let circuit = circuit.backoff(Duration::from_secs(60), Duration::from_secs(60));
    let store = Store::builder(&url).circuit(circuit).open();
    let store = store.expect("a store");
    ask(&store, 500).await;
    let stats = store.stats();
    assert_eq!(stats.failures(StoreErrorKind::CircuitOpen), 495);
    assert_eq!((stats.outages, stats.connections), (1, 0));
    let last = stats.last_failure.expect("a cause");
    assert_eq!(last.kind, StoreErrorKind::Unreachable);
}

/// A listener that is slow does not keep events without end.
#[tokio::test]
async fn a_slow_listener_misses_the_oldest() {
    let url = format!("redis://127.0.0.1:{}", free_port());
    let store = Store::builder(&url).circuit(Circuit::new().failures(u32::MAX));
    let store = store.open().expect("a store");
    let mut events = store.subscribe();
    ask(&store, 1000).await;
    let mut told = 0;
    while events.try_next().is_some() {
        told += 1;
    }
    assert!(told <= 256 && events.missed() >= 1000 - 256, "{told}");
}

/// A server that evicts keys forgot limits, and nothing said so.
#[tokio::test]
async fn a_server_that_may_forget_limits_is_reported() {
    let cases: [(&[&str], Option<&str>); 4] = [
        (
            &["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"],
            Some("allkeys-lru"),
        ),
        (
            &["--maxmemory", "100mb", "--maxmemory-policy", "volatile-ttl"],
            Some("volatile-ttl"),
        ),
        (
            &["--maxmemory", "100mb", "--maxmemory-policy", "noeviction"],
            None,
        ),
        (
            &["--maxmemory", "0", "--maxmemory-policy", "allkeys-lru"],
            None,
        ),
    ];
    for (options, expected) in cases {
        let server = Server::with(options);
        let store = server.store().open().expect("a store");
        let mut events = store.subscribe();
        store.ping().await.expect("an answer");
        let told = tokio::time::timeout(Duration::from_millis(500), async {
            loop {
                if let Some(StoreEvent::Evicts(policy)) = events.next().await {
                    return policy;
                }
            }
        });
        assert_eq!(told.await.ok().as_deref(), expected);
        assert_eq!(store.stats().evicts.as_deref(), expected);
    }
}

/// Counts the events that are logged.
#[cfg(feature = "tracing")]
mod lines {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<AtomicU32>);

    impl Subscriber for Lines {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target().starts_with("plimsoll_redis")
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, _: &Event<'_>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    /// A store that fails at every call does not fill the log.
    #[tokio::test]
    async fn there_is_a_line_for_a_cause_and_not_one_for_each_call() {
        let lines = Lines::default();
        let _guard = tracing::subscriber::set_default(lines.clone());
        let url = format!("redis://127.0.0.1:{}", free_port());
        let store = Store::builder(&url).circuit(Circuit::new().failures(u32::MAX));
        ask(&store.open().expect("a store"), 1000).await;
        let lines = lines.0.load(Ordering::Relaxed);
        assert!((1..=10).contains(&lines), "{lines} lines");
    }
}
