//! Real Envoys that share a limit. Each reports every 5 s, so these take their time, side by side.
//!
//! `PLIMSOLL_ENVOY` says where Envoy is; without it these are skipped. `PLIMSOLL_ENVOY_LONG` waits for shares to run out, too.

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use plimsoll_server::Settings;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::seen;
use crate::Running;

const CONFIG: &str = include_str!("envoy.yaml");

/// Where Envoy is, if it is anywhere.
fn envoy() -> Option<String> {
    let path = std::env::var("PLIMSOLL_ENVOY").ok();
    if path.is_none() {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: PLIMSOLL_ENVOY does not say where Envoy is"
        );
    }
    path
}

fn free_port() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address")
}

/// A server for one limit of this file, at an address.
async fn serve(name: &str, limit: &str, grpc: SocketAddr) -> Running {
    let name = format!("plimsoll-envoy-{name}-{}.yaml", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, format!("limits: {{ api: {limit} }}")).expect("written");
    let mut settings = Settings::default();
    settings.file = Some(path);
    Running::at(settings, grpc).await
}

/// An Envoy with its clients. It ends when it is dropped.
struct Proxy {
    process: Child,
    address: SocketAddr,
    clients: Option<JoinHandle<Vec<Seen>>>,
}

/// When a request was sent and answered, and whether it passed.
#[derive(Clone, Copy)]
struct Seen {
    sent: Instant,
    answered: Instant,
    passed: bool,
}

impl Proxy {
    async fn start(envoy: &str, name: &str, server: SocketAddr) -> Self {
        let address = free_port();
        let config = CONFIG
            .replace("$PORT", &address.port().to_string())
            .replace("$SERVER", &server.port().to_string());
        let file = format!("plimsoll-envoy-{name}-{}.yaml", address.port());
        let file = std::env::temp_dir().join(file);
        std::fs::write(&file, config).expect("written");
        let process = Command::new(envoy)
            .args([
                "--concurrency",
                "1",
                "--disable-hot-restart",
                "-l",
                "error",
                "-c",
            ])
            .arg(&file)
            .stdout(Stdio::null())
            .spawn()
            .expect("Envoy starts");
        let listens = async {
            while TcpStream::connect(address).await.is_err() {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(Duration::from_secs(20), listens)
            .await
            .expect("Envoy listens");
        Self {
            process,
            address,
            clients: None,
        }
    }

    /// Sends so many requests a second from now on.
    fn ask(&mut self, per_second: u32, seconds: u64) {
        let address = self.address;
        self.clients = Some(tokio::spawn(async move {
            let mut connection = TcpStream::connect(address).await.expect("it listens");
            let end = Instant::now() + Duration::from_secs(seconds);
            let mut ticks = tokio::time::interval(Duration::from_secs(1) / per_second);
            let mut all = Vec::new();
            while Instant::now() < end {
                ticks.tick().await;
                let sent = Instant::now();
                let request = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n";
                connection.write_all(request).await.expect("it listens");
                let mut answer = Vec::new();
                let mut part = [0; 1024];
                while !answer.ends_with(b"\r\n\r\n") {
                    let count = connection.read(&mut part).await.expect("it answers");
                    assert!(count > 0, "it answers");
                    answer.extend_from_slice(&part[..count]);
                }
                let passed = answer.starts_with(b"HTTP/1.1 204");
                assert!(
                    passed || answer.starts_with(b"HTTP/1.1 429"),
                    "{}",
                    String::from_utf8_lossy(&answer)
                );
                let answered = Instant::now();
                all.push(Seen {
                    sent,
                    answered,
                    passed,
                });
            }
            all
        }));
    }

    async fn answers(&mut self) -> Vec<Seen> {
        let clients = self.clients.take().expect("somebody asks");
        clients.await.expect("all were answered")
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What passed, by when it was sent and answered.
fn passed(all: &[Vec<Seen>]) -> Vec<Seen> {
    let mut passed: Vec<_> = all
        .iter()
        .flatten()
        .copied()
        .filter(|seen| seen.passed)
        .collect();
    passed.sort_by_key(|seen| seen.sent);
    passed
}

/// By how much what passed exceeds the rate in the worst span of time. What was sent after a moment and answered before another was
/// decided between them, however slow everything is.
fn above(passed: &[Seen], rate: f64) -> f64 {
    let mut worst: f64 = 0.0;
    for (index, first) in passed.iter().enumerate() {
        let mut ends: Vec<_> = passed[index..].iter().map(|seen| seen.answered).collect();
        ends.sort();
        for (count, end) in ends.iter().enumerate() {
            let seconds = (*end - first.sent).as_secs_f64();
            worst = worst.max((count + 1) as f64 - rate * seconds);
        }
    }
    worst
}

/// What each of the members of the only bucket has, per second.
fn shares(page: &Value) -> Vec<f64> {
    let all = page["shown"][0]["shares"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let share = |it: &Value| {
        let has = &it["has"];
        has["tokens"].as_f64().unwrap_or(0.0) / has["seconds"].as_f64().unwrap_or(1.0)
    };
    all.iter().map(share).collect()
}

/// All at once: each takes four reports and more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn envoys_share_a_limit() {
    let Some(envoy) = envoy() else { return };
    tokio::join!(
        shares_follow_demand_of_nine_to_one(&envoy),
        a_rate_below_the_number_of_proxies_flows(&envoy),
        a_restart_of_the_server_is_no_free_burst(&envoy),
    );
}

async fn shares_follow_demand_of_nine_to_one(envoy: &str) {
    let server = serve("nine", "{ rate: 50/s }", free_port()).await;
    let mut busy = Proxy::start(envoy, "busy", server.grpc).await;
    let mut small = Proxy::start(envoy, "small", server.grpc).await;
    // The one that asks first is the first that is shown.
    busy.ask(45, 22);
    seen(&server, |page| page["streams"] == 1).await;
    small.ask(5, 22);
    let follows = |page: &Value| matches!(shares(page)[..], [busy, small] if busy >= 38.0 && (4.0..=10.0).contains(&small));
    let page = seen(&server, follows).await;
    eprintln!("shares of 50/s: {:?}", shares(&page));
    let all = [busy.answers().await, small.answers().await];
    let passed = passed(&all);
    let above = above(&passed, 50.0);
    eprintln!(
        "{} of {} passed, {above:.1} above the rate at worst",
        passed.len(),
        all[0].len() + all[1].len()
    );
    // A proxy that has no assignment denies here, so that all that passed had one.
    assert!(above <= 50.0, "{above}");
    assert!(passed.len() > 50 * 8, "{}", passed.len());
    if std::env::var("PLIMSOLL_ENVOY_LONG").is_ok() {
        // What the busy one had is held until it has run out, and then the other has it.
        drop(busy);
        small.ask(45, 40);
        let gone = |page: &Value| page["shown"][0]["shares"][0]["gone"] == true;
        let page = seen(&server, gone).await;
        assert!(shares(&page)[1] < 15.0, "{page}");
        let all = |page: &Value| matches!(shares(page)[..], [all] if all > 40.0);
        timeout(Duration::from_secs(40), async {
            while !all(&seen(&server, |_| true).await) {
                sleep(Duration::from_millis(500)).await;
            }
        })
        .await
        .expect("it has all");
        small.answers().await;
    }
    server.stop().await;
}

async fn a_rate_below_the_number_of_proxies_flows(envoy: &str) {
    let limit = "{ kind: token_bucket, burst: 1, refill: 1, every: 4s }";
    let server = serve("slow", limit, free_port()).await;
    let mut one = Proxy::start(envoy, "slow-one", server.grpc).await;
    let mut other = Proxy::start(envoy, "slow-other", server.grpc).await;
    one.ask(10, 22);
    other.ask(10, 22);
    let all = [one.answers().await, other.answers().await];
    let passed = passed(&all);
    let above = above(&passed, 0.25);
    eprintln!(
        "{} passed, {above:.1} above the rate at worst",
        passed.len()
    );
    assert!(!passed.is_empty());
    assert!(above <= 1.0 + 1e-6, "{above}");
    server.stop().await;
}

async fn a_restart_of_the_server_is_no_free_burst(envoy: &str) {
    let limit = "{ kind: token_bucket, burst: 100, refill: 10, every: 1s }";
    let address = free_port();
    let server = serve("restart", limit, address).await;
    let mut one = Proxy::start(envoy, "restart-one", address).await;
    let mut other = Proxy::start(envoy, "restart-other", address).await;
    one.ask(40, 23);
    other.ask(40, 23);
    seen(&server, |page| shares(page).iter().sum::<f64>() > 5.0).await;
    sleep(Duration::from_secs(3)).await;
    server.stop().await;
    let stopped = Instant::now();
    let server = serve("restart", limit, address).await;
    let page = seen(&server, |page| shares(page).iter().sum::<f64>() > 4.0).await;
    eprintln!(
        "shares of 10/s, {:.1} s after the restart: {:?}",
        stopped.elapsed().as_secs_f64(),
        shares(&page)
    );
    let all = [one.answers().await, other.answers().await];
    let passed = passed(&all);
    let over = above(&passed, 10.0);
    let after: Vec<_> = passed
        .iter()
        .copied()
        .filter(|seen| seen.sent > stopped)
        .collect();
    let more = above(&after, 10.0);
    eprintln!(
        "{} passed; above the rate at worst {over:.1}, and {more:.1} after the restart",
        passed.len()
    );
    // A token for each proxy, and the rate for the second in which the old shares may be in force beside the new.
    assert!(over <= 100.0 + 2.0 + 10.0, "{over}");
    // All buckets were used up when it was restarted, and nothing of the burst of 100 is given out anew.
    assert!(more <= 2.0 + 10.0 + 2.0, "{more}");
    assert!(after.len() > 30, "{}", after.len());
    server.stop().await;
}
