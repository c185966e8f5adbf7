//! The decisions of a limit, with their reasons.

use std::fmt::Write as _;
use std::time::Duration;

use plimsoll::adaptive::Insight;

use crate::num::seconds;
use crate::run::limits;
use crate::simulate::simulate_heard;
use crate::units::millis;
use crate::{Contender, Simulation};

/// A decision of an adaptive limit, from [`explain`].
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct Decision {
    /// The time of the decision, from the start.
    pub at: Duration,
    /// The process of the limit, counted from 0.
    pub process: usize,
    /// The state of the limit after the decision, with the reason.
    pub insight: Insight,
}

/// Runs a simulation, and lists each decision of the limit that differs from the one before, in its reason or in the resulting
/// limit. [`explained`] makes a table of them.
///
/// ```
/// use plimsoll_sim::{Contender, Simulation, explain};
///
/// let simulation = Simulation::from_text("overload.yaml", "
///     name: overload
///     duration: 10s
///     rate: 300
///     workers: 10
///     service: 50ms
/// ")?;
/// let decisions = explain(&simulation, &Contender::named("verdict")?, 1);
/// assert_eq!(decisions[0].insight.decision, "start");
/// assert!(decisions.iter().any(|decision| decision.insight.limit != 20));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn explain(simulation: &Simulation, contender: &Contender, seed: u64) -> Vec<Decision> {
    let mut decisions: Vec<Decision> = Vec::new();
    let mut last: Vec<Option<(u64, &'static str)>> = vec![None; simulation.processes.len()];
    let mut listener = |now, process: usize, insight: Insight| {
        let found = Some((insight.limit, insight.decision));
        if last[process] != found {
            last[process] = found;
            let at = Duration::from_nanos(now);
            decisions.push(Decision {
                at,
                process,
                insight,
            });
        }
    };
    let limit = limits(simulation, contender);
    let name = contender.name();
    let _ = simulate_heard(
        simulation,
        name,
        &limit,
        seed,
        &mut |_| {},
        Some(&mut listener),
    );
    decisions
}

/// Formats the decisions of [`explain`] as a table: time, process if there are several, limit, baseline and measured latency, and the
/// reason. `limit` is the name of the limit.
#[must_use]
pub fn explained(
    simulation: &Simulation,
    limit: &str,
    seed: u64,
    decisions: &[Decision],
) -> String {
    let mut out = format!("{}, {limit}, seed {seed}: decisions\n", simulation.name());
    let several = simulation.processes.len() > 1;
    let process = if several { "  process" } else { "" };
    let _ = writeln!(
        out,
        "{:>10}{process}  {:>7}  {:>9}  {:>9}  decision",
        "at", "limit", "baseline", "latency"
    );
    let latency = |span: Option<Duration>| {
        span.map_or_else(|| "-".to_owned(), |span| millis(span.as_secs_f64() * 1e3))
    };
    for Decision {
        at,
        process,
        insight,
    } in decisions
    {
        let nanos = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
        let at = format!("{:.2} s", seconds(nanos));
        let process = if several {
            format!("  {process:>7}")
        } else {
            String::new()
        };
        let limit = match insight.limit {
            u64::MAX => "-".to_owned(),
            limit => limit.to_string(),
        };
        let _ = writeln!(
            out,
            "{at:>10}{process}  {limit:>7}  {:>9}  {:>9}  {}",
            latency(insight.baseline),
            latency(insight.signal),
            insight.decision
        );
    }
    out
}
