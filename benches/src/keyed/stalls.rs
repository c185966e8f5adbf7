//! The longest single calls: while a table grows, while it is swept, and while it is turned over.
//!
//! Every call is timed by the processor's counter. On a machine that others use, the longest are theirs: the loop
//! around nothing at all shows how long those are.

use std::thread;
use std::time::Duration;

use super::Plan;
use super::child::{self, warmed_up};
use super::contenders::{Limit, Limiter, OURS};
use super::floors::NOTHING;
use super::histogram::Histogram;
use super::keys::Key;
use super::peers::GOVERNOR;
use crate::asking::now;
use crate::contender::Role::{Floor, Ours, Peer};
use crate::contender::{Contender, Role};
use crate::report::{Series, Table};

const ENTRANTS: [(Role, &str); 4] = [
    (Ours, OURS),
    (Peer, GOVERNOR),
    (Peer, "rate-net"),
    (Floor, NOTHING),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// From no key to all.
    Grow,
    /// All keys have gone idle, and a hundredth is asked for.
    Sweep,
    /// All keys have gone idle, there is no room for more, and as many others come.
    TurnOver,
}

const PHASES: [Phase; 3] = [Phase::Grow, Phase::Sweep, Phase::TurnOver];

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Self::Grow => "grow",
            Self::Sweep => "sweep",
            Self::TurnOver => "turn-over",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Grow => "while the table grows",
            Self::Sweep => "while it is swept",
            Self::TurnOver => "while other keys take its place",
        }
    }
}

pub(crate) struct Stalls {
    pub(crate) phase: Phase,
    keys: usize,
    rows: Vec<Series<Histogram>>,
}

pub(super) fn run(plan: &Plan) -> Vec<Stalls> {
    let [keys, idle] = [plan.keys as u128, plan.idle.as_millis()].map(|number| number.to_string());
    let phases = PHASES.into_iter().map(|phase| {
        let contenders = ENTRANTS.map(|(role, name)| {
            let (keys, idle) = (keys.clone(), idle.clone());
            Contender::new(role, name, move |()| {
                let said = child::ask(&["stalls", phase.name(), name, &keys, &idle]);
                said.map_or_else(Histogram::default, |said| {
                    Histogram::read(&said).expect("a histogram written by this program")
                })
            })
        });
        let mut rows = Contender::in_turns(contenders.into(), &plan.few_rounds, ());
        for series in &mut rows {
            let mut all = Histogram::default();
            for histogram in &series.samples {
                all.merge(histogram);
            }
            series.samples = vec![all];
        }
        Stalls {
            phase,
            keys: plan.keys,
            rows,
        }
    });
    phases.collect()
}

/// `PHASE NAME KEYS IDLE`: times every call of a phase.
pub(super) fn child(args: &[&str]) -> Option<String> {
    let [phase, name, keys, idle] = args else {
        return None;
    };
    let phase = PHASES.into_iter().find(|one| one.name() == *phase)?;
    let keys: u64 = keys.parse().ok()?;
    let idle = Duration::from_millis(idle.parse().ok()?);
    let limit = Limit {
        burst: 1_000_000,
        every: idle,
        max_keys: usize::try_from(keys).ok()?,
        keys: usize::try_from(keys).ok()?,
    };
    let (entrant, _warm) = warmed_up::<u64>(name)?;
    let mut limiter = (entrant.make)(&limit);
    let mut times = Times::default();
    if phase == Phase::Grow {
        times.each(&*limiter, 0..keys);
        return Some(times.histogram.written());
    }
    for id in 0..keys {
        limiter.fill(&u64::of(id), 1);
    }
    sleep(idle + idle / 10);
    // Nobody who tidies would do so between two requests.
    thread::scope(|scope| {
        let limiter = &*limiter;
        let tidied = scope.spawn(|| {
            limiter.tidy();
            limiter.shrink();
        });
        if phase == Phase::TurnOver {
            times.each(limiter, keys..keys * 2);
            return;
        }
        let start = now();
        let more = || !tidied.is_finished() || !limiter.needs_tidying() && now() - start < idle;
        while more() {
            times.each(limiter, 0..keys / 100);
        }
    });
    Some(times.histogram.written())
}

#[expect(clippy::disallowed_methods, reason = "keys go idle by themselves")]
fn sleep(span: Duration) {
    thread::sleep(span);
}

#[derive(Default)]
struct Times {
    clock: quanta::Clock,
    histogram: Histogram,
    keys: Vec<u64>,
}

impl Times {
    /// Asks once for each id.
    fn each(&mut self, limiter: &dyn Limiter<u64>, ids: std::ops::Range<u64>) {
        let mut ids = ids.map(u64::of);
        loop {
            self.keys.clear();
            self.keys.extend(ids.by_ref().take(1024));
            if self.keys.is_empty() {
                return;
            }
            limiter.time_all(&self.keys, &self.clock, &mut self.histogram);
        }
    }
}

impl Stalls {
    /// Our 99.99th percentile and our longest call, in nanoseconds.
    pub(crate) fn ours(&self) -> Option<(u64, u64)> {
        let ours = self.rows.iter().find(|series| series.name == OURS)?;
        let times = ours.samples.first()?;
        Some((times.all_but_one_in(10_000), times.max()))
    }

    pub(crate) fn markdown(&self) -> String {
        let columns: Vec<(&str, &Histogram)> = self
            .rows
            .iter()
            .filter_map(|series| Some((series.name, series.samples.first()?)))
            .collect();
        let mut table = Table::new(&[""]);
        table
            .head
            .extend(columns.iter().map(|(name, _)| (*name).to_owned()));
        let mut line = |what: String, figure: &dyn Fn(&Histogram) -> String| {
            let mut row = vec![what];
            row.extend(columns.iter().map(|(_, times)| figure(times)));
            table.rows.push(row);
        };
        for (name, one_in) in [
            ("p50", 2),
            ("p99", 100),
            ("p99.9", 1000),
            ("p99.99", 10_000),
        ] {
            line(name.to_owned(), &|times| {
                micros(times.all_but_one_in(one_in))
            });
        }
        line("longest".to_owned(), &|times| micros(times.max()));
        let mut from = 0;
        for to in (3..34).map(|power| 1 << power) {
            if columns.iter().any(|(_, times)| times.between(from, to) > 0) {
                let what = format!("calls of {} to {}", micros(from), micros(to));
                line(what, &|times| times.between(from, to).to_string());
            }
            from = to;
        }
        format!(
            "### Keyed, {} u64 keys, single calls {}\n\n{}",
            self.keys,
            self.phase.title(),
            table.markdown()
        )
    }
}

fn micros(nanos: u64) -> String {
    if nanos < 10_000 {
        format!("{:.3} µs", nanos as f64 / 1e3)
    } else {
        format!("{:.0} µs", nanos as f64 / 1e3)
    }
}
