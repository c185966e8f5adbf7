//! 64 tasks that wait for one rate, over and over.
//!
//! The bucket starts empty and holds 10 ms of the rate. Each task asks again as soon as it is served, so
//! the queue is always 64 long, and a fair limiter lets everybody wait for 64 ÷ rate.

mod by_hand;

use std::future::Future;
use std::num::NonZeroU32;
use std::time::Duration;

use plimsoll::{Gate, Queue, TokenBucket};
use tokio::runtime::Builder;

use self::by_hand::ByHand;
use crate::asking::{now, process_time};
use crate::contender::Role::{Floor, Ours, Peer};
use crate::contender::{Contender, Role, Rounds};
use crate::report::{Series, Table, marked, quantile};

pub(crate) const OURS: &str = "plimsoll";
const RATES: [u32; 3] = [10_000, 100_000, 1_000_000];

const TASKS: u32 = 64;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Trial {
    pub(crate) rate: u32,
    pub(crate) span: Duration,
}

/// How waiting went for all tasks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waited {
    /// The rate reached, over the rate set.
    pub(crate) reached: f64,
    /// Waits, in microseconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// The 99th percentile over what a fair queue takes.
    pub(crate) p99_over_queue: f64,
    /// Grants of the task that had the fewest and the most, over the mean.
    pub(crate) fewest: f64,
    pub(crate) most: f64,
    /// Processor time of the whole process for each grant, in microseconds.
    pub(crate) cpu: f64,
}

pub(crate) fn contenders() -> Vec<Contender<Trial, Waited>> {
    vec![
        waited_for(
            Ours,
            OURS,
            |rate, burst| {
                let bucket = TokenBucket::per_second(rate.into()).burst(burst.into());
                Gate::builder(bucket.initial(0))
                    .queue(Queue::fifo(u32::MAX.into()))
                    .build()
            },
            |gate| async {
                let _permit = gate.acquire(1).await.expect("room in the queue");
            },
        ),
        waited_for(
            Peer,
            "governor",
            |rate, burst| {
                let [rate, burst] = [rate, burst].map(|n| NonZeroU32::new(n).expect("not zero"));
                let quota = governor::Quota::per_second(rate).allow_burst(burst);
                let limiter = governor::RateLimiter::direct(quota);
                assert!(
                    matches!(limiter.check_n(burst), Ok(Ok(()))),
                    "a full bucket"
                );
                limiter
            },
            |limiter| limiter.until_ready(),
        ),
        waited_for(
            Peer,
            "leaky-bucket, refilled every 1 ms",
            |rate, burst| leaky_bucket(rate, burst, 1),
            |limiter| limiter.acquire(1),
        ),
        waited_for(
            Peer,
            "leaky-bucket, refilled every 10 ms",
            |rate, burst| leaky_bucket(rate, burst, 10),
            |limiter| limiter.acquire(1),
        ),
        waited_for(
            Peer,
            "rate-net",
            |rate, burst| {
                let quota = rate_net::Quota::per_second(rate).with_burst(burst);
                let limiter = rate_net::DirectLimiter::with_quota(quota);
                assert!(limiter.check_n(burst).is_allow(), "a full bucket");
                limiter
            },
            |limiter| async { limiter.try_until_ready().await.expect("one fits") },
        ),
        waited_for(
            Peer,
            "throttle-net",
            |rate, burst| {
                let builder = throttle_net::Throttle::builder().per_second(rate);
                builder.burst(burst).initial(0).build()
            },
            |limiter| async { limiter.acquire().await.expect("one fits") },
        ),
        waited_for(
            Peer,
            "async-rate-limiter",
            |rate, burst| {
                let limiter = async_rate_limiter::RateLimiter::new(rate as usize);
                limiter.burst(burst as usize);
                limiter
            },
            |limiter| limiter.acquire(),
        ),
        waited_for(
            Floor,
            "a queue by hand, a quarter of it served at once by a thread",
            |rate, _burst| ByHand::new(rate, TASKS),
            ByHand::wait,
        ),
    ]
}

fn leaky_bucket(rate: u32, burst: u32, millis: u32) -> leaky_bucket::RateLimiter {
    leaky_bucket::RateLimiter::builder()
        .max(burst as usize)
        .initial(0)
        .refill((rate / 1000 * millis) as usize)
        .interval(Duration::from_millis(u64::from(millis)))
        .build()
}

/// A limiter that `make` builds from a rate and a burst, on which `wait` waits for one.
fn waited_for<L, F>(
    role: Role,
    name: &'static str,
    make: impl Fn(u32, u32) -> L + 'static,
    wait: impl Fn(&'static L) -> F + Copy + Send + 'static,
) -> Contender<Trial, Waited>
where
    L: Sync + 'static,
    F: Future<Output = ()> + Send,
{
    Contender::new(role, name, move |Trial { rate, span }| {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_time()
            .build()
            .expect("a runtime");
        let burst = rate / 100;
        let room = (rate / TASKS * 2) as usize * usize::try_from(span.as_secs() + 1).unwrap_or(1);
        let cpu = process_time();
        let deadline = now() + span;
        let clock = quanta::Clock::new();
        let start = clock.now();
        let end = start + span;
        // Tasks outlive every borrow; a limiter a round is not worth counting references.
        let limiter: &'static L = Box::leak(Box::new(make(rate, burst)));
        let (waits, cpu) = runtime.block_on(async {
            let tasks: Vec<_> = (0..TASKS)
                .map(|_| {
                    let clock = clock.clone();
                    tokio::spawn(async move {
                        let mut waits = Vec::with_capacity(room);
                        let mut asked = clock.now();
                        loop {
                            wait(limiter).await;
                            let served = clock.now();
                            if served > end {
                                return waits;
                            }
                            waits.push(served - asked);
                            asked = served;
                        }
                    })
                })
                .collect();
            tokio::time::sleep_until(deadline.into()).await;
            let cpu = process_time() - cpu;
            let mut waits = Vec::new();
            for task in tasks {
                waits.push(task.await.expect("a task that does not panic"));
            }
            (waits, cpu)
        });
        let waited = summary(rate, span, &waits, cpu);
        let bound = f64::from(rate) * span.as_secs_f64() + f64::from(burst);
        let granted = waits.iter().map(Vec::len).sum::<usize>() as f64;
        assert!(
            granted <= bound || role != Ours,
            "{name}: {granted} grants, above the {bound} of rate and burst"
        );
        waited
    })
}

fn summary(rate: u32, span: Duration, waits: &[Vec<Duration>], cpu: Duration) -> Waited {
    let counts = || waits.iter().map(|waits| waits.len() as f64);
    let granted: f64 = counts().sum();
    let mean = granted / f64::from(TASKS);
    let all: Vec<f64> = waits.iter().flatten().map(Duration::as_secs_f64).collect();
    let p99 = quantile(&all, 0.99);
    let fair = f64::from(TASKS) / f64::from(rate);
    Waited {
        reached: granted / (f64::from(rate) * span.as_secs_f64()),
        p50: quantile(&all, 0.5) * 1e6,
        p99: p99 * 1e6,
        p99_over_queue: p99 / fair,
        fewest: counts().fold(f64::INFINITY, f64::min) / mean,
        most: counts().fold(0.0, f64::max) / mean,
        cpu: cpu.as_nanos() as f64 / 1e3 / granted,
    }
}

/// Runs every rate.
pub(crate) fn run(rounds: &Rounds, span: Duration) -> Vec<(u32, Vec<Series<Waited>>)> {
    let run = |rate| {
        let trial = Trial { rate, span };
        (rate, Contender::in_turns(contenders(), rounds, trial))
    };
    RATES.into_iter().map(run).collect()
}

/// The results of one rate.
pub(crate) fn markdown(rate: u32, series: &[Series<Waited>]) -> String {
    let head = [
        "",
        "reached ÷ rate",
        "p50, µs",
        "p99, µs",
        "p99 ÷ (64 ÷ rate)",
        "fewest – most grants of a task ÷ mean",
        "processor time a grant, µs",
    ];
    let mut table = Table::new(&head);
    for series in series {
        let median = |figure: fn(&Waited) -> f64| series.each(figure).median();
        table.rows.push(vec![
            marked(series),
            format!("{:.4}", median(|waited| waited.reached)),
            format!("{:.0}", median(|waited| waited.p50)),
            format!("{:.0}", median(|waited| waited.p99)),
            format!("{:.2}", median(|waited| waited.p99_over_queue)),
            format!(
                "{:.3} – {:.3}",
                median(|waited| waited.fewest),
                median(|waited| waited.most)
            ),
            format!("{:.2}", median(|waited| waited.cpu)),
        ]);
    }
    format!("### Waiting, 64 tasks at {rate}/s\n\n{}", table.markdown())
}
