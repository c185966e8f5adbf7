//! Passes samples to a limit algorithm, and checks its limit after each.

use plimsoll::Moment;
use plimsoll::adaptive::{LatencyGradient, Limit, Load, Sample};

use plimsoll_spec::InvalidSpec;

use crate::report::{Failure, Mismatch, ScenarioStatus};
use crate::spec::{self, Finished, Samples, Tick, Trace};

/// Runs a trace up to the first row that does not meet its expectations.
pub(crate) fn run(trace: &Trace) -> Result<ScenarioStatus, InvalidSpec> {
    let algorithm = &trace.limit.spec;
    let failure = match (&trace.samples, algorithm.latency_gradient()) {
        (Samples::Plain(rows), _) => {
            let mut limit = algorithm.build()?;
            first_failure(rows, |row| sample(&mut *limit, row))
        }
        (Samples::LatencyGradient(rows), Some(limit)) => {
            let (mut limit, mut now) = (limit?, Moment::ORIGIN);
            first_failure(rows, |row| step(&mut limit, &mut now, row))
        }
        // Unreachable: only that algorithm has such rows.
        (Samples::LatencyGradient(_), None) => {
            return Ok(ScenarioStatus::NotSupported("latency_gradient"));
        }
    };
    Ok(failure.map_or(ScenarioStatus::Passed, ScenarioStatus::Failed))
}

fn first_failure<R>(
    rows: &[(usize, R)],
    mut feed: impl FnMut(&R) -> Vec<Mismatch>,
) -> Option<Failure> {
    rows.iter().enumerate().find_map(|(index, (line, row))| {
        let mismatches = feed(row);
        (!mismatches.is_empty()).then(|| Failure::new(index + 1, *line, mismatches))
    })
}

fn sample(limit: &mut dyn Limit, row: &spec::Sample) -> Vec<Mismatch> {
    let (start, end) = (
        Moment::from_nanos(row.start_ns),
        Moment::from_nanos(row.end_ns),
    );
    limit.sample(&Sample::new(start, end, row.in_flight).overload(row.dropped));
    differing([("limit", row.limit_after, limit.limit())])
}

/// Passes a row of a `latency_gradient` trace. Its requests all begin and end at the same time, because the algorithm uses only
/// their durations.
fn step(limit: &mut LatencyGradient, now: &mut Moment, row: &Tick) -> Vec<Mismatch> {
    match row {
        Tick::Sample { duration_ms, after } => {
            let end = Moment::from_nanos(nanos(*duration_ms));
            limit.sample(&Sample::new(Moment::ORIGIN, end, 1));
            differing(finished(limit, after))
        }
        Tick::Tick {
            in_flight,
            queued,
            limit_after,
            queue_limit_after,
            after,
            samples_after,
        } => {
            limit.tick(Load::new(*now, *in_flight, *queued));
            *now = now.plus(limit.tick_every().unwrap_or_default());
            let queue = limit.queue_bound().unwrap_or_default();
            let [avg, min] = finished(limit, after);
            differing([
                ("limit", *limit_after, limit.limit()),
                ("queue limit", *queue_limit_after, queue),
                avg,
                min,
                ("samples", *samples_after, limit.samples()),
            ])
        }
    }
}

/// The name of a value, the expected value, and the actual value.
type Seen = (&'static str, u64, u64);

fn finished(limit: &LatencyGradient, after: &Finished) -> [Seen; 2] {
    const NONE: u64 = 2_147_483_647;
    let least = limit.least_average_ms().unwrap_or(NONE);
    [
        ("avg", after.avg, limit.average_ms()),
        ("min", after.min, least),
    ]
}

fn differing(seen: impl IntoIterator<Item = Seen>) -> Vec<Mismatch> {
    let differs =
        |(what, wanted, got): Seen| (wanted != got).then(|| Mismatch::of(what, wanted, got));
    seen.into_iter().filter_map(differs).collect()
}

/// Whole nanoseconds; the numbers of a trace have at most four digits after the point.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "such a cast saturates, and no latency is negative"
)]
fn nanos(millis: f64) -> u64 {
    (millis * 1e6).round() as u64
}
