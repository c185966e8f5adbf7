//! How often a higher baseline is believed.

/// The wait after the first rise, in nanoseconds. Each further rise doubles it, up to the second number.
const FIRST: f64 = 5e9;
const LONGEST: f64 = 120e9;
/// A baseline within this factor of the first one equals it.
const BACK: f64 = 1.2;
/// A baseline within this factor of the first one is a better measurement of it.
const BETTER_KNOWN: f64 = 2.0;

/// Limits how often a slower server is believed.
///
/// A dependency becomes slow once or twice. Limits that share a server see the same evidence after each cut: less throughput at the
/// same latency. If they believe it every time, they drift up together. If they believe it ever more rarely, the cuts between
/// bring all of them down.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raises {
    last: f64,
    gap: f64,
    /// The baseline before the first of them.
    before: f64,
}

impl Raises {
    pub(super) const fn new() -> Self {
        Self {
            last: 0.0,
            gap: 0.0,
            before: 0.0,
        }
    }

    /// Returns whether a rise to `base` may be believed now. A clock that stepped back does not extend the wait.
    pub(super) fn may(&self, now: f64, base: f64) -> bool {
        base < self.before * BETTER_KNOWN || !(self.last..self.last + self.gap).contains(&now)
    }

    /// Records that `base` replaced the baseline `before`.
    pub(super) fn raised(&mut self, now: f64, before: f64, base: f64) {
        if self.gap == 0.0 {
            self.before = before;
        } else if base < self.before * BETTER_KNOWN {
            return;
        }
        self.last = now;
        self.gap = (2.0 * self.gap).clamp(FIRST, LONGEST);
    }

    /// Records a baseline: if it equals the first one, the waits begin anew.
    pub(super) fn now_at(&mut self, base: f64) {
        if base < self.before * BACK {
            *self = Self::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_makes_the_next_wait_twice_as_long() {
        let mut raises = Raises::new();
        let (mut now, mut times) = (0.0, Vec::new());
        while now < 600e9 {
            if raises.may(now, 9e6) {
                raises.raised(now, 1e6, 9e6);
                times.push(now / 1e9);
            }
            now += 0.5e9;
        }
        assert_eq!(
            times,
            [0.0, 5.0, 15.0, 35.0, 75.0, 155.0, 275.0, 395.0, 515.0]
        );
    }

    #[test]
    fn a_server_as_fast_as_at_first_begins_anew() {
        let mut raises = Raises::new();
        raises.raised(1e9, 50e6, 250e6);
        raises.raised(7e9, 250e6, 500e6);
        raises.now_at(100e6);
        assert!(!raises.may(8e9, 500e6));
        raises.now_at(55e6);
        assert!(raises.may(8e9, 500e6));
    }

    #[test]
    fn near_the_first_it_is_not_counted() {
        let mut raises = Raises::new();
        raises.raised(1e9, 50e6, 60e6);
        assert!(raises.may(2e9, 70e6));
        raises.raised(2e9, 60e6, 70e6);
        assert!(!raises.may(3e9, 110e6));
        assert!(raises.may(6e9, 110e6));
    }

    #[test]
    fn a_clock_that_stepped_back_does_not_wait() {
        let mut raises = Raises::new();
        raises.raised(100e9, 50e6, 250e6);
        assert!(raises.may(10e9, 500e6));
        assert!(!raises.may(101e9, 500e6));
    }
}
