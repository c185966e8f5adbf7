//! Processes that share a limit over a network.

mod assigned;
mod borrowed;
mod model;
mod outcome;
mod process;
mod read;
mod report;

pub use model::Fleet;
pub use outcome::FleetOutcome;
pub use report::{FleetReport, fleet_text};

use crate::threads;
use model::{METRICS, Sharing};

/// The names of the metrics that a fleet may have expectations of.
pub(crate) const WORDS: [&str; METRICS.len()] = {
    let mut words = [""; METRICS.len()];
    let mut at = 0;
    while at < words.len() {
        words[at] = METRICS[at].0;
        at += 1;
    }
    words
};

impl Fleet {
    /// Runs the fleet with a seed, once for each number of processes in the file. The same seed gives the same outcomes, on any
    /// machine.
    #[must_use]
    pub fn run(&self, seed: u64) -> Vec<FleetOutcome> {
        let each = self.processes.iter();
        each.map(|processes| self.run_one(*processes, seed))
            .collect()
    }

    fn run_one(&self, processes: u32, seed: u64) -> FleetOutcome {
        let tally = match self.sharing {
            Sharing::Borrowed { .. } => borrowed::run(self, processes, seed),
            Sharing::Assigned { admit } => assigned::run(self, processes, admit, seed),
        };
        tally.outcome(self, seed, processes)
    }

    /// Runs the fleet with `seeds` seeds (at least one), from `first_seed` on, and checks the expectations of the file. Runs are
    /// spread over all processors; the report does not depend on how many there are.
    ///
    /// ```
    /// use plimsoll_sim::{Fleet, fleet_text};
    ///
    /// let fleet = Fleet::from_text("fleet.yaml", "
    ///     name: proxies
    ///     duration: 60s
    ///     fleet: { processes: [2, 8], sharing: assigned, rate: 200 }
    ///     expect: { above: '<= 100%' }
    /// ")?;
    /// let report = fleet.report(1, 2);
    /// assert_eq!(report.outcomes.len(), 4);
    /// assert!(report.checks.iter().all(|check| check.met), "{}", fleet_text(&report));
    /// # Ok::<(), plimsoll_spec::FileError>(())
    /// ```
    #[must_use]
    pub fn report(&self, first_seed: u64, seeds: u64) -> FleetReport {
        let numbers = self.processes.iter();
        let jobs: Vec<(u32, u64)> = numbers
            .flat_map(|processes| {
                (0..seeds.max(1)).map(move |more| (*processes, first_seed.wrapping_add(more)))
            })
            .collect();
        let outcomes = threads::each(&jobs, |(processes, seed)| self.run_one(*processes, *seed));
        FleetReport::new(self, outcomes)
    }
}
