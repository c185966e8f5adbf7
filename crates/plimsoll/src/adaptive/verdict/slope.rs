//! Whether the throughput follows the limit.

/// The factor by which the weight of a window falls with each newer one.
const MEMORY: f64 = 0.97;
/// A limit or a throughput further than this from its recent mean (by logarithm) starts the regression anew: a server that lost
/// half its workers must not look as if its throughput followed the limit.
const REACH: f64 = 0.35;
/// Unless it is noise: within this many standard errors of the throughput.
const NOISE: f64 = 3.0;
/// Fewer windows decide nothing.
const MIN_WINDOWS: f64 = 6.0;
/// Nor do limits that hardly differ: a standard deviation of 1 %.
const MIN_VARIANCE: f64 = 1e-4;

/// A regression of throughput on the limit, both by logarithm, with exponential forgetting.
///
/// The limit always varies a little, which is an experiment. Without a queue the throughput is proportional to the limit (slope 1);
/// with a queue it does not depend on it (0); if more work makes the server slower, it falls (below 0).
#[derive(Clone, Copy, Debug)]
pub(super) struct Slope {
    weight: f64,
    limit: f64,
    throughput: f64,
    limit_variance: f64,
    throughput_variance: f64,
    covariance: f64,
    wide: bool,
}

/// A slope, and its standard error.
#[derive(Clone, Copy, Debug)]
pub(super) struct Estimate {
    pub(super) value: f64,
    pub(super) error: f64,
}

impl Slope {
    pub(super) const fn new() -> Self {
        Self {
            weight: 0.0,
            limit: 0.0,
            throughput: 0.0,
            limit_variance: 0.0,
            throughput_variance: 0.0,
            covariance: 0.0,
            wide: false,
        }
    }

    /// Creates a regression that spans leaps: it tells whether more work makes the server slower, where the limit swings.
    pub(super) const fn wide() -> Self {
        let mut slope = Self::new();
        slope.wide = true;
        slope
    }

    /// Adds a window in which the limit was binding and `count` pieces of work ended.
    pub(super) fn add(&mut self, limit: f64, throughput: f64, count: f64) {
        let (limit, throughput) = (limit.floor().max(1.0).ln(), throughput.ln());
        let noise = NOISE / count.sqrt();
        let leaps = (limit - self.limit).abs() > REACH
            || (throughput - self.throughput).abs() > REACH.max(noise);
        if leaps && !self.wide {
            *self = Self {
                wide: self.wide,
                ..Self::new()
            };
        }
        self.weight = self.weight * MEMORY + 1.0;
        let share = 1.0 / self.weight;
        let (x, y) = (limit - self.limit, throughput - self.throughput);
        self.limit += share * x;
        self.throughput += share * y;
        let rest = 1.0 - share;
        self.limit_variance += share * (rest * x * x - self.limit_variance);
        self.throughput_variance += share * (rest * y * y - self.throughput_variance);
        self.covariance += share * (rest * x * y - self.covariance);
    }

    /// Returns the slope, if the limit varied enough.
    pub(super) fn estimate(&self) -> Option<Estimate> {
        if self.weight < MIN_WINDOWS || self.limit_variance < MIN_VARIANCE {
            return None;
        }
        let value = self.covariance / self.limit_variance;
        let unexplained = (self.throughput_variance - value * self.covariance).max(0.0);
        let freedom = self.weight - 2.0;
        Some(Estimate {
            value,
            error: (unexplained / (self.limit_variance * freedom)).sqrt(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slope_of(throughput: impl Fn(f64) -> f64) -> Estimate {
        let mut slope = Slope::new();
        for window in 0..60 {
            let limit = 40.0 + f64::from(window % 7);
            slope.add(limit, throughput(limit), 100.0);
        }
        slope.estimate().unwrap()
    }

    #[test]
    fn it_tells_the_three_cases_apart() {
        assert!((slope_of(|limit| limit / 50e6).value - 1.0).abs() < 0.01);
        assert!(slope_of(|_| 8e-7).value.abs() < 0.01);
        assert!((slope_of(|limit| 1.0 / limit).value + 1.0).abs() < 0.01);
        assert!(slope_of(|limit| limit / 50e6).error < 0.01);
    }

    #[test]
    fn a_limit_that_does_not_move_tells_nothing() {
        let mut slope = Slope::new();
        for _ in 0..60 {
            slope.add(40.0, 8e-7, 100.0);
        }
        assert!(slope.estimate().is_none());
    }

    #[test]
    fn a_leap_begins_another_story() {
        let mut slope = Slope::new();
        for window in 0..60 {
            slope.add(40.0 + f64::from(window % 7), 8e-7, 100.0);
        }
        let before = slope;
        slope.add(20.0, 8e-7, 100.0);
        assert!(slope.estimate().is_none());
        slope = before;
        slope.add(40.0, 2e-7, 100.0);
        assert!(slope.estimate().is_none());
    }
}
