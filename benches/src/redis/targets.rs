//! What we set out to reach in Redis.

use super::contenders::{BORROWED, BUCKET, HOT, IN_TURN, INCR, LEASE, PIPELINED};
use super::{Case, Results};
use crate::contender::Role;
use crate::targets::{Target, at_least};

impl Results {
    /// The targets that the cases which ran can tell about.
    pub(crate) fn targets(&self) -> Vec<Target> {
        let mut targets = Vec::new();
        if let Some(case) = self.cases.iter().find(|case| case.callers == 64) {
            for (floor, wanted) in [(INCR, 1.0), (PIPELINED, 0.6)] {
                let what = format!("in Redis, 64 at once ÷ {floor}");
                let ratio = case.ratio(BUCKET, floor);
                targets.extend(ratio.map(|ratio| at_least(&what, ratio, wanted, " ×")));
            }
            let borrowed = case.ratio(BORROWED, HOT);
            let what = "in Redis, 64 at once: borrowed ÷ unborrowed";
            targets.extend(borrowed.map(|ratio| at_least(what, ratio, 20.0, " ×")));
        }
        targets.extend(self.cases.iter().filter_map(round_trips));
        targets
    }
}

/// Giving a lease back is a round trip of its own, and no decision. Callers that wait share one.
fn round_trips(case: &Case) -> Option<Target> {
    let ours = case
        .series
        .iter()
        .filter(|series| series.role == Role::Ours);
    let trips = ours
        .filter(|series| ![LEASE, BORROWED, IN_TURN].contains(&series.name))
        .flat_map(|series| series.samples.iter().map(|sample| sample.trips));
    let trips: Vec<f64> = trips.collect();
    let most = trips.iter().copied().reduce(f64::max)?;
    Some(Target {
        what: format!("in Redis, {} at once: round trips", case.callers),
        wanted: "at most 1".to_owned(),
        measured: format!("{most:.4}"),
        met: most < 1.0 + 1e-9,
    })
}
