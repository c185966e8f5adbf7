use crate::num::{NANOS, seconds};

/// The step in which [`Profile::changes`] follows a ramp.
const RAMP_STEP: u64 = NANOS / 10;

/// A number that changes with time: a constant, steps, straight lines between points, or both.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Profile {
    /// The points in order of time. The first value also holds before its point, and the last one forever.
    points: Vec<Point>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Point {
    /// The time in nanoseconds.
    at: u64,
    value: f64,
    /// Whether a straight line leads to the next point.
    line: bool,
}

/// A change to a value at a moment, in a straight line over a time that may be 0.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Step {
    pub(crate) at: u64,
    pub(crate) value: f64,
    pub(crate) over: u64,
}

impl Profile {
    pub(crate) fn constant(value: f64) -> Self {
        let point = Point {
            at: 0,
            value,
            line: false,
        };
        Self {
            points: vec![point],
        }
    }

    /// A profile that moves to each value at its moment. There must be at least one step, and steps must not overlap.
    pub(crate) fn steps(steps: impl IntoIterator<Item = Step>) -> Self {
        let mut points: Vec<Point> = Vec::new();
        for Step { at, value, over } in steps {
            let point = |at, value, line| Point { at, value, line };
            if let (Some(last), true) = (points.last().copied(), over > 0) {
                points.push(point(at, last.value, true));
            }
            points.push(point(at.saturating_add(over), value, false));
        }
        Self { points }
    }

    /// A profile of straight lines from point to point. There must be at least one point.
    pub(crate) fn ramp(points: impl IntoIterator<Item = (u64, f64)>) -> Self {
        let point = |(at, value)| Point {
            at,
            value,
            line: true,
        };
        Self {
            points: points.into_iter().map(point).collect(),
        }
    }

    pub(crate) fn at(&self, now: u64) -> f64 {
        let next = self.points.partition_point(|point| point.at <= now);
        let Some(from) = next.checked_sub(1).and_then(|i| self.points.get(i)) else {
            return self.points.first().map_or(0.0, |point| point.value);
        };
        match self.points.get(next) {
            Some(to) if from.line => {
                let part = seconds(now - from.at) / seconds(to.at - from.at);
                from.value + (to.value - from.value) * part
            }
            _ => from.value,
        }
    }

    /// The largest value.
    pub(crate) fn peak(&self) -> f64 {
        let values = self.points.iter().map(|point| point.value);
        values.fold(0.0, f64::max)
    }

    /// The moments at which lines begin and end.
    pub(crate) fn corners(&self) -> impl Iterator<Item = u64> {
        self.points.iter().map(|point| point.at)
    }

    /// The times before `end` at which the value changes. A ramp changes continuously, and is followed in small steps.
    pub(crate) fn changes(&self, end: u64) -> Vec<u64> {
        let step = usize::try_from(RAMP_STEP).unwrap_or(usize::MAX);
        let mut all = Vec::new();
        for (index, point) in self.points.iter().enumerate() {
            match self.points.get(index + 1) {
                Some(next) if point.line => all.extend((point.at..next.at.min(end)).step_by(step)),
                _ => all.push(point.at),
            }
        }
        all.retain(|at| *at > 0 && *at < end);
        all.dedup();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(at: u64, value: f64, over: u64) -> Step {
        Step { at, value, over }
    }

    #[test]
    fn steps_hold_until_the_next_and_the_first_holds_before_it() {
        let steps = Profile::steps([step(10, 1.0, 0), step(20, 5.0, 0), step(30, 2.0, 0)]);
        assert_eq!(
            [0, 10, 19, 20, 29, 30, 99].map(|at| steps.at(at)),
            [1.0, 1.0, 1.0, 5.0, 5.0, 2.0, 2.0]
        );
        assert_eq!(steps.changes(30), [10, 20]);
        assert_eq!(steps.peak(), 5.0);
    }

    #[test]
    fn a_ramp_goes_straight_from_point_to_point() {
        let ramp = Profile::ramp([(NANOS, 1.0), (3 * NANOS, 3.0)]);
        assert_eq!(
            [0, NANOS, 2 * NANOS, 3 * NANOS, 9 * NANOS].map(|at| ramp.at(at)),
            [1.0, 1.0, 2.0, 3.0, 3.0]
        );
        assert_eq!(ramp.changes(9 * NANOS).len(), 21);
    }

    #[test]
    fn a_step_may_take_its_time_beside_others_that_do_not() {
        let both = Profile::steps([
            step(0, 1.0, 0),
            step(10 * NANOS, 3.0, 4 * NANOS),
            step(20 * NANOS, 7.0, 0),
            step(30 * NANOS, 5.0, 2 * NANOS),
        ]);
        let at = [9, 10, 11, 12, 14, 19, 20, 30, 31, 32, 99];
        assert_eq!(
            at.map(|at| both.at(at * NANOS)),
            [1.0, 1.0, 1.5, 2.0, 3.0, 3.0, 7.0, 7.0, 6.0, 5.0, 5.0]
        );
        assert_eq!(both.peak(), 7.0);
        // Four seconds and two in small steps, and the jump.
        assert_eq!(both.changes(99 * NANOS).len(), 40 + 1 + 1 + 20 + 1);
    }
}
