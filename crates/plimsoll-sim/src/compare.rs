use crate::run::run_watched;
use crate::summary::average;
use crate::threads;
use crate::{Checked, Contender, Run, Simulation, Summary};

/// A comparison of several limits on the same traffic, each with several seeds.
///
/// Without [`test`](Self::test), the limit of the file is tested.
///
/// ```
/// use plimsoll_sim::{Comparison, Contender, Simulation};
///
/// let simulation = Simulation::from_text("overload.yaml", "
///     name: overload
///     duration: 20s
///     rate: 300
///     workers: 10
///     service: { exponential: { mean: 50ms } }
///     expect:
///       all: { goodput: '>= 95%' }
/// ")?;
/// let fixed = Comparison::of(&simulation).test(Contender::fixed(14)).run();
/// assert!(fixed.checks().iter().all(|check| check.met));
/// let none = Comparison::of(&simulation).test(Contender::none()).run();
/// assert!(!none.checks().iter().all(|check| check.met));
/// # Ok::<(), plimsoll_spec::FileError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Comparison<'s> {
    simulation: &'s Simulation,
    tested: Vec<Contender>,
    others: Vec<Contender>,
    first_seed: u64,
    seeds: u64,
}

/// The results of a [`Comparison`].
///
/// [`text`](crate::text) makes a table of them, [`json`](crate::json) a JSON document, and [`plot_file`](crate::plot_file) a picture.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Compared {
    /// The results of each limit: tested limits first, then those for comparison.
    pub limits: Vec<LimitResult>,
    checks: Vec<Checked>,
}

/// Results of one limit over all seeds of a [`Comparison`].
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct LimitResult {
    /// The name of the limit.
    pub limit: String,
    /// Whether the expectations of the file apply to the limit.
    pub tested: bool,
    /// The summary of each phase, as the mean over the seeds.
    pub phases: Vec<Summary>,
    /// The run of each seed.
    pub runs: Vec<Run>,
}

impl<'s> Comparison<'s> {
    /// A comparison of the limit of the file, with seeds 1 to 3.
    pub fn of(simulation: &'s Simulation) -> Self {
        Self {
            simulation,
            tested: Vec::new(),
            others: Vec::new(),
            first_seed: 1,
            seeds: 3,
        }
    }

    /// Adds a limit to which the expectations apply. It replaces the limit of the file; several are tested one after the other.
    pub fn test(mut self, contender: Contender) -> Self {
        self.tested.push(contender);
        self
    }

    /// Adds a limit for comparison only: no expectations apply to it. A limit with the name of another is run once.
    pub fn beside(mut self, contender: Contender) -> Self {
        self.others.push(contender);
        self
    }

    /// Sets the seed of the first run. Default: 1.
    pub fn first_seed(mut self, seed: u64) -> Self {
        self.first_seed = seed;
        self
    }

    fn each_seed(&self) -> impl Iterator<Item = u64> + use<> {
        let first = self.first_seed;
        (0..self.seeds).map(move |more| first.wrapping_add(more))
    }

    /// Sets the number of seeds, from the first on. Default: 3. At least 1.
    pub fn seeds(mut self, seeds: u64) -> Self {
        self.seeds = seeds.max(1);
        self
    }

    /// The limits that are run, each once: the tested ones, the others, and the oracle if expectations compare with it.
    fn contenders(&self) -> Vec<(Contender, bool)> {
        let own = [self.simulation.limit().clone()];
        let tested = if self.tested.is_empty() {
            &own[..]
        } else {
            &self.tested
        };
        let mut expectations = self.simulation.expectations.iter();
        let oracle = expectations.any(|expectation| expectation.metric.needs_oracle());
        let oracle = oracle.then(Contender::oracle);
        let mut all: Vec<(Contender, bool)> = Vec::new();
        let tested = tested.iter().map(|contender| (contender, true));
        let others = self.others.iter().chain(&oracle);
        for (contender, tested) in tested.chain(others.map(|contender| (contender, false))) {
            if all
                .iter()
                .all(|(known, _)| known.name() != contender.name())
            {
                all.push((contender.clone(), tested));
            }
        }
        all
    }

    /// The number of virtual seconds of all runs together, for a progress display. The search of the oracle is not counted.
    #[must_use]
    pub fn total_seconds(&self) -> u64 {
        self.contenders().len() as u64 * self.seeds * self.simulation.seconds() as u64
    }

    /// Runs every limit with every seed, on as many threads as the machine has. The results do not depend on the number of threads.
    #[must_use]
    pub fn run(&self) -> Compared {
        self.run_watched(&|_| {})
    }

    /// [`run`](Self::run) with progress: calls `watch` now and then, from several threads, with the number of virtual seconds done
    /// since its last call in the same run.
    #[must_use]
    pub fn run_watched(&self, watch: &(dyn Fn(u64) + Sync)) -> Compared {
        let contenders = self.contenders();
        let jobs: Vec<(&Contender, u64)> = contenders
            .iter()
            .flat_map(|(contender, _)| self.each_seed().map(move |seed| (contender, seed)))
            .collect();
        let runs = threads::each(&jobs, |(contender, seed)| {
            let mut before = 0;
            run_watched(self.simulation, contender, *seed, &mut |passed| {
                watch((passed - before) as u64);
                before = passed;
            })
        });
        let mut runs = runs.into_iter();
        let results = contenders.iter().map(|(contender, tested)| {
            let runs = runs.by_ref().take(crate::num::index(self.seeds)).collect();
            self.result_of(contender, *tested, runs)
        });
        let limits: Vec<LimitResult> = results.collect();
        Compared {
            checks: self.check(&limits),
            limits,
        }
    }

    fn result_of(&self, contender: &Contender, tested: bool, runs: Vec<Run>) -> LimitResult {
        let phase = |index: usize| {
            let same: Vec<&Summary> = runs
                .iter()
                .filter_map(|run| run.phases.get(index))
                .collect();
            average(&same)
        };
        LimitResult {
            limit: contender.name().to_owned(),
            tested,
            phases: (0..self.simulation.phases.len())
                .filter_map(phase)
                .collect(),
            runs,
        }
    }

    fn check(&self, limits: &[LimitResult]) -> Vec<Checked> {
        let oracle = limits.iter().find(|result| result.limit == "oracle");
        let oracle = oracle.map(|result| result.phases.as_slice());
        let tested = limits.iter().filter(|result| result.tested);
        let checks = tested.flat_map(|result| {
            let expectations = self.simulation.expectations.iter();
            expectations.filter_map(|wanted| wanted.check(&result.limit, &result.phases, oracle))
        });
        checks.collect()
    }
}

impl LimitResult {
    /// The least goodput of any seed in a phase, and that seed. `None` if no seed has a goodput in the phase.
    #[must_use]
    pub fn worst(&self, phase: usize) -> Option<(f64, u64)> {
        let each = self.runs.iter().filter_map(|run| {
            let goodput = run.phases.get(phase)?.goodput?;
            Some((goodput, run.seed))
        });
        each.min_by(|a, b| a.0.total_cmp(&b.0))
    }
}

impl Compared {
    /// Every expectation of the file, checked for every tested limit. Empty if the file has none.
    #[must_use]
    pub fn checks(&self) -> &[Checked] {
        &self.checks
    }
}
