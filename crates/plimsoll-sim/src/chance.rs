use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

/// The generators of a run. Each kind of chance has its own, so that what one limit makes of its traffic does not
/// change the traffic of the next.
pub(crate) fn generator(seed: u64, kind: Chance) -> Pcg64Mcg {
    Pcg64Mcg::seed_from_u64(seed.wrapping_add(kind as u64))
}

/// The same for each of several, of which the first has what one alone would have.
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
