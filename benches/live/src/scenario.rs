//! What happens: live, and in the simulator.

use std::time::Duration;

use plimsoll_benches_sockets::Answer;
use plimsoll_sim::{Comparison, Simulation};

/// A pool, and what becomes of it in the middle third.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// Requests a second.
    pub(crate) rate: u64,
    pub(crate) usual: Pool,
    pub(crate) middle: Pool,
}

/// Workers, and how long each takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pool {
    pub(crate) workers: u64,
    pub(crate) millis: u64,
}

pub(crate) const SCENARIOS: [Scenario; 3] = [
    Scenario {
        name: "slow",
        about: "a pool of 10 at 50, 250 and 50 ms; 600 a second",
        rate: 600,
        usual: Pool {
            workers: 10,
            millis: 50,
        },
        middle: Pool {
            workers: 10,
            millis: 250,
        },
    },
    Scenario {
        name: "lost",
        about: "a pool of 40, 10 and 40 at 50 ms; 640 a second",
        rate: 640,
        usual: Pool {
            workers: 40,
            millis: 50,
        },
        middle: Pool {
            workers: 10,
            millis: 50,
        },
    },
    Scenario {
        name: "dependency",
        about: "a pool of 1000 at 20, 200 and 20 ms; 400 a second, nothing is full",
        rate: 400,
        usual: Pool {
            workers: 1000,
            millis: 20,
        },
        middle: Pool {
            workers: 1000,
            millis: 200,
        },
    },
];

impl Pool {
    const fn per_second(self) -> u64 {
        self.workers * 1000 / self.millis
    }
}

impl Scenario {
    /// The share of what was possible in each third; answers count when they come.
    pub(crate) fn goodput(&self, answers: &[Answer], seconds: u64) -> [f64; 3] {
        let good = answers.iter().filter(|it| it.status == Some(200));
        let good: Vec<Duration> = good.map(|it| it.at + it.latency).collect();
        [self.usual, self.middle, self.usual].map({
            let mut third = 0;
            move |pool| {
                let from = Duration::from_secs(third * seconds);
                third += 1;
                let to = Duration::from_secs(third * seconds);
                let good = good.iter().filter(|at| (from..to).contains(*at)).count();
                let ideal = pool.per_second().min(self.rate) * seconds;
                good as f64 / ideal as f64
            }
        })
    }

    /// The same in virtual time, with this at the gate: the mean of three seeds.
    pub(crate) fn simulated(&self, gate: &str, seconds: u64) -> [f64; 3] {
        let (one, two, three) = (seconds, 2 * seconds, 3 * seconds);
        let Self {
            name,
            rate,
            usual,
            middle,
            ..
        } = self;
        let slow_down = middle.millis as f64 / usual.millis as f64;
        let text = format!(
            "name: {name}
duration: {three}s
rate: {rate}
workers: [{{ at: 0, value: {} }}, {{ at: {one}s, value: {} }}, {{ at: {two}s, value: {} }}]
service: {}ms
slow_down: [{{ at: 0, value: 1 }}, {{ at: {one}s, value: {slow_down} }}, {{ at: {two}s, value: 1 }}]
late_work: dropped
phases: [{{ name: first, from: 0, to: {one}s }}, {{ name: middle, from: {one}s, to: {two}s }}, {{ name: last, from: {two}s, to: {three}s }}]
{gate}
",
            usual.workers, middle.workers, usual.workers, usual.millis
        );
        let simulation = match Simulation::from_text("live", &text) {
            Ok(simulation) => simulation,
            Err(error) => panic!("{error}\n{text}"),
        };
        let compared = Comparison::of(&simulation)
            .test(simulation.limit().clone())
            .run();
        let mut shares = compared.limits[0].phases.iter().map(|it| it.goodput);
        [(); 3].map(|()| shares.next().flatten().unwrap_or(f64::NAN))
    }
}
