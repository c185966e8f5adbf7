//! Exactness: many connections and all protocols at once on one key.

use std::sync::Arc;

use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::Running;
use crate::envoy::{Answer, METHOD, OK, Request, descriptor};
use crate::grpc::Client;
use crate::snapshots::Directory;
use crate::wire::Kept;

const LIMIT: u64 = 300;
const CONNECTIONS: u64 = 64;
/// So many each: four times what there is.
const EACH: u64 = 20;

/// What the limits have that are asked before the exact one.
const OTHER: u64 = 100_000;

/// Asks by all protocols at once. Returns how much was granted over HTTP and over gRPC, where two limits are asked, and in
/// all.
async fn ask(server: &Arc<Running>) -> [u64; 3] {
    let start = Arc::new(Barrier::new(usize::try_from(CONNECTIONS).expect("it fits")));
    let mut tasks = JoinSet::new();
    for number in 0..CONNECTIONS {
        let (server, start) = (Arc::clone(server), Arc::clone(&start));
        tasks.spawn(async move {
            let mut granted = 0;
            match number % 4 {
                0 | 1 => {
                    let mut kept = Kept::new(server.http).await;
                    // The other first: what is refused by the second must not be charged to it.
                    let both = r#"{"asks":[{"limit":"other","key":"anna"},{"limit":"exact","key":"anna"}]}"#;
                    let batch = format!(r#"{{"checks":[{both}]}}"#);
                    start.wait().await;
                    for _ in 0..EACH {
                        let body = if number % 4 == 0 { both } else { &batch };
                        let (_, said) = kept.post("/v1/check", body).await.expect("an answer");
                        granted += u64::from(said.contains(r#""allowed":true"#));
                    }
                    [granted, 0, granted]
                }
                2 => {
                    let mut kept = Kept::new(server.resp).await;
                    start.wait().await;
                    for _ in 0..EACH {
                        let five = kept.five("PLIMSOLL.TAKE exact anna").await.expect("an answer");
                        granted += u64::from(five.expect("numbers")[0] == 0);
                    }
                    [0, 0, granted]
                }
                _ => {
                    let mut client = Client::new(&server).await;
                    start.wait().await;
                    for _ in 0..EACH {
                        let request = Request {
                            domain: "users".to_owned(),
                            descriptors: vec![descriptor("user=anna")],
                            hits_addend: 0,
                        };
                        let answer: Answer = client.call(METHOD, request).await.expect("an answer");
                        granted += u64::from(answer.overall_code == OK);
                    }
                    [0, granted, granted]
                }
            }
        });
    }
    let sums = tasks.join_all().await;
    [0, 1, 2].map(|of| sums.iter().map(|it| it[of]).sum())
}

async fn exactly(stores: &str, store: &str) {
    let directory = Directory::new();
    let file = directory.0.join("limits.yaml");
    let text = format!(
        "{stores}limits:
  exact: {{ kind: fixed_window, limit: {LIMIT}, window: 24h, key: descriptor:user{store} }}
  other: {{ kind: fixed_window, limit: {OTHER}, window: 24h, key: descriptor:user{store} }}
  of_envoy: {{ kind: fixed_window, limit: {OTHER}, window: 24h, key: descriptor:user{store} }}
routes:
  - {{ match: /**, hosts: [users], limits: [of_envoy, exact] }}
"
    );
    std::fs::write(&file, text).expect("a file");
    let server = Arc::new(Running::start(file.to_str(), None).await);
    let [over_http, over_grpc, all] = ask(&server).await;
    assert_eq!(all, LIMIT);
    assert!(over_http > 0 && over_grpc > 0, "{over_http}, {over_grpc}");
    // What the others have left is taken to the last, so that what they were charged is known wherever they are kept: for what
    // was granted, and for nothing that the exact one refused.
    let mut kept = Kept::new(server.resp).await;
    for (other, granted) in [("other", over_http), ("of_envoy", over_grpc)] {
        let left = OTHER - granted;
        for (cost, refused) in [(left + 1, 1), (left, 0), (1, 1)] {
            let take = format!("PLIMSOLL.TAKE {other} anna {cost}");
            let five = kept.five(&take).await.expect("an answer");
            assert_eq!(five.expect("numbers")[0], refused, "{take}");
        }
    }
    drop(kept);
    Arc::into_inner(server).expect("the last").stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_memory() {
    exactly("", "").await;
}

#[cfg(feature = "redis")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_redis() {
    let Some(redis) = crate::redis_server::Redis::start() else {
        return;
    };
    let stores = format!(
        "stores: {{ fleet: {{ url: 'redis://127.0.0.1:{}', deadline: 5s }} }}\n",
        redis.port
    );
    exactly(&stores, ", store: fleet").await;
}

/// Two servers of a fleet have one limit; and a Redis that dies is said, while limits in memory are served.
#[cfg(feature = "redis")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_has_one_limit_and_lives_without_its_redis() {
    let Some(redis) = crate::redis_server::Redis::start() else {
        return;
    };
    let directory = Directory::new();
    let file = directory.0.join("limits.yaml");
    let text = format!(
        "stores: {{ fleet: {{ url: 'redis://127.0.0.1:{}', deadline: 200ms }} }}
limits:
  shared: {{ kind: fixed_window, limit: 3, window: 24h, key: client, store: fleet, outage: deny }}
  own: {{ kind: fixed_window, limit: 3, window: 24h, key: client }}
",
        redis.port
    );
    std::fs::write(&file, text).expect("a file");
    let servers = [
        Running::start(file.to_str(), None).await,
        Running::start(file.to_str(), None).await,
    ];
    let mut kept = Vec::new();
    for server in &servers {
        kept.push(Kept::new(server.http).await);
    }
    let shared = r#"{"limit":"shared","key":"a"}"#;
    let mut granted = 0;
    for turn in 0..6 {
        let (status, _) = kept[turn % 2]
            .post("/v1/check", shared)
            .await
            .expect("an answer");
        granted += u32::from(status == 200);
    }
    assert_eq!(granted, 3);
    let port = redis.port;
    drop(redis);
    let (status, said) = kept[0].post("/v1/check", shared).await.expect("an answer");
    assert_eq!(status, 503, "{said}");
    let metrics = crate::http::send(servers[0].admin, "GET", "/metrics", None, "").await;
    let said = metrics.body.lines().any(|line| {
        line.starts_with("plimsoll_store_failures_total{store=\"fleet\"") && !line.ends_with(" 0")
    });
    assert!(said, "{}", metrics.body);
    let (status, _) = kept[0]
        .post("/v1/check", r#"{"limit":"own","key":"a"}"#)
        .await
        .expect("an answer");
    assert_eq!(status, 200);
    // It comes back, and has forgotten everything: then there are three again, and no more.
    let redis = crate::redis_server::Redis::start_at(port).expect("it was there");
    let mut granted = 0;
    for _ in 0..2000 {
        let (status, _) = kept[1].post("/v1/check", shared).await.expect("an answer");
        granted += u32::from(status == 200);
        if status == 429 {
            break;
        }
        if status == 503 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }
    assert_eq!(granted, 3);
    drop((kept, redis));
    for server in servers {
        server.stop().await;
    }
}

/// A Redis that is emptied while it is asked has forgotten what was used, and its scripts: the whole limit is there again, no more, and
/// nobody sees an error. Where it was gone, metrics say so.
#[cfg(feature = "redis")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_forgets_is_asked_on() {
    let Some(redis) = crate::redis_server::Redis::start() else {
        return;
    };
    let directory = Directory::new();
    let file = directory.0.join("limits.yaml");
    let text = format!(
        "stores: {{ fleet: {{ url: 'redis://127.0.0.1:{}', deadline: 5s }} }}
limits: {{ shared: {{ kind: fixed_window, limit: 3, window: 24h, key: client, store: fleet, outage: deny }} }}
",
        redis.port
    );
    std::fs::write(&file, text).expect("a file");
    let server = Running::start(file.to_str(), None).await;
    let mut kept = Kept::new(server.http).await;
    for _ in 0..3 {
        let mut statuses = Vec::new();
        for _ in 0..4 {
            let body = r#"{"limit":"shared","key":"a"}"#;
            let (status, _) = kept.post("/v1/check", body).await.expect("an answer");
            statuses.push(status);
        }
        assert_eq!(statuses, [200, 200, 200, 429]);
        redis.forget().await;
    }
    let metrics = crate::http::send(server.admin, "GET", "/metrics", None, "").await;
    let failures = metrics.body.lines();
    let failures = failures.filter(|line| line.starts_with("plimsoll_store_failures_total"));
    assert!(
        failures.clone().all(|line| line.ends_with(" 0")),
        "{:?}",
        failures.collect::<Vec<_>>()
    );
    drop((kept, redis));
    server.stop().await;
}
