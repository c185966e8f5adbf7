//! The oracle: a limit that knows the server. It is the best fixed limit of each phase, found by a search.
//!
//! The limit is a multiple of the number of requests inside a full server without waiters ([`Fluid::inside`]), so it follows
//! every change of the workers at once. The search runs the whole simulation with one multiple after the other. Each phase keeps
//! its best multiple: the smallest whose goodput is nearly the highest. While the largest multiple is the best of a phase, twice
//! that multiple is tried. Then the search tries the midpoints between the best multiple of each phase and its neighbours.
//!
//! [`Fluid::inside`]: crate::fluid::Fluid::inside

use std::time::Duration;

use plimsoll::adaptive::{Limit, Load, Sample};

use crate::fluid;
use crate::num::{NANOS, whole};
use crate::phase::Phase;
use crate::simulate::simulate;
use crate::simulation::Simulation;
use crate::threads;

/// The seed of the search. It differs from the seeds that users choose.
const SEED: u64 = u64::MAX / 3;
/// The fraction by which a goodput may be lower than the highest and still count as equal.
const AS_GOOD: f64 = 0.002;
/// The number of rounds in which midpoints are tried.
const ROUNDS: usize = 2;
/// The maximum number of times that the largest multiple is doubled.
const MOST_DOUBLINGS: usize = 12;

/// The limit of one process.
pub(crate) fn limit(simulation: &Simulation, process: usize) -> Box<dyn Limit> {
    let multiples = simulation.best.get_or_init(|| search(simulation));
    Box::new(Oracle::new(simulation, multiples, process))
}

/// The first multiples to try, for a server that holds `inside` requests.
fn first(inside: f64) -> Vec<f64> {
    let few = (1..=8)
        .map(f64::from)
        .filter(|limit| *limit < 2.0 * inside + 8.0);
    let parts = [0.5, 0.75, 0.9, 1.0, 1.05, 1.1];
    let more = [
        (1.2, 1.0),
        (1.4, 2.0),
        (1.7, 3.0),
        (2.5, 4.0),
        (4.0, 6.0),
        (8.0, 10.0),
    ];
    let all = parts.iter().map(|part| part * inside);
    let all = all.chain(more.iter().map(|(part, more)| part * inside + more));
    let few = few.filter(|_| inside < 8.0);
    let mut all: Vec<f64> = all.chain(few).map(|limit| limit.round().max(1.0)).collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    all.iter().map(|limit| limit / inside).collect()
}

fn search(simulation: &Simulation) -> Vec<f64> {
    let phases = simulation.phases.len();
    let inside = fluid::at(simulation, simulation.phases[0].from * NANOS).inside();
    if !(inside.is_finite() && inside >= 1.0) {
        return vec![1.2; phases];
    }
    // For each phase, the multiples that were tried, with their goodput.
    let mut tried: Vec<Vec<(f64, f64)>> = vec![Vec::new(); phases];
    let next: Vec<Vec<f64>> = first(inside)
        .into_iter()
        .map(|multiple| vec![multiple; phases])
        .collect();
    try_all(simulation, &next, &mut tried);
    // The best limit for spikes lets a whole spike wait: many times the number inside.
    for _ in 0..MOST_DOUBLINGS {
        if tried.iter().all(|tried| best(tried) + 1 < tried.len()) {
            break;
        }
        let further = tried.iter().map(|tried| doubled(tried)).collect();
        try_all(simulation, &[further], &mut tried);
    }
    for _ in 0..ROUNDS {
        let between: Vec<[f64; 2]> = tried
            .iter()
            .map(|tried| neighbours(tried, best(tried)))
            .collect();
        let next = [0, 1].map(|side| between.iter().map(|pair| pair[side]).collect());
        try_all(simulation, &next, &mut tried);
    }
    tried.iter().map(|tried| tried[best(tried)].0).collect()
}

/// Runs the simulation with each of these lists of multiples, and adds the goodput of each phase to `tried`.
fn try_all(simulation: &Simulation, next: &[Vec<f64>], tried: &mut [Vec<(f64, f64)>]) {
    let found = threads::each(next, |multiples| goodputs(simulation, multiples));
    for (multiples, goodputs) in next.iter().zip(found) {
        for (phase, found) in multiples.iter().zip(goodputs).enumerate() {
            tried[phase].push((*found.0, found.1));
        }
    }
    for tried in tried {
        tried.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
}

/// The best multiple, doubled if it is the largest that was tried.
fn doubled(tried: &[(f64, f64)]) -> f64 {
    let index = best(tried);
    let factor = if index + 1 == tried.len() { 2.0 } else { 1.0 };
    factor * tried[index].0
}

/// The index of the smallest multiple whose goodput counts as the highest. `tried` must not be empty.
fn best(tried: &[(f64, f64)]) -> usize {
    let most = tried
        .iter()
        .map(|(_, goodput)| *goodput)
        .fold(0.0, f64::max);
    let good = |(_, goodput): &(f64, f64)| *goodput >= most * (1.0 - AS_GOOD);
    tried.iter().position(good).unwrap_or(0)
}

/// The midpoints between a multiple and its neighbours.
fn neighbours(tried: &[(f64, f64)], index: usize) -> [f64; 2] {
    let at = |index: usize| tried.get(index).map_or(tried[tried.len() - 1].0, |it| it.0);
    let middle = |a: f64, b: f64| a.midpoint(b);
    [
        middle(at(index.saturating_sub(1)), at(index)),
        middle(at(index), at(index + 1)),
    ]
}

/// The goodput of each phase with these multiples.
fn goodputs(simulation: &Simulation, multiples: &[f64]) -> Vec<f64> {
    let limit =
        |process| -> Box<dyn Limit> { Box::new(Oracle::new(simulation, multiples, process)) };
    let run = simulate(simulation, "oracle", &limit, SEED, &mut |_| {});
    let goodput = |phase: &crate::Summary| phase.goodput.unwrap_or(0.0);
    run.phases.iter().map(goodput).collect()
}

#[derive(Debug)]
struct Oracle {
    /// The time of each change in nanoseconds, and the limit from then on.
    steps: Vec<(u64, u64)>,
    limit: u64,
}

impl Oracle {
    fn new(simulation: &Simulation, multiples: &[f64], process: usize) -> Self {
        // The limit at each tenth of a second at which it changes.
        let share = simulation.processes[process];
        let of = |now: u64| {
            let inside = fluid::at(simulation, now).inside();
            let total = multiple(&simulation.phases, multiples, now) * inside;
            whole((total.round() * share).ceil()).max(1)
        };
        let moments = (0..simulation.duration).step_by(EVERY);
        let mut steps: Vec<(u64, u64)> = moments.map(|now| (now, of(now))).collect();
        steps.dedup_by_key(|(_, limit)| *limit);
        Self {
            limit: of(0),
            steps,
        }
    }
}

const EVERY: usize = 100_000_000;

/// The multiple of the phase at this moment; between phases that of the next one, and after all of them that of the last.
fn multiple(phases: &[Phase], multiples: &[f64], now: u64) -> f64 {
    let second = now / NANOS;
    let inside = phases
        .iter()
        .position(|phase| (phase.from..phase.to).contains(&second));
    let next = || {
        let later = phases
            .iter()
            .enumerate()
            .filter(|(_, phase)| phase.from > second);
        later
            .min_by_key(|(_, phase)| phase.from)
            .map(|(index, _)| index)
    };
    let last = || (0..phases.len()).max_by_key(|index| phases[*index].to);
    let index = inside.or_else(next).or_else(last);
    index
        .and_then(|index| multiples.get(index))
        .copied()
        .unwrap_or(1.2)
}

impl Limit for Oracle {
    fn limit(&self) -> u64 {
        self.limit
    }

    fn sample(&mut self, _sample: &Sample) {}

    fn tick_every(&self) -> Option<Duration> {
        Some(Duration::from_nanos(EVERY as u64))
    }

    fn tick(&mut self, load: Load) {
        let now = load.now.as_nanos();
        let next = self.steps.partition_point(|(at, _)| *at <= now);
        if let Some((_, limit)) = next.checked_sub(1).and_then(|it| self.steps.get(it)) {
            self.limit = *limit;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_that_is_as_good_is_the_best() {
        let tried = [
            (0.5, 0.6),
            (1.0, 0.979),
            (1.1, 0.9995),
            (1.2, 1.0),
            (3.0, 0.4),
        ];
        assert_eq!(best(&tried), 2);
        assert_eq!(
            neighbours(&tried, 2).map(|it| (it * 100.0).round()),
            [105.0, 115.0]
        );
        assert_eq!(neighbours(&tried[..1], 0), [0.5, 0.5]);
    }

    #[test]
    fn the_largest_is_doubled_while_it_is_the_best() {
        assert_eq!(doubled(&[(1.0, 0.4), (8.0, 0.6)]), 16.0);
        assert_eq!(doubled(&[(1.0, 0.4), (8.0, 0.6), (16.0, 0.6)]), 8.0);
    }

    #[test]
    fn a_small_server_has_every_number_looked_at() {
        let limits = |inside: f64| -> Vec<f64> {
            let limits = first(inside).into_iter();
            limits.map(|multiple| (multiple * inside).round()).collect()
        };
        assert_eq!(limits(1.0)[..8], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        assert!(limits(40.0).contains(&42.0) && limits(40.0).len() < 14);
    }
}
