//! What we set out to reach in Redis.

use super::contenders::{BORROWED, BUCKET, HOT, INCR, LEASE, PIPELINED};
use super::{Case, Results};
use crate::contender::Role;
use crate::targets::{Target, at_least};

impl Results {
    /// The targets that the cases which ran can tell about.
    pub(crate) fn targets(&self) -> Vec<Target> {
        let mut targets = Vec::new();
        if let Some(case) = self.cases.iter().find(|case| case.callers == 64) {
            for floor in [INCR, PIPELINED] {
                let what = format!("in Redis, 64 at once ÷ {floor}");
                let ratio = case.ratio(BUCKET, floor);
                targets.extend(ratio.map(|ratio| at_least(&what, ratio, 0.6, " ×")));
            }
            let borrowed = case.ratio(BORROWED, HOT);
            let what = "in Redis, 64 at once: borrowed ÷ unborrowed";
            targets.extend(borrowed.map(|ratio| at_least(what, ratio, 20.0, " ×")));
        }
        targets.extend(self.cases.iter().filter_map(round_trips));
        targets
    }
}

/// Giving a lease back is a round trip of its own, and no decision; what is borrowed takes less than one.
fn round_trips(case: &Case) -> Option<Target> {
    let ours = case
        .series
        .iter()
        .filter(|series| series.role == Role::Ours);
    let trips = ours
        .filter(|series| ![LEASE, BORROWED].contains(&series.name))
        .flat_map(|series| series.samples.iter().map(|sample| sample.trips));
    let trips: Vec<f64> = trips.collect();
    let (fewest, most) = (
        trips.iter().copied().reduce(f64::min)?,
        trips.iter().copied().reduce(f64::max)?,
    );
    Some(Target {
        what: format!("in Redis, {} at once: round trips", case.callers),
        wanted: "exactly 1".to_owned(),
        measured: format!("{fewest:.4} to {most:.4}"),
        met: (fewest - 1.0).abs() < 1e-9 && (most - 1.0).abs() < 1e-9,
    })
}
