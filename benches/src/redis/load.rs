//! So many callers at once, each of whom asks again as soon as it is answered.

use std::io;
use std::process::Command;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use super::server::Server;
use crate::asking::{now, process_time};
use crate::contender::{Contender, Role};
use crate::keyed::histogram::Histogram;

/// The server, and the runtime of all who ask it.
pub(super) struct Bench {
    pub(super) runtime: Runtime,
    pub(super) server: Server,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    pub(super) callers: usize,
    pub(super) span: Duration,
}

/// How it went.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) per_second: f64,
    /// How long a caller waits, in microseconds.
    pub(super) p50: f64,
    pub(super) p99: f64,
    /// Commands sent for each decision.
    pub(super) trips: f64,
    /// Processor time of the server and of this process for each decision, in microseconds.
    pub(super) server: f64,
    pub(super) client: f64,
}

/// What one caller has seen.
#[derive(Default)]
struct Seen {
    times: Histogram,
    asked: u64,
    wrong: u64,
}

impl Bench {
    pub(super) fn start() -> io::Result<Self> {
        Ok(Self {
            runtime: Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()?,
            server: Server::start()?,
        })
    }

    fn load<F>(&self, trial: Trial, ask: impl Fn() -> F + Clone + Send + 'static) -> (Sample, Seen)
    where
        F: Future<Output = bool> + Send + 'static,
    {
        // Connects, and makes the scripts known.
        self.runtime.block_on(async {
            for _ in 0..100 {
                ask().await;
            }
        });
        let before = self.server.reset();
        let (start, busy) = (now(), process_time());
        let end = start + trial.span;
        let all = self.runtime.block_on(async {
            let callers: Vec<_> = (0..trial.callers)
                .map(|_| tokio::spawn(call_until(end, ask.clone())))
                .collect();
            let mut all = Seen::default();
            for caller in callers {
                all.add(&caller.await.expect("a caller that does not panic"));
            }
            all
        });
        let (wall, busy) = (now() - start, process_time() - busy);
        let done = self.server.done();
        let asked = all.asked as f64;
        let sample = Sample {
            per_second: asked / wall.as_secs_f64(),
            p50: all.times.all_but_one_in(2) as f64 / 1e3,
            p99: all.times.all_but_one_in(100) as f64 / 1e3,
            trips: done.sent() as f64 / asked,
            server: (done.seconds - before.seconds) / asked * 1e6,
            client: busy.as_secs_f64() / asked * 1e6,
        };
        (sample, all)
    }
}

async fn call_until<F>(end: std::time::Instant, ask: impl Fn() -> F) -> Seen
where
    F: Future<Output = bool>,
{
    let mut seen = Seen::default();
    let mut last = now();
    while last < end {
        seen.wrong += u64::from(!ask().await);
        let answered = now();
        let nanos = (answered - last).as_nanos();
        seen.times.add(u64::try_from(nanos).unwrap_or(u64::MAX));
        seen.asked += 1;
        last = answered;
        // Who is answered at once lets others come to their turn nevertheless.
        tokio::task::consume_budget().await;
    }
    seen
}

impl Seen {
    fn add(&mut self, other: &Self) {
        self.times.merge(&other.times);
        self.asked += other.asked;
        self.wrong += other.wrong;
    }
}

/// A contender that is asked through `ask`, which says whether the answer was the one that was meant.
pub(super) fn asked<L, F>(
    bench: &Rc<Bench>,
    role: Role,
    name: &'static str,
    limiter: L,
    ask: fn(Arc<L>) -> F,
) -> Contender<Trial, Sample>
where
    L: Send + Sync + 'static,
    F: Future<Output = bool> + Send + 'static,
{
    asked_then(bench, role, name, limiter, ask, |_| async {})
}

/// The same, with something to be done after each trial, so that others are not charged for it.
pub(super) fn asked_then<L, F, T>(
    bench: &Rc<Bench>,
    role: Role,
    name: &'static str,
    limiter: L,
    ask: fn(Arc<L>) -> F,
    then: fn(Arc<L>) -> T,
) -> Contender<Trial, Sample>
where
    L: Send + Sync + 'static,
    F: Future<Output = bool> + Send + 'static,
    T: Future<Output = ()> + 'static,
{
    let (bench, limiter) = (Rc::clone(bench), Arc::new(limiter));
    Contender::new(role, name, move |trial: Trial| {
        // So that nobody works with what another has left behind.
        bench.server.clear();
        let shared = Arc::clone(&limiter);
        let (sample, seen) = bench.load(trial, move || ask(Arc::clone(&shared)));
        bench.runtime.block_on(then(Arc::clone(&limiter)));
        if seen.wrong > 0 {
            let wrong = format!("{} of {} answers are wrong", seen.wrong, seen.asked);
            assert!(role != Role::Ours, "{name}: {wrong} in {trial:?}");
            eprintln!("{name}: {wrong}");
        }
        sample
    })
}

/// INCR as fast as the server's own tool sends it: one connection, as many commands under way as there are callers.
pub(super) fn by_redis_benchmark(
    bench: &Rc<Bench>,
    name: &'static str,
) -> Contender<Trial, Sample> {
    let bench = Rc::clone(bench);
    Contender::new(Role::Floor, name, move |trial: Trial| {
        bench.server.clear();
        // About as long as the others take.
        let rate = if trial.callers == 1 {
            20_000.0
        } else {
            300_000.0
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "some thousands"
        )]
        let count = (rate * trial.span.as_secs_f64()) as u64;
        let before = bench.server.reset();
        let output = Command::new("redis-benchmark")
            .args(["-p", &bench.server.port().to_string(), "-c", "1", "--csv"])
            .args(["-P", &trial.callers.to_string(), "-n", &count.to_string()])
            .args(["incr", "counter"])
            .output();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        let text = text.unwrap_or_default();
        let cells: Vec<f64> = text
            .lines()
            .last()
            .unwrap_or_default()
            .split(',')
            .map(|cell| cell.trim_matches('"').parse().unwrap_or(f64::NAN))
            .collect();
        let cell = |index: usize| cells.get(index).copied().unwrap_or(f64::NAN);
        let done = bench.server.done();
        Sample {
            per_second: cell(1),
            p50: cell(4) * 1e3,
            p99: cell(6) * 1e3,
            trips: done.sent() as f64 / count as f64,
            server: (done.seconds - before.seconds) / count as f64 * 1e6,
            client: f64::NAN,
        }
    })
}
