use crate::num::{NANOS, seconds};

/// How finely a ramp is followed where something must follow every change.
const RAMP_STEP: u64 = NANOS / 10;

/// A number that changes with time: a constant, steps, or straight lines between points.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Profile {
    /// Moments in nanoseconds, growing; the first holds before it too, the last for ever.
    points: Vec<(u64, f64)>,
    ramp: bool,
}

impl Profile {
    pub(crate) fn constant(value: f64) -> Self {
        Self::steps(vec![(0, value)])
    }

    /// Jumps to each value at its moment. There must be at least one.
    pub(crate) fn steps(points: Vec<(u64, f64)>) -> Self {
        Self {
            points,
            ramp: false,
        }
    }

    /// Goes from point to point in straight lines. There must be at least one.
    pub(crate) fn ramp(points: Vec<(u64, f64)>) -> Self {
        Self { points, ramp: true }
    }

    pub(crate) fn at(&self, now: u64) -> f64 {
        let next = self.points.partition_point(|(at, _)| *at <= now);
        let Some((from, value)) = next.checked_sub(1).and_then(|i| self.points.get(i)) else {
            return self.points.first().map_or(0.0, |(_, value)| *value);
        };
        match self.points.get(next) {
            Some((to, end)) if self.ramp => {
                let part = seconds(now - from) / seconds(to - from);
                value + (end - value) * part
            }
            _ => *value,
        }
    }

    /// The greatest value there is.
    pub(crate) fn peak(&self) -> f64 {
        let values = self.points.iter().map(|(_, value)| *value);
        values.fold(0.0, f64::max)
    }

    /// When the value changes before `end`. A ramp changes all the time; it is followed in small steps.
    pub(crate) fn changes(&self, end: u64) -> Vec<u64> {
        let (Some((first, _)), Some((last, _))) = (self.points.first(), self.points.last()) else {
            return Vec::new();
        };
        if self.ramp {
            let last = (*last).min(end);
            let inner = (*first..last).step_by(usize::try_from(RAMP_STEP).unwrap_or(usize::MAX));
            return inner.chain([last]).collect();
        }
        let moments = self.points.iter().map(|(at, _)| *at);
        moments.filter(|at| *at > 0 && *at < end).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_hold_until_the_next_and_the_first_holds_before_it() {
        let steps = Profile::steps(vec![(10, 1.0), (20, 5.0), (30, 2.0)]);
        assert_eq!(
            [0, 10, 19, 20, 29, 30, 99].map(|at| steps.at(at)),
            [1.0, 1.0, 1.0, 5.0, 5.0, 2.0, 2.0]
        );
        assert_eq!(steps.changes(30), [10, 20]);
        assert_eq!(steps.peak(), 5.0);
    }

    #[test]
    fn a_ramp_goes_straight_from_point_to_point() {
        let ramp = Profile::ramp(vec![(NANOS, 1.0), (3 * NANOS, 3.0)]);
        assert_eq!(
            [0, NANOS, 2 * NANOS, 3 * NANOS, 9 * NANOS].map(|at| ramp.at(at)),
            [1.0, 1.0, 2.0, 3.0, 3.0]
        );
        assert_eq!(ramp.changes(9 * NANOS).len(), 21);
    }
}
