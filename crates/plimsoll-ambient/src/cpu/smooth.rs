use std::time::Duration;

/// An average in which old samples fade with time, not with the number of samples.
///
/// A sample represents the time since the previous one. If that was `t`, it weighs `1 - e^(-t/T)`: two steps of the
/// same value then have exactly the effect of one step over both times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Smooth {
    constant: f64,
    value: f64,
}

impl Smooth {
    /// An average that is 0, of the time constant `T`. Zero does not smooth.
    pub(super) fn new(constant: Duration) -> Self {
        Self {
            constant: constant.as_secs_f64(),
            value: 0.0,
        }
    }

    pub(super) fn add(&mut self, sample: f64, elapsed: Duration) {
        let weight = if self.constant > 0.0 {
            -(-elapsed.as_secs_f64() / self.constant).exp_m1()
        } else {
            1.0
        };
        self.value += weight * (sample - self.value);
    }

    pub(super) fn value(&self) -> f64 {
        self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const T: Duration = Duration::from_secs(5);

    #[test]
    fn after_one_time_constant_it_has_come_63_percent_of_the_way() {
        let mut average = Smooth::new(T);
        average.add(1.0, T);
        assert!((average.value() - 0.632_120_558_8).abs() < 1e-9);
    }

    #[test]
    fn without_a_time_constant_the_last_sample_counts() {
        let mut average = Smooth::new(Duration::ZERO);
        average.add(0.3, Duration::from_nanos(1));
        average.add(0.8, Duration::from_secs(9));
        assert!((average.value() - 0.8).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn how_often_it_is_sampled_does_not_matter(
            before in 0.0..1.0_f64,
            load in 0.0..1.0_f64,
            steps in prop::collection::vec(1..2_000_000_u64, 1..50),
        ) {
            let mut one = Smooth::new(T);
            one.add(before, T);
            let mut many = one;
            one.add(load, Duration::from_micros(steps.iter().sum()));
            for step in steps {
                many.add(load, Duration::from_micros(step));
            }
            prop_assert!((one.value() - many.value()).abs() < 1e-9);
        }

        #[test]
        fn it_stays_between_its_samples(samples in prop::collection::vec((0.0..1.0_f64, 0..u64::MAX), 1..50)) {
            let mut average = Smooth::new(T);
            for (load, nanos) in samples {
                average.add(load, Duration::from_nanos(nanos));
                prop_assert!((0.0..=1.0).contains(&average.value()));
            }
        }
    }
}
