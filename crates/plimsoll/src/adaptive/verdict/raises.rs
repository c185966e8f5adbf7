//! How often another baseline is believed.

/// How long to wait after the first, in nanoseconds; each one more doubles it, up to the second.
const FIRST: f64 = 5e9;
const LONGEST: f64 = 120e9;
/// A baseline within this factor of the first one is that again.
const BACK: f64 = 1.2;
/// One within this factor of the first one is the first one, better known.
const BETTER_KNOWN: f64 = 2.0;

/// Rations in time what is believed of slower and slower servers.
///
/// A dependency that became slow did so once or twice. Where several limits share a server, what each of them sees when it lets
/// in less is the same: less comes through, and as slowly. Believed again and again, all of them drift up together; believed
/// ever more rarely, the cuts between bring all of them down.
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

    /// Whether this one may be believed now. A clock that stepped back is no reason to wait.
    pub(super) fn may(&self, now: f64, base: f64) -> bool {
        base < self.before * BETTER_KNOWN || !(self.last..self.last + self.gap).contains(&now)
    }

    /// One was believed, in the place of `before`.
    pub(super) fn raised(&mut self, now: f64, before: f64, base: f64) {
        if self.gap == 0.0 {
            self.before = before;
        } else if base < self.before * BETTER_KNOWN {
            return;
        }
        self.last = now;
        self.gap = (2.0 * self.gap).clamp(FIRST, LONGEST);
    }

    /// The baseline is this: if it is what it was at first, nothing was raised.
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
