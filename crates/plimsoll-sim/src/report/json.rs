use serde::Serialize;

use crate::class::CLASSES;
use crate::{Checked, Compared, RequestCounts, Run, Second, Simulation, Summary};

/// A comparison with all its runs, to be serialized as JSON. Made by [`json`].
#[derive(Debug, Serialize)]
pub struct JsonReport<'c> {
    name: &'c str,
    about: &'c str,
    duration_s: f64,
    deadline_s: f64,
    phases: Vec<Stretch<'c>>,
    /// The class of each entry in lists by class.
    classes: [&'static str; CLASSES.len()],
    limits: Vec<Limit<'c>>,
    checks: &'c [Checked],
}

#[derive(Debug, Serialize)]
struct Stretch<'c> {
    name: &'c str,
    from_s: f64,
    to_s: f64,
}

#[derive(Debug, Serialize)]
struct Limit<'c> {
    limit: &'c str,
    tested: bool,
    /// The means over the seeds.
    phases: &'c [Summary],
    runs: Vec<OneRun<'c>>,
}

#[derive(Debug, Serialize)]
struct OneRun<'c> {
    seed: u64,
    totals: RequestCounts,
    still_inside: u64,
    phases: &'c [Summary],
    seconds: Series,
}

/// One list for each quantity, with an entry for each second. It takes a tenth of the size of a list of maps, and can be plotted
/// directly.
#[derive(Debug, Serialize)]
struct Series {
    offered: Vec<u64>,
    good: Vec<u64>,
    late: Vec<u64>,
    rejected: Vec<u64>,
    failed: Vec<u64>,
    rejected_by_class: [Vec<u64>; CLASSES.len()],
    ideal: Vec<f64>,
    p50_ms: Vec<Option<f64>>,
    p99_ms: Vec<Option<f64>>,
    limit: Vec<Option<u64>>,
    in_flight: Vec<u32>,
    waiting: Vec<u32>,
}

/// The results of a comparison, to be serialized as JSON: every limit, run, phase and second, and the checked expectations.
///
/// ```
/// use plimsoll_sim::{Comparison, Contender, Simulation, json};
///
/// let simulation = Simulation::from_text("short.yaml", "
///     name: short
///     duration: 5s
///     rate: 100
///     workers: 10
///     service: 50ms
/// ")?;
/// let compared = Comparison::of(&simulation).test(Contender::none()).run();
/// let report = serde_json::to_value(json(&simulation, &compared))?;
/// assert_eq!(report["limits"][0]["runs"].as_array().map(Vec::len), Some(3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn json<'c>(simulation: &'c Simulation, compared: &'c Compared) -> JsonReport<'c> {
    let phases = simulation.phases().iter().map(|phase| {
        let (from_s, to_s) = phase.span();
        Stretch {
            name: phase.name(),
            from_s,
            to_s,
        }
    });
    let limits = compared.limits.iter().map(|result| Limit {
        limit: &result.limit,
        tested: result.tested,
        phases: &result.phases,
        runs: result.runs.iter().map(one_run).collect(),
    });
    JsonReport {
        name: simulation.name(),
        about: simulation.about(),
        duration_s: simulation.duration().as_secs_f64(),
        deadline_s: crate::num::seconds(simulation.deadline),
        phases: phases.collect(),
        classes: CLASSES.map(|(word, _)| word),
        limits: limits.collect(),
        checks: compared.checks(),
    }
}

fn one_run(run: &Run) -> OneRun<'_> {
    OneRun {
        seed: run.seed,
        totals: run.counts(),
        still_inside: run.inside,
        phases: &run.phases,
        seconds: series(&run.seconds),
    }
}

fn series(seconds: &[Second]) -> Series {
    fn each<T>(seconds: &[Second], what: impl Fn(&Second) -> T) -> Vec<T> {
        seconds.iter().map(what).collect()
    }
    Series {
        offered: each(seconds, |second| second.counts().offered),
        good: each(seconds, |second| second.counts().good),
        late: each(seconds, |second| second.counts().late),
        rejected: each(seconds, |second| second.counts().rejected),
        failed: each(seconds, |second| second.counts().failed),
        rejected_by_class: std::array::from_fn(|class| {
            each(seconds, |second| second.classes[class].rejected)
        }),
        ideal: each(seconds, |second| second.ideal),
        p50_ms: each(seconds, |second| second.p50_ms),
        p99_ms: each(seconds, |second| second.p99_ms),
        limit: each(seconds, |second| second.limit),
        in_flight: each(seconds, |second| second.in_flight),
        waiting: each(seconds, |second| second.waiting),
    }
}
