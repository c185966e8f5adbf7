use std::time::Duration;

use rand::RngExt;
use rand_distr::{Distribution, Exp1, LogNormal, Pareto};
use rand_pcg::Pcg64Mcg;

/// A distribution of durations.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Work {
    Constant(f64),
    Exponential {
        mean: f64,
    },
    Lognormal {
        mean: f64,
        draw: LogNormal<f64>,
    },
    /// Mostly fast and sometimes slow durations, each a fifth more or less.
    Bimodal {
        fast: f64,
        slow: f64,
        share: f64,
    },
    Pareto {
        least: f64,
        alpha: f64,
        draw: Pareto<f64>,
    },
}

fn nanos(span: Duration) -> f64 {
    span.as_secs_f64() * 1e9
}

impl Work {
    pub(crate) fn constant(span: Duration) -> Self {
        Self::Constant(nanos(span))
    }

    pub(crate) fn exponential(mean: Duration) -> Self {
        Self::Exponential { mean: nanos(mean) }
    }

    /// `None` if there is no such distribution.
    pub(crate) fn lognormal(mean: Duration, sigma: f64) -> Option<Self> {
        let mean = nanos(mean);
        let mu = mean.ln() - sigma * sigma / 2.0;
        let draw = LogNormal::new(mu, sigma).ok().filter(|_| mu.is_finite())?;
        Some(Self::Lognormal { mean, draw })
    }

    pub(crate) fn bimodal(fast: Duration, slow: Duration, share: f64) -> Self {
        Self::Bimodal {
            fast: nanos(fast),
            slow: nanos(slow),
            share,
        }
    }

    /// `None` if there is no such distribution.
    pub(crate) fn pareto(least: Duration, alpha: f64) -> Option<Self> {
        let least = nanos(least);
        let draw = Pareto::new(least, alpha).ok()?;
        Some(Self::Pareto { least, alpha, draw })
    }

    /// Draws a duration in nanoseconds.
    pub(crate) fn draw(&self, rng: &mut Pcg64Mcg) -> f64 {
        match self {
            Self::Constant(span) => *span,
            Self::Exponential { mean } => {
                let unit: f64 = Exp1.sample(rng);
                unit * mean
            }
            Self::Lognormal { draw, .. } => draw.sample(rng),
            Self::Bimodal { fast, slow, share } => {
                let middle = if rng.random::<f64>() < *share {
                    slow
                } else {
                    fast
                };
                middle * (0.8 + 0.4 * rng.random::<f64>())
            }
            Self::Pareto { draw, .. } => draw.sample(rng),
        }
    }

    /// The mean in nanoseconds. `None` if it is infinite.
    pub(crate) fn mean(&self) -> Option<f64> {
        match *self {
            Self::Constant(mean) | Self::Exponential { mean } | Self::Lognormal { mean, .. } => {
                Some(mean)
            }
            Self::Bimodal { fast, slow, share } => Some(fast + (slow - fast) * share),
            Self::Pareto { least, alpha, .. } => {
                (alpha > 1.0).then(|| least * alpha / (alpha - 1.0))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    /// Mean and standard deviation of many draws, in milliseconds.
    fn moments(work: &Work) -> (f64, f64) {
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        let draws: Vec<f64> = (0..200_000).map(|_| work.draw(&mut rng) / 1e6).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let square = |draw: &f64| (draw - mean) * (draw - mean);
        let variance = draws.iter().map(square).sum::<f64>() / draws.len() as f64;
        (mean, variance.sqrt())
    }

    #[test]
    fn draws_have_the_mean_and_spread_of_their_distribution() {
        let ms = Duration::from_millis;
        let sigma = 0.5_f64;
        let lognormal_sd = 50.0 * ((sigma * sigma).exp() - 1.0).sqrt();
        let cases = [
            (Work::constant(ms(50)), 0.0),
            (Work::exponential(ms(50)), 50.0),
            (Work::lognormal(ms(50), sigma).unwrap(), lognormal_sd),
            // Alpha 4: mean 4/3 of the least, variance 2/9 of its square.
            (
                Work::pareto(ms(30), 4.0).unwrap(),
                30.0 * (2.0_f64 / 9.0).sqrt(),
            ),
        ];
        for (work, spread) in cases {
            let (mean, sd) = moments(&work);
            let wanted = work.mean().unwrap() / 1e6;
            assert!((mean / wanted - 1.0).abs() < 0.01, "{work:?}: mean {mean}");
            assert!((sd - spread).abs() <= 0.05 * spread, "{work:?}: sd {sd}");
        }
    }

    #[test]
    fn bimodal_is_fast_or_slow_and_nothing_between() {
        let work = Work::bimodal(Duration::from_millis(20), Duration::from_millis(500), 0.05);
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        let draws: Vec<f64> = (0..100_000).map(|_| work.draw(&mut rng) / 1e6).collect();
        let slow = draws.iter().filter(|draw| **draw >= 400.0).count();
        let fast = draws
            .iter()
            .filter(|draw| **draw < 24.0 && **draw >= 16.0)
            .count();
        assert_eq!(slow + fast, draws.len());
        assert!((4_700..5_300).contains(&slow), "{slow}");
        assert_eq!(work.mean().map(f64::round), Some(44e6));
    }

    #[test]
    fn what_is_no_distribution_is_none() {
        assert!(Work::lognormal(Duration::ZERO, 1.0).is_none());
        assert!(Work::pareto(Duration::ZERO, 1.0).is_none());
        let heavy = Work::pareto(Duration::from_millis(1), 1.0).unwrap();
        assert_eq!(heavy.mean(), None);
    }
}
