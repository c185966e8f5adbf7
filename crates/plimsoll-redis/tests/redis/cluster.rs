//! Three nodes: every subject lies on one of them, with all its limits; slots that move are followed.

use std::path::PathBuf;
use std::process::Command;

use crate::server::{Server, free_port, patient};
use plimsoll::{Concurrency, FixedWindow, Quota, SlidingLog, TokenBucket};
use plimsoll_redis::{RedisAll, RedisLimiter, Store, StoreAsk};

struct Cluster {
    nodes: Vec<Server>,
    files: Vec<PathBuf>,
}

impl Cluster {
    fn start() -> Self {
        let mut cluster = Self {
            nodes: Vec::new(),
            files: Vec::new(),
        };
        for _ in 0..3 {
            let (port, bus) = (free_port(), free_port().to_string());
            let file = std::env::temp_dir().join(format!("plimsoll-nodes-{port}.conf"));
            let name = file.to_string_lossy().into_owned();
            let options = ["--cluster-enabled", "yes", "--cluster-config-file", &name];
            let options = [&options[..], &["--cluster-port", &bus]].concat();
            cluster.nodes.push(Server::on(port, &options));
            cluster.files.push(file);
        }
        let nodes: Vec<_> = cluster
            .nodes
            .iter()
            .map(|node| format!("127.0.0.1:{}", node.port()))
            .collect();
        let mut create = vec!["--cluster", "create"];
        create.extend(nodes.iter().map(String::as_str));
        create.push("--cluster-yes");
        manage(&create);
        cluster.settle();
        cluster
    }

    /// Waits until all nodes agree.
    fn settle(&self) {
        for node in &self.nodes {
            while !node.cli(&["cluster", "info"]).contains("cluster_state:ok") {
                std::thread::yield_now();
            }
        }
    }

    fn id(&self, node: usize) -> String {
        self.nodes[node].cli(&["cluster", "myid"])
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.nodes.clear();
        for file in &self.files {
            let _ = std::fs::remove_file(file);
        }
    }
}

fn manage(arguments: &[&str]) {
    let output = Command::new("redis-cli").args(arguments).output();
    let output = output.expect("redis-cli: install the package `redis-tools`");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{arguments:?}: {said}");
}

async fn decide_for_all(all: &RedisAll, cost: u64) -> usize {
    let mut granted = 0;
    for subject in 0..100 {
        let decision = all.decide(format!("customer {subject}"), cost).await;
        match decision.expect("a decision").into_result() {
            Ok(permit) => {
                granted += 1;
                permit.forget();
            }
            Err(denied) => assert_eq!(denied.limiter(), Some("daily")),
        }
    }
    granted
}

#[tokio::test(flavor = "multi_thread")]
async fn subjects_are_spread_and_their_limits_lie_together() {
    let cluster = Cluster::start();
    let urls: Vec<_> = cluster.nodes.iter().map(Server::url).collect();
    let store = patient(Store::cluster([urls[0].as_str()]))
        .open()
        .expect("a store");
    let daily = store.limiter("daily", FixedWindow::new(Quota::per_day(10)));
    let burst = store.limiter("burst", TokenBucket::per_second(1000));
    let jobs = store.limiter("jobs", Concurrency::new(100));
    let limits = [daily, burst, jobs].map(|limit| limit.expect("a limit"));
    let all = store.all(limits.clone()).expect("all three");

    assert_eq!(decide_for_all(&all, 6).await, 100);
    assert_eq!(decide_for_all(&all, 6).await, 0);
    for node in &cluster.nodes {
        let keys: usize = node.cli(&["dbsize"]).parse().expect("a number");
        assert!(keys > 0, "a node without keys");
    }

    // A third of the slots moves to another node, with what is kept there.
    let first = format!("127.0.0.1:{}", cluster.nodes[0].port());
    let (from, to) = (cluster.id(0), cluster.id(1));
    manage(&[
        "--cluster",
        "reshard",
        &first,
        "--cluster-from",
        &from,
        "--cluster-to",
        &to,
        "--cluster-slots",
        "5000",
        "--cluster-yes",
    ]);
    cluster.settle();
    assert_eq!(decide_for_all(&all, 6).await, 0);
    assert_eq!(decide_for_all(&all, 4).await, 100);
    let used = limits[0].look("customer 7").await.expect("a look").in_use;
    assert_eq!(used, 10);
}

/// Decisions that cross each other take both or none, in whichever order they come.
async fn cross(store: &Store, daily: &RedisLimiter) {
    let mut tasks = Vec::new();
    for turn in 0..60_usize {
        let (store, daily) = (store.clone(), daily.clone());
        tasks.push(tokio::spawn(async move {
            let (one, other) = (SUBJECTS[turn % 3], SUBJECTS[(turn + 1) % 3]);
            let asks = [one, other].map(|subject| StoreAsk::new(&daily, subject, 1));
            let decision = store.decide_all(&asks).await.expect("a decision");
            (one, other, decision.is_admitted())
        }));
    }
    let mut expected = [0; 3];
    for task in tasks {
        let (one, other, admitted) = task.await.expect("a task");
        for (place, subject) in SUBJECTS.iter().enumerate().take(3) {
            expected[place] += u64::from(admitted && [one, other].contains(subject));
        }
    }
    for (subject, expected) in SUBJECTS.iter().zip(expected) {
        let used = daily.look(subject).await.expect("a look").in_use;
        assert_eq!(used, expected, "{subject}");
        assert!(used <= 10);
    }
}

/// Subjects in slots of their own, on all nodes.
const SUBJECTS: [&str; 6] = ["red", "green", "blue", "pink", "grey", "black"];

async fn in_use(limiters: &[RedisLimiter]) -> Vec<u64> {
    let mut used = Vec::new();
    for limiter in limiters {
        for subject in SUBJECTS {
            used.push(limiter.look(subject).await.expect("a look").in_use);
        }
    }
    used
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_about_several_slots_takes_all_or_none_and_is_compensated() {
    let cluster = Cluster::start();
    let urls: Vec<_> = cluster.nodes.iter().map(Server::url).collect();
    let store = patient(Store::cluster([urls[0].as_str()])).open();
    let store = store.expect("a store");
    let daily = store.limiter("daily", FixedWindow::new(Quota::per_day(10)));
    let log = store.limiter("log", SlidingLog::new(Quota::per_day(10)));
    let jobs = store.limiter("jobs", Concurrency::new(3));
    let limiters = [daily, log, jobs].map(|limiter| limiter.expect("a limit"));
    let asks = |cost: u64, last: u64| {
        let mut asks = Vec::new();
        for subject in SUBJECTS {
            asks.push(StoreAsk::new(&limiters[0], subject, cost));
            asks.push(StoreAsk::new(&limiters[1], subject, cost));
            asks.push(StoreAsk::new(&limiters[2], subject, 1));
        }
        let end = asks.len() - 2;
        asks[end] = StoreAsk::new(&limiters[1], SUBJECTS[5], last);
        asks
    };

    let granted = store.decide_all(&asks(4, 4)).await.expect("a decision");
    assert!(granted.is_admitted() && !granted.is_compensated());
    let used = in_use(&limiters).await;
    assert_eq!(used, [[4; 6], [4; 6], [1; 6]].concat());
    let permits = granted.into_result().expect("permits");

    // The last subject refuses: the others have been taken from by then.
    let refused = store.decide_all(&asks(2, 7)).await.expect("a decision");
    assert!(!refused.is_admitted() && refused.is_compensated());
    assert_eq!(refused.answers().binding(), Some(16));
    let left = refused.answers().iter().map(|it| it.standing.remaining);
    let expected = [Some(6), Some(6), Some(2)].repeat(6);
    assert_eq!(left.collect::<Vec<_>>(), expected);
    assert_eq!(in_use(&limiters).await, used);

    // The first one refuses: nothing was taken, and all are answered.
    let mut first = asks(2, 2);
    first[1] = StoreAsk::new(&limiters[1], SUBJECTS[0], 7);
    let refused = store.decide_all(&first).await.expect("a decision");
    assert!(!refused.is_admitted() && !refused.is_compensated());
    let left = refused.answers().iter().map(|it| it.standing.remaining);
    assert_eq!(left.collect::<Vec<_>>(), expected);
    assert_eq!(in_use(&limiters).await, used);

    // A shadow that refuses is not charged, and refuses nobody.
    first[1] = first[1].shadow();
    let admitted = store.decide_all(&first).await.expect("a decision");
    assert!(admitted.is_admitted() && !admitted.answers()[1].grants());
    let after = in_use(&limiters).await;
    assert_eq!((after[6], after[7]), (4, 6));
    admitted
        .into_result()
        .expect("permits")
        .undo()
        .await
        .expect("undone");
    assert_eq!(in_use(&limiters).await, used);

    permits.undo().await.expect("undone");
    assert_eq!(in_use(&limiters).await, [0; 18]);
    cross(&store, &limiters[0]).await;
}

/// What was taken on the nodes that answer is undone, also if the decision fails.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_dies_in_the_middle_of_a_decision_leaves_nothing_charged() {
    let mut cluster = Cluster::start();
    let urls: Vec<_> = cluster.nodes.iter().map(Server::url).collect();
    let store = Store::cluster(urls.iter().map(String::as_str));
    let store = store.deadline(std::time::Duration::from_secs(2)).open();
    let store = store.expect("a store");
    let daily = store.limiter("daily", FixedWindow::new(Quota::per_day(10)));
    let jobs = store.limiter("jobs", Concurrency::new(3));
    let (daily, jobs) = (daily.expect("a limit"), jobs.expect("a limit"));
    let all = SUBJECTS.map(|subject| StoreAsk::new(&daily, subject, 0));
    store.peek_all(&all).await.expect("answers");

    drop(cluster.nodes.pop());
    let (mut alive, mut dead) = (Vec::new(), Vec::new());
    for subject in SUBJECTS {
        match daily.look(subject).await {
            Ok(_) => alive.push(subject),
            Err(_) => dead.push(subject),
        }
    }
    assert!(!alive.is_empty() && !dead.is_empty(), "{alive:?} {dead:?}");
    let subjects = alive.iter().chain(dead.first());
    let asks: Vec<_> = subjects
        .flat_map(|subject| [(&daily, 2), (&jobs, 1)].map(|(it, cost)| (it, *subject, cost)))
        .map(|(limiter, subject, cost)| StoreAsk::new(limiter, subject, cost))
        .collect();
    let answer = store.decide_all(&asks).await;
    assert!(answer.is_err(), "a node is dead: {answer:?}");
    for limiter in [&daily, &jobs] {
        for subject in &alive {
            let used = limiter.look(subject).await.expect("a look").in_use;
            assert_eq!(used, 0, "{limiter:?} {subject}");
        }
    }
}
