use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use crate::profile::Profile;
use crate::work::Work;

/// Several kinds of work, whose weights may change with time.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Mix {
    /// The kinds with their weights. There is at least one.
    kinds: Vec<(Profile, Work)>,
}

impl Mix {
    pub(crate) fn of(kinds: Vec<(Profile, Work)>) -> Self {
        Self { kinds }
    }

    pub(crate) fn one(work: Work) -> Self {
        Self::of(vec![(Profile::constant(1.0), work)])
    }

    /// Draws a duration in nanoseconds. With a single kind, no random number is used to choose it.
    pub(crate) fn draw(&self, now: u64, rng: &mut Pcg64Mcg) -> f64 {
        let [(_, last)] = &self.kinds[..] else {
            return self.pick(now, rng).draw(rng);
        };
        last.draw(rng)
    }

    fn pick(&self, now: u64, rng: &mut Pcg64Mcg) -> &Work {
        let mut at = rng.random::<f64>() * self.weight(now);
        let mut chosen = &self.kinds[0].1;
        for (weight, work) in &self.kinds {
            let weight = weight.at(now);
            if weight > 0.0 {
                chosen = work;
                if at < weight {
                    break;
                }
                at -= weight;
            }
        }
        chosen
    }

    fn weight(&self, now: u64) -> f64 {
        self.kinds.iter().map(|(weight, _)| weight.at(now)).sum()
    }

    /// The mean in nanoseconds. `None` if it is infinite.
    pub(crate) fn mean(&self, now: u64) -> Option<f64> {
        let all = self.weight(now);
        let mut sum = 0.0;
        for (weight, work) in &self.kinds {
            let part = weight.at(now) / all;
            if part > 0.0 {
                sum += part * work.mean()?;
            }
        }
        Some(sum)
    }

    /// Whether every kind has a finite mean.
    pub(crate) fn has_mean(&self) -> bool {
        self.kinds.iter().all(|(_, work)| work.mean().is_some())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rand::SeedableRng;

    use super::*;

    #[test]
    fn the_mix_changes_with_time() {
        let kind = |from, to, millis| {
            let weight = Profile::ramp([(0, from), (100, to)]);
            (weight, Work::constant(Duration::from_millis(millis)))
        };
        let mix = Mix::of(vec![kind(1.0, 0.0, 10), kind(0.0, 1.0, 110)]);
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        for (now, mean) in [(0, 10.0), (50, 60.0), (75, 85.0), (100, 110.0)] {
            assert_eq!(mix.mean(now), Some(mean * 1e6));
            let drawn: f64 = (0..10_000).map(|_| mix.draw(now, &mut rng) / 1e6).sum();
            assert!((drawn / 10_000.0 - mean).abs() < 2.0, "{now}: {drawn}");
        }
    }
}
