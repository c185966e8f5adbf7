//! Decisions about four limits in Redis, with many callers: one by one, and together.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use plimsoll::{Concurrency, FixedWindow, Quota, SlidingCounter, TokenBucket};
use plimsoll_redis::{RedisLimiter, Store, StoreAsk};

use crate::say;
use crate::timing::median;

const ROUNDS: usize = 9;
const SPAN: Duration = Duration::from_millis(300);

struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start() -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0")
            .ok()?
            .local_addr()
            .ok()?
            .port();
        let mut command = Command::new("redis-server");
        command.args([
            "--port",
            &port.to_string(),
            "--save",
            "",
            "--appendonly",
            "no",
        ]);
        let child = command.stdout(Stdio::null()).spawn().ok()?;
        let server = Self { child, port };
        let listens = || TcpStream::connect(("127.0.0.1", port)).is_ok();
        (0..1_000_000).any(|_| listens()).then_some(server)
    }

    fn store(&self) -> Store {
        let url = format!("redis://127.0.0.1:{}", self.port);
        let store = Store::builder(&url).deadline(Duration::from_secs(5)).open();
        store.expect("a store")
    }

    /// How many scripts were run so far.
    fn scripts(&self) -> u64 {
        let port = self.port.to_string();
        let asked = Command::new("redis-cli")
            .args(["-p", &port, "info", "commandstats"])
            .output();
        let text = asked.map(|it| String::from_utf8_lossy(&it.stdout).into_owned());
        let calls = |line: &str| {
            line.split("calls=")
                .nth(1)?
                .split(',')
                .next()?
                .parse::<u64>()
                .ok()
        };
        let text = text.unwrap_or_default();
        let lines = text.lines().filter(|line| line.starts_with("cmdstat_eval"));
        lines.filter_map(calls).sum()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A store with four limits that are never used up.
struct Four {
    store: Store,
    limiters: [RedisLimiter; 4],
}

impl Four {
    fn new(server: &Server) -> Arc<Self> {
        let store = server.store();
        let quota = Quota::per_second(1_000_000);
        let limiters = [
            store.limiter("user", TokenBucket::per_second(1_000_000)),
            store.limiter("tenant", FixedWindow::new(quota)),
            store.limiter("all", SlidingCounter::new(quota)),
            store.limiter("slots", Concurrency::new(1_000_000)),
        ];
        let limiters = limiters.map(|limiter| limiter.expect("a limit"));
        Arc::new(Self { store, limiters })
    }

    async fn together(&self) {
        let asks = self
            .limiters
            .each_ref()
            .map(|limiter| StoreAsk::new(limiter, "key", 1));
        let decision = self.store.decide_all(&asks).await.expect("an answer");
        drop(decision.into_result().expect("it is granted"));
    }

    async fn in_turn(&self) {
        for limiter in &self.limiters {
            let decision = limiter.decide("key", 1).await.expect("an answer");
            assert!(decision.is_granted());
        }
    }
}

#[derive(Clone, Copy)]
enum How {
    Together,
    EachAlone,
    InTurn,
}

const HOW: [(How, &str); 3] = [
    (How::Together, "one decision, callers share scripts"),
    (
        How::EachAlone,
        "one decision, each caller with a store of its own, so that none is shared",
    ),
    (
        How::InTurn,
        "four decisions about one limit each, one after the other, callers share scripts",
    ),
];

pub(crate) fn report() {
    let Some(server) = Server::start() else {
        eprintln!("SKIPPED: redis-server is not installed");
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime");
    for callers in [1, 64] {
        say("");
        say(&format!(
            "| four limits, {callers} callers | decisions a second | scripts a decision |"
        ));
        say("|---|--:|--:|");
        let mut rates = HOW.map(|_| Vec::new());
        let mut scripts = HOW.map(|_| Vec::new());
        for _ in 0..ROUNDS {
            for (place, (how, _)) in HOW.iter().enumerate() {
                let before = server.scripts();
                let done = runtime.block_on(run(&server, *how, callers));
                rates[place].push(done as f64 / SPAN.as_secs_f64());
                scripts[place].push((server.scripts() - before) as f64 / done as f64);
            }
        }
        for ((_, name), (rates, scripts)) in HOW.iter().zip(rates.into_iter().zip(scripts)) {
            say(&format!(
                "| {name} | {:.0} | {:.2} |",
                median(rates),
                median(scripts)
            ));
        }
    }
}

/// How many decisions about four limits were made in the span.
async fn run(server: &Server, how: How, callers: usize) -> u64 {
    let shared = Four::new(server);
    let (ends, done) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let tasks: Vec<_> = (0..callers)
        .map(|_| {
            let four = match how {
                How::EachAlone => Four::new(server),
                How::Together | How::InTurn => Arc::clone(&shared),
            };
            let (ends, done) = (Arc::clone(&ends), Arc::clone(&done));
            tokio::spawn(async move {
                // Connects, and makes the script known.
                four.together().await;
                four.in_turn().await;
                while !ends.load(Ordering::Relaxed) {
                    match how {
                        How::Together | How::EachAlone => four.together().await,
                        How::InTurn => four.in_turn().await,
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    tokio::time::sleep(SPAN).await;
    ends.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.expect("a task");
    }
    done.load(Ordering::Relaxed)
}
