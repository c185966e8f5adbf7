//! A node of a cluster is replaced by its replica.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use plimsoll_redis::{Store, StoreErrorKind};
use tokio::time::{Instant, sleep};

use crate::load::{Load, hasty};
use crate::server::{Server, free_port, patient};

/// Three nodes and a replica for each.
struct Cluster {
    nodes: Vec<Option<Server>>,
    files: Vec<PathBuf>,
}

impl Cluster {
    async fn start() -> Self {
        let mut cluster = Self {
            nodes: Vec::new(),
            files: Vec::new(),
        };
        for _ in 0..6 {
            let (port, bus) = (free_port(), free_port().to_string());
            let file = std::env::temp_dir().join(format!("plimsoll-failover-{port}.conf"));
            let name = file.to_string_lossy().into_owned();
            let options = ["--cluster-enabled", "yes", "--cluster-config-file", &name];
            let timeout = ["--cluster-port", &bus, "--cluster-node-timeout", "2000"];
            // Replicas write down what they are sent, and every server reads what it finds.
            let dump = format!("plimsoll-failover-{port}.rdb");
            let replicas = ["--repl-diskless-sync-delay", "0", "--dbfilename", &dump];
            let options = [&options[..], &timeout, &replicas].concat();
            cluster.nodes.push(Some(Server::on(port, &options)));
            cluster
                .files
                .extend([file, std::env::temp_dir().join(dump)]);
        }
        let nodes: Vec<_> = cluster
            .nodes()
            .map(|node| format!("127.0.0.1:{}", node.port()))
            .collect();
        let output = Command::new("redis-cli")
            .args(["--cluster", "create"])
            .args(&nodes)
            .args(["--cluster-replicas", "1", "--cluster-yes"])
            .output();
        let output = output.expect("redis-cli: install the package `redis-tools`");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}");
        cluster.settle().await;
        cluster
    }

    fn nodes(&self) -> impl Iterator<Item = &Server> {
        self.nodes.iter().flatten()
    }

    /// Waits until all nodes agree, and all replicas follow.
    async fn settle(&self) {
        for node in self.nodes() {
            until("the cluster is complete", || {
                let replication = node.cli(&["info", "replication"]);
                let follows = replication.contains("role:master")
                    || replication.contains("master_link_status:up");
                follows && node.cli(&["cluster", "info"]).contains("cluster_state:ok")
            })
            .await;
        }
    }

    fn store(&self, open: impl Fn(plimsoll_redis::StoreBuilder) -> Store) -> Store {
        let urls: Vec<_> = self.nodes().map(Server::url).collect();
        open(Store::cluster(urls.iter().map(String::as_str)))
    }

    /// A replica that follows, and the number of the node that it follows.
    fn replica(&self) -> (&Server, usize) {
        let pair = self.nodes().find_map(|node| {
            let replication = node.cli(&["info", "replication"]);
            let port = replication
                .lines()
                .find_map(|line| line.strip_prefix("master_port:"))?;
            let port: u16 = port.trim().parse().ok()?;
            let is_master =
                |other: &Option<Server>| other.as_ref().is_some_and(|other| other.port() == port);
            Some((node, self.nodes.iter().position(is_master)?))
        });
        pair.expect("a replica")
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

async fn until(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(40);
    while !so() {
        assert!(Instant::now() < end, "not within 40 s: {what}");
        sleep(Duration::from_millis(50)).await;
    }
}

/// Orders a replica to take over, until it does: the others may not vote for it at once.
async fn take_over(replica: &Server) {
    let mut ordered = None;
    until("a replica takes over by order", || {
        let is_master = replica.cli(&["role"]).starts_with("master");
        let patience = Duration::from_secs(3);
        if !is_master && ordered.is_none_or(|at: Instant| at.elapsed() > patience) {
            assert_eq!(replica.cli(&["cluster", "failover", "force"]), "OK");
            ordered = Some(Instant::now());
        }
        is_master
    })
    .await;
}

async fn is_master(node: &Server) {
    until("a replica takes over", || {
        node.cli(&["role"]).starts_with("master")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_take_over_and_nobody_starts_anew() {
    let mut cluster = Cluster::start().await;
    let store = cluster.store(hasty);
    let observer = cluster.store(|store| patient(store).open().expect("a store"));
    let mut load = Load::start(store, observer);
    load.decides(500).await;

    // Somebody orders it.
    let (replica, _) = cluster.replica();
    take_over(replica).await;
    println!(
        "all are decided for again after {:?}",
        load.decides(1).await
    );
    load.decides(500).await;
    cluster.settle().await;

    // A node dies.
    let (replica, master) = cluster.replica();
    let port = replica.port();
    cluster.nodes[master] = None; // with SIGKILL
    load.suffers(10).await;
    let before = load.decided();
    let replica = cluster.nodes().find(|node| node.port() == port);
    is_master(replica.expect("the replica")).await;
    // Meanwhile the others decided for theirs.
    let went_on = load
        .decided()
        .iter()
        .zip(&before)
        .filter(|(now, before)| now > before)
        .count();
    assert!(went_on > before.len() / 4, "{went_on} of {}", before.len());
    // And the node that was dead was left alone: failures of one node never came in a row while the others answered.
    let stats = load.store().stats();
    assert!(
        stats.outages > 0 && stats.failures(StoreErrorKind::CircuitOpen) > 0,
        "{stats:?}"
    );
    println!(
        "all are decided for again after {:?}",
        load.decides(1).await
    );
    load.decides(500).await;
    // What was not replicated yet is forgotten, on two nodes.
    let tally = load.finish().await.check(2).await;
    assert!(tally.unknown > 0, "{tally:?}");
}
