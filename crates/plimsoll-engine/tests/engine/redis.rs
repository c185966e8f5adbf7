//! Limits in Redis beside limits in memory, on a real server.

use std::net::TcpStream;
use std::time::Duration;

use plimsoll::Reason;
use plimsoll_config::{Config, Format};
use plimsoll_engine::{Ask, Limits};

use crate::redis_server::Redis;

/// A Redis of its own, ended when it is dropped.
pub(crate) struct Server(Redis);

impl Server {
    /// `None` where there is no Redis: then the test says so and passes.
    pub(crate) fn start() -> Option<Self> {
        Redis::start().map(Self)
    }

    fn limits(&self, text: &str) -> Limits {
        self.limits_on(text, &plimsoll::Clock::system())
    }

    pub(crate) fn limits_on(&self, text: &str, clock: &plimsoll::Clock) -> Limits {
        let url = format!("redis://127.0.0.1:{}", self.0.port);
        let text = format!("stores: {{ shared: {{ url: '{url}', deadline: 5s }} }}\n{text}");
        let config = Config::from_str("limits.yaml", &text, Format::Yaml)
            .unwrap_or_else(|error| panic!("{error}"));
        Limits::new(&config, clock).expect("it works")
    }

    /// What the server answers to one command.
    pub(crate) fn command(&self, words: &[&str]) -> String {
        use std::io::{Read, Write};
        let mut stream = TcpStream::connect(("127.0.0.1", self.0.port)).expect("it works");
        for words in [words, &["QUIT"]] {
            let mut text = format!("*{}\r\n", words.len());
            for word in words {
                text += &format!("${}\r\n{word}\r\n", word.len());
            }
            stream.write_all(text.as_bytes()).expect("it works");
        }
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("it works");
        text
    }

    /// How many scripts were run so far.
    fn scripts(&self) -> u64 {
        let text = self.command(&["INFO", "commandstats"]);
        let calls = |name: &str| -> u64 {
            let line = text
                .lines()
                .find(|line| line.starts_with(&format!("cmdstat_{name}:")));
            let calls =
                line.and_then(|line| line.split("calls=").nth(1)?.split(',').next()?.parse().ok());
            calls.unwrap_or(0)
        };
        calls("evalsha") + calls("eval")
    }
}

const FOUR: &str = "limits:
  user: { kind: token_bucket, burst: 3, refill: 1, every: 1h, key: header:x-user, store: shared }
  tenant: { kind: fixed_window, limit: 5, window: 1d, key: header:x-tenant, store: shared }
  daily: { kind: sliding_log, limit: 100, window: 1d, key: header:x-user, store: shared }
  jobs: { kind: concurrency, limit: 2, key: header:x-tenant, store: shared, lease: 10s }
  here: { kind: token_bucket, burst: 4, refill: 1, every: 1h }
";

#[tokio::test]
async fn four_limits_are_one_round_trip_and_all_or_none() {
    let Some(server) = Server::start() else {
        return;
    };
    let limits = server.limits(FOUR);
    let asks = [
        Ask::new("user").key("anna"),
        Ask::new("tenant").key("red").cost(2),
        Ask::new("daily").key("anna"),
        Ask::new("jobs").key("red"),
    ];
    // The first decision sends the script.
    let first = limits.decide(&asks, 1).await.expect("it works");
    let before = server.scripts();
    let second = limits.decide(&asks, 1).await.expect("it works");
    assert_eq!(server.scripts() - before, 1, "one script for four limits");
    let remaining = |answers: Vec<plimsoll_engine::Answer<'_>>| -> Vec<_> {
        answers
            .iter()
            .map(|it| it.standing.expect("it works").remaining)
            .collect()
    };
    assert_eq!(
        remaining(second.answers().collect()),
        [Some(1), Some(1), Some(98), Some(0)]
    );
    let refusal = limits.decide(&asks, 1).await.expect_err("it is refused");
    let granted: Vec<bool> = refusal.answers().map(|it| it.is_granted()).collect();
    assert_eq!(granted, [true, false, true, false], "each limit answers");
    assert_eq!(refusal.limit(), "tenant", "it takes longest");
    assert!(!refusal.is_compensated());
    assert_eq!(
        remaining(refusal.answers().collect()),
        [Some(1), Some(1), Some(98), Some(0)],
        "nothing was taken"
    );
    drop((first, second));
}

#[tokio::test]
async fn memory_is_asked_first_and_gets_back_what_a_store_refuses() {
    let Some(server) = Server::start() else {
        return;
    };
    let limits = server.limits(FOUR);
    let here = Ask::new("here");
    let both = [here, Ask::new("user").key("bert").cost(4)];
    let refusal = limits.decide(&both, 1).await.expect_err("it is refused");
    assert_eq!(
        (refusal.limit(), refusal.denied().reason()),
        ("user", Reason::TooLarge)
    );
    let peeked = limits.peek(&[here.cost(4)]);
    assert!(peeked.is_ok(), "what was taken here was given back");
    let _ = limits.decide(&[here.cost(4)], 1).await.expect("it works");
    let before = server.scripts();
    let refusal = limits
        .decide(&[here, Ask::new("user").key("bert")], 1)
        .await
        .expect_err("it is refused");
    assert_eq!(refusal.limit(), "here");
    assert_eq!(
        server.scripts(),
        before,
        "a refusal here costs no round trip"
    );
}

#[tokio::test]
async fn the_same_subject_twice_and_settlement_work_in_a_store() {
    let Some(server) = Server::start() else {
        return;
    };
    let limits = server.limits(FOUR);
    let user = Ask::new("user").key("cleo");
    assert!(
        limits
            .decide(&[user.cost(2), user.cost(2)], 1)
            .await
            .is_err()
    );
    let mut hold = limits.decide(&[user.cost(3)], 1).await.expect("it works");
    hold.settle("user", 1);
    drop(hold);
    // The correction is sent in the background.
    for _ in 0..4000 {
        if limits.decide(&[user.cost(2)], 1).await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("two of three came back");
}

#[tokio::test]
async fn what_stores_do_and_how_their_limits_stand_is_seen() {
    let Some(server) = Server::start() else {
        return;
    };
    let text = "limits:
  one: { rate: 100/h, store: shared }
  slots: { concurrency: 5, store: shared }
  keyed: { rate: 100/h, key: client, store: shared }";
    let (limits, other) = (server.limits(text), server.limits(text));
    let asks = [
        Ask::new("one").cost(30),
        Ask::new("slots").cost(2),
        Ask::new("keyed").key("anna").cost(7),
    ];
    let held = limits.decide(&asks, 1).await.expect("it fits");
    // Another process sees what this one uses.
    let seen = other.snapshot_asking_stores().await;
    let in_use: Vec<u64> = seen.iter().map(|it| it.snapshot.in_use()).collect();
    assert_eq!(in_use, [30, 2, 0], "only a store knows all keys");
    assert_eq!(seen[0].snapshot.limit(), 100);
    assert!(other.decide(&[Ask::new("one").cost(71)], 1).await.is_err());

    let stores = limits.stores();
    let [(name, stats)] = stores.as_slice() else {
        panic!("{stores:?}");
    };
    assert_eq!((name.as_str(), stats.decisions), ("shared", 3));
    assert!(
        stats.round_trips >= 1 && stats.round_trips <= 3,
        "{stats:?}"
    );
    assert_eq!(stats.latency.count(), stats.round_trips);
    assert!(stats.is_asked && stats.leases_lost == 0 && stats.connections == 1);
    drop(held);
}

#[tokio::test]
async fn an_outage_is_counted_by_cause_and_the_limits_say_what_is_known_here() {
    let text = "stores: { gone: { url: 'redis://127.0.0.1:1', deadline: 1s } }
limits: { a: { rate: 10/s, store: gone, outage: deny } }";
    let config = Config::from_str("limits.yaml", text, Format::Yaml).expect("right");
    let limits = Limits::new(&config, &plimsoll::Clock::system()).expect("it works");
    let refusal = limits
        .decide(&[Ask::new("a")], 1)
        .await
        .expect_err("no store");
    assert_eq!(refusal.denied().reason(), Reason::Unavailable);
    let seen = limits.snapshot_asking_stores().await;
    assert_eq!(
        (seen[0].snapshot.limit(), seen[0].snapshot.in_use()),
        (10, 0)
    );
    let (_, stats) = &limits.stores()[0];
    let failed: u64 = plimsoll_engine::StoreErrorKind::ALL
        .into_iter()
        .map(|kind| stats.failures(kind))
        .sum();
    assert!(failed >= 1, "{stats:?}");
    assert_eq!((stats.decisions, stats.connections), (0, 0));
}

/// One event for a decision of memory and a store, when the store has answered.
#[tokio::test]
async fn what_a_store_decides_is_told_once() {
    let Some(server) = Server::start() else {
        return;
    };
    let limits = server.limits(
        "limits:
  far: { kind: fixed_window, limit: 2, window: 1h, store: shared }
  tomorrow: { kind: fixed_window, limit: 1, window: 1h, store: shared, mode: shadow }
  here: { rate: 100/s }
",
    );
    let mut events = limits.subscribe(100);
    let asks = ["here", "far", "tomorrow"].map(Ask::new);
    for _ in 0..3 {
        let _ = limits.decide(&asks, 1).await;
    }
    let told = events.by_ref().map(|event| {
        let would = event.would_refuse().map(|asked| asked.limit.to_string());
        let would = would.collect::<Vec<_>>().join(" ");
        let binding = match &event.kind {
            plimsoll_engine::LimitsEventKind::Refused { limit, .. } => limit.clone(),
            _ => None,
        };
        (
            event.kind.as_str(),
            binding.as_deref().map(str::to_owned),
            would,
        )
    });
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            ("admitted", None, String::new()),
            ("admitted", None, "tomorrow".to_owned()),
            ("refused", Some("far".to_owned()), "tomorrow".to_owned()),
        ]
    );
}

#[tokio::test]
async fn what_was_used_stays_used_when_a_key_changes_its_tier() {
    let Some(server) = Server::start() else {
        return;
    };
    let text = "limits:
  tokens:
    kind: token_bucket
    burst: 2
    refill: 1
    every: 1h
    key: header:authorization
    store: shared
    tiers:
      by: header:x-plan
      pro: { kind: token_bucket, burst: 5, refill: 1, every: 1h }
      internal: unlimited
    overrides:
      vip: { kind: token_bucket, burst: 9, refill: 1, every: 1h }
";
    // Two processes: which tier a key had last is known to neither.
    let (one, two) = (server.limits(text), server.limits(text));
    let granted = async |limits: &Limits, ask: Ask<'_>| {
        let mut granted = 0;
        while granted < 20 && limits.decide(&[ask], 1).await.is_ok() {
            granted += 1;
        }
        granted
    };
    let anna = Ask::new("tokens").key("anna");
    let _ = one.peek(&[anna.tier("pro")]);
    assert_eq!(
        granted(&one, anna).await,
        2,
        "looking leaves nothing behind"
    );
    assert_eq!(granted(&two, anna.tier("internal")).await, 20);
    assert_eq!(granted(&two, anna.tier("pro")).await, 3, "2 of 5 are used");
    assert_eq!(granted(&one, anna).await, 0);
    assert_eq!(granted(&one, anna.tier("pro")).await, 0);
    assert_eq!(granted(&one, anna.key("vip").tier("pro")).await, 9);
    assert_eq!(granted(&two, anna.key("bert").tier("pro")).await, 5);
}

/// No script reaches two servers: what the first granted is given back, and the refusal says so.
#[tokio::test]
async fn what_one_store_granted_is_given_back_if_another_refuses() {
    let (Some(one), Some(two)) = (Server::start(), Server::start()) else {
        return;
    };
    let text = format!(
        "stores:
  one: {{ url: 'redis://127.0.0.1:{}', deadline: 5s }}
  two: {{ url: 'redis://127.0.0.1:{}', deadline: 5s }}
limits:
  first: {{ kind: token_bucket, burst: 3, refill: 1, every: 1h, store: one }}
  second: {{ kind: token_bucket, burst: 1, refill: 1, every: 1h, store: two }}
",
        one.0.port, two.0.port
    );
    let config = Config::from_str("limits.yaml", &text, Format::Yaml).expect("it is right");
    let limits = Limits::new(&config, &plimsoll::Clock::system()).expect("it can be built");
    let both = ["first", "second"].map(Ask::new);
    assert!(limits.decide(&both, 1).await.is_ok());
    for _ in 0..3 {
        let refusal = limits.decide(&both, 1).await.expect_err("it is used up");
        assert_eq!(refusal.limit(), "second");
        assert!(refusal.is_compensated());
    }
    let first = [Ask::new("first").cost(2)];
    assert!(limits.decide(&first, 1).await.is_ok(), "2 of 3 are left");
    assert!(limits.decide(&both[..1], 1).await.is_err());
}
