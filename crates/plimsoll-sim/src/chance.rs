use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

/// Creates the random number generator for one use in a run. Each use has its own, so that the decisions of a limit do not change
/// its traffic.
pub(crate) fn generator(seed: u64, kind: Chance) -> Pcg64Mcg {
    Pcg64Mcg::seed_from_u64(seed.wrapping_add(kind as u64))
}

/// Creates the generator of one of several processes. The first has the generator that a single process would have.
pub(crate) fn generator_of(seed: u64, kind: Chance, index: usize) -> Pcg64Mcg {
    generator(seed.wrapping_add((index as u64) << 32), kind)
}

#[derive(Clone, Copy)]
pub(crate) enum Chance {
    Arrivals = 0,
    Service = 1000,
    Retries = 2000,
    Thinking = 3000,
    Classes = 4000,
    Failures = 5000,
    Routes = 6000,
    Processes = 7000,
}
