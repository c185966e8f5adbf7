//! Retries of clients.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use crate::chance::{Chance, generator};
use crate::num::whole;
use crate::simulation::Retries;

/// The largest number of retries that a budget can save up, enough for a short disturbance.
const SAVED: f64 = 10.0;

/// The retry policy of clients, and its budget.
pub(crate) struct Retrying {
    model: Option<Retries>,
    rng: Pcg64Mcg,
    saved: f64,
}

/// The cause of a retry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    Refused,
    Failed,
}

impl Retrying {
    pub(crate) fn new(model: Option<Retries>, seed: u64) -> Self {
        Self {
            model,
            rng: generator(seed, Chance::Retries),
            saved: SAVED,
        }
    }

    /// Counts a new request for the budget.
    pub(crate) fn came(&mut self) {
        if let Some(budget) = self.model.and_then(|model| model.budget) {
            self.saved = (self.saved + budget).min(SAVED);
        }
    }

    /// The delay before the next retry of a client that has retried `tries` times. `None` if it gives up.
    pub(crate) fn again(&mut self, why: Why, tries: u32) -> Option<u64> {
        let model = self.model?;
        let wants = match why {
            Why::Refused => model.refused,
            Why::Failed => model.failed,
        };
        if !wants || tries >= model.times {
            return None;
        }
        if model.budget.is_some() {
            if self.saved < 1.0 {
                return None;
            }
            self.saved -= 1.0;
        }
        let power = i32::try_from(tries).unwrap_or(i32::MAX);
        let delay = (model.delay as f64 * model.factor.powi(power)).min(model.most as f64);
        let chance = 1.0 + model.jitter * (2.0 * self.rng.random::<f64>() - 1.0);
        Some(whole(delay * chance))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: Retries = Retries {
        times: 6,
        delay: 100,
        factor: 2.0,
        most: 1000,
        jitter: 0.0,
        budget: None,
        refused: true,
        failed: false,
    };

    #[test]
    fn delays_grow_up_to_the_most() {
        let mut retrying = Retrying::new(Some(MODEL), 1);
        let delays: Vec<_> = (0..7)
            .map(|tries| retrying.again(Why::Refused, tries))
            .collect();
        let wanted = [100, 200, 400, 800, 1000, 1000].map(Some);
        assert_eq!((&delays[..6], delays[6]), (&wanted[..], None));
        assert_eq!(retrying.again(Why::Failed, 0), None);
        assert_eq!(Retrying::new(None, 1).again(Why::Refused, 0), None);
    }

    #[test]
    fn jitter_is_as_wide_as_it_says() {
        let jitter = |jitter| {
            let model = Retries { jitter, ..MODEL };
            let mut retrying = Retrying::new(Some(model), 1);
            let delays = (0..1000).filter_map(|_| retrying.again(Why::Refused, 0));
            let delays: Vec<u64> = delays.collect();
            (delays.iter().min().copied(), delays.iter().max().copied())
        };
        assert!(matches!(jitter(0.5), (Some(50..54), Some(146..=150))));
        assert!(matches!(jitter(1.0), (Some(0..4), Some(196..=200))));
    }

    #[test]
    fn a_budget_is_a_share_of_what_came() {
        let model = Retries {
            budget: Some(0.25),
            ..MODEL
        };
        let mut retrying = Retrying::new(Some(model), 1);
        let mut again = 0;
        for _ in 0..1000 {
            retrying.came();
            again += usize::from(retrying.again(Why::Refused, 0).is_some());
        }
        assert!((250..=260).contains(&again), "{again}");
    }
}
