//! Three nodes: every subject lies on one of them, with all its limits; slots that move are followed.

use std::path::PathBuf;
use std::process::Command;

use crate::server::{Server, free_port, patient};
use plimsoll::{Concurrency, FixedWindow, Quota, TokenBucket};
use plimsoll_redis::{RedisAll, Store};

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

async fn decide_for_all(all: &RedisAll, cost: u32) -> usize {
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
