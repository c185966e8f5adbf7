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

/// Asks by all protocols at once. Returns how much was granted over HTTP, where two limits are asked, and in all.
async fn ask(server: &Arc<Running>) -> (u64, u64) {
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
                    (granted, granted)
                }
                2 => {
                    let mut kept = Kept::new(server.resp).await;
                    start.wait().await;
                    for _ in 0..EACH {
                        let five = kept.five("PLIMSOLL.TAKE exact anna").await.expect("an answer");
                        granted += u64::from(five.expect("numbers")[0] == 0);
                    }
                    (0, granted)
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
                    (0, granted)
                }
            }
        });
    }
    let sums = tasks.join_all().await;
    let sum = |of: fn(&(u64, u64)) -> u64| sums.iter().map(of).sum();
    (sum(|it| it.0), sum(|it| it.1))
}

async fn exactly(stores: &str, store: &str) {
    let directory = Directory::new();
    let file = directory.0.join("limits.yaml");
    let text = format!(
        "{stores}limits:
  exact: {{ kind: fixed_window, limit: {LIMIT}, window: 24h, key: descriptor:user{store} }}
  other: {{ kind: fixed_window, limit: 100000, window: 24h, key: descriptor:user{store} }}
routes:
  - {{ match: /**, hosts: [users], limits: [exact] }}
"
    );
    std::fs::write(&file, text).expect("a file");
    let server = Arc::new(Running::start(file.to_str(), None).await);
    let (both, all) = ask(&server).await;
    assert_eq!(all, LIMIT);
    let mut kept = Kept::new(server.resp).await;
    // Limit, remaining.
    let five = kept
        .five("PLIMSOLL.PEEK other anna")
        .await
        .expect("an answer");
    let five = five.expect("numbers");
    if store.is_empty() {
        assert_eq!(five[1] - five[2], i64::try_from(both).expect("it fits"));
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
    let Some(redis) = crate::wire::Redis::start() else {
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
    let Some(redis) = crate::wire::Redis::start() else {
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
    let (status, _) = kept[0]
        .post("/v1/check", r#"{"limit":"own","key":"a"}"#)
        .await
        .expect("an answer");
    assert_eq!(status, 200);
    // It comes back, and has forgotten everything: then there are three again, and no more.
    let redis = crate::wire::Redis::start_at(port).expect("it was there");
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
