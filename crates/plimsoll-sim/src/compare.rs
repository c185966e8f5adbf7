use crate::run::run_watched;
use crate::summary::average;
use crate::threads;
use crate::{Checked, Contender, Run, Simulation, Summary};

/// Several limits on the same traffic, each with several seeds.
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

/// What came of a [`Comparison`].
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Compared {
    /// Limit by limit.
    pub limits: Vec<Fared>,
    checks: Vec<Checked>,
}

/// How one limit fared.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Fared {
    /// The name of the limit.
    pub limit: String,
    /// Whether the expectations apply to it.
    pub tested: bool,
    /// Phase by phase, the means over the seeds.
    pub phases: Vec<Summary>,
    /// Seed by seed.
    pub runs: Vec<Run>,
}

impl<'s> Comparison<'s> {
    /// Of the limit that the file is about, with seeds 1 to 3.
    pub fn of(simulation: &'s Simulation) -> Self {
        Self {
            simulation,
            tested: Vec::new(),
            others: Vec::new(),
            first_seed: 1,
            seeds: 3,
        }
    }

    /// Puts a limit in the place of that of the file; the expectations apply to it.
    pub fn test(mut self, contender: Contender) -> Self {
        self.tested.push(contender);
        self
    }

    /// Runs a limit for comparison only.
    pub fn beside(mut self, contender: Contender) -> Self {
        self.others.push(contender);
        self
    }

    /// The seed of the first run; 1 unless said.
    pub fn first_seed(mut self, seed: u64) -> Self {
        self.first_seed = seed;
        self
    }

    fn each_seed(&self) -> impl Iterator<Item = u64> + use<> {
        let first = self.first_seed;
        (0..self.seeds).map(move |more| first.wrapping_add(more))
    }

    /// Runs each limit with so many seeds, from the first on; at least one.
    pub fn seeds(mut self, seeds: u64) -> Self {
        self.seeds = seeds.max(1);
        self
    }

    /// The limits that are run, each once: those tested, those beside them, and the oracle if expectations compare
    /// with it.
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

    /// How many virtual seconds there are to run.
    #[must_use]
    pub fn total_seconds(&self) -> u64 {
        self.contenders().len() as u64 * self.seeds * self.simulation.seconds() as u64
    }

    /// Runs them all, on as many threads as the machine has. What comes does not depend on how many.
    #[must_use]
    pub fn run(&self) -> Compared {
        self.run_watched(&|_| {})
    }

    /// As [`run`](Self::run), and says now and then that some more virtual seconds are done.
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
        let fared = contenders.iter().map(|(contender, tested)| {
            let runs = runs.by_ref().take(crate::num::index(self.seeds)).collect();
            self.fared(contender, *tested, runs)
        });
        let limits: Vec<Fared> = fared.collect();
        Compared {
            checks: self.check(&limits),
            limits,
        }
    }

    fn fared(&self, contender: &Contender, tested: bool, runs: Vec<Run>) -> Fared {
        let phase = |index: usize| {
            let same: Vec<&Summary> = runs
                .iter()
                .filter_map(|run| run.phases.get(index))
                .collect();
            average(&same)
        };
        Fared {
            limit: contender.name().to_owned(),
            tested,
            phases: (0..self.simulation.phases.len())
                .filter_map(phase)
                .collect(),
            runs,
        }
    }

    fn check(&self, limits: &[Fared]) -> Vec<Checked> {
        let oracle = limits.iter().find(|fared| fared.limit == "oracle");
        let oracle = oracle.map(|fared| fared.phases.as_slice());
        let tested = limits.iter().filter(|fared| fared.tested);
        let checks = tested.flat_map(|fared| {
            let expectations = self.simulation.expectations.iter();
            expectations.filter_map(|wanted| wanted.check(&fared.limit, &fared.phases, oracle))
        });
        checks.collect()
    }
}

impl Fared {
    /// The least goodput that any seed had in a phase, and that seed. `None` if no seed had any.
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
    /// Every expectation, of every limit that it applies to.
    #[must_use]
    pub fn checks(&self) -> &[Checked] {
        &self.checks
    }
}
