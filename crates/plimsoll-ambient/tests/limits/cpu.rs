//! The processor limiter, fed with numbers, on a clock moved by hand.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::time::Duration;

use crate::fed::Fed;
use plimsoll::{ManualClock, Reason};
use plimsoll_ambient::{BuildError, CpuLimiter, Sampler};

struct Machine {
    time: ManualClock,
    sampler: Sampler,
    fed: Fed,
}

impl Machine {
    fn of(cores: u64) -> Self {
        let time = ManualClock::new();
        Self {
            sampler: Sampler::new(time.clock()),
            time,
            fed: Fed::new(5000, cores),
        }
    }

    fn limiter(&self, percent: u8, smoothing: Duration) -> CpuLimiter {
        CpuLimiter::builder(percent)
            .source(self.fed.clone())
            .smoothing(smoothing)
            .name("cpu")
            .build(&self.sampler)
            .unwrap()
    }

    /// So much time passes, and so much of it is used, by all processors together.
    fn pass(&self, millis: u64, used: u64) {
        self.time.advance(Duration::from_millis(millis));
        self.fed.add(used);
        self.sampler.sample().unwrap();
    }
}

fn close_to(value: f64, expected: f64) -> bool {
    (value - expected).abs() < 1e-9
}

#[test]
fn the_load_is_the_share_of_the_time_there_was() {
    let machine = Machine::of(4);
    let limiter = machine.limiter(80, Duration::ZERO);
    assert!(close_to(limiter.load(), 0.0)); // what was used before does not matter
    machine.pass(1000, 1000);
    assert!(close_to(limiter.load(), 0.25));
    assert!(limiter.check_saturation().is_ok());
    machine.pass(1000, 3200);
    assert!(close_to(limiter.load(), 0.8));
    let denied = limiter.check_saturation().unwrap_err();
    assert_eq!(
        (denied.reason(), denied.limiter()),
        (Reason::Saturated, Some("cpu"))
    );
    machine.pass(500, 1599);
    assert!(limiter.check_saturation().is_ok());
}

#[test]
fn a_threshold_is_reached_when_the_formula_says_so_however_often_it_is_sampled() {
    // -ln(1 - 0.8) · 5 s = 8.047 s
    for steps in [
        vec![8046],
        vec![3000, 46, 5000],
        vec![1; 8046],
        vec![7, 8000, 39],
    ] {
        let machine = Machine::of(2);
        let limiter = machine.limiter(80, Duration::from_secs(5));
        for step in steps {
            machine.pass(step, 2 * step);
            assert!(limiter.check_saturation().is_ok());
        }
        machine.pass(2, 4);
        assert!(limiter.check_saturation().is_err(), "{}", limiter.load());
        // It falls the same way: to half after ln(2) · 5 s = 3.466 s.
        let peak = limiter.load();
        machine.pass(3466, 0);
        assert!((limiter.load() / peak - 0.5).abs() < 1e-4);
        assert!(limiter.check_saturation().is_ok());
    }
}

#[test]
fn a_moment_of_full_load_is_no_emergency() {
    let machine = Machine::of(1);
    let limiter = machine.limiter(80, Duration::from_secs(5));
    for _ in 0..20 {
        machine.pass(500, 500);
        machine.pass(1500, 0);
        assert!(limiter.check_saturation().is_ok());
        assert!(limiter.load() < 0.5);
    }
}

#[test]
fn samples_in_no_time_lose_nothing() {
    let machine = Machine::of(1);
    let limiter = machine.limiter(50, Duration::ZERO);
    machine.pass(0, 300);
    assert!(close_to(limiter.load(), 0.0));
    machine.pass(0, 300);
    machine.pass(1000, 0);
    assert!(close_to(limiter.load(), 0.6));
}

#[test]
fn a_counter_that_runs_backwards_starts_anew() {
    let machine = Machine::of(1);
    let limiter = machine.limiter(50, Duration::ZERO);
    machine.fed.set(0);
    machine.pass(1000, 400);
    assert!(close_to(limiter.load(), 0.0));
    machine.pass(1000, 400);
    assert!(close_to(limiter.load(), 0.4));
}

#[test]
fn a_quota_that_changes_counts_from_then_on() {
    let machine = Machine::of(4);
    let limiter = machine.limiter(50, Duration::ZERO);
    machine.pass(1000, 1000);
    assert!(limiter.check_saturation().is_ok());
    machine.fed.set_total(1);
    machine.pass(1000, 1000);
    assert!(limiter.check_saturation().is_err());
}

#[test]
fn an_old_sample_is_replaced_by_who_asks() {
    let machine = Machine::of(1);
    let limiter = machine.limiter(50, Duration::from_secs(1));
    machine.pass(1000, 1000);
    assert!(limiter.check_saturation().is_err());
    let reads = machine.fed.reads();
    machine.time.advance(Duration::from_secs(10));
    for _ in 0..10 {
        assert!(limiter.check_saturation().is_ok());
    }
    assert_eq!(machine.fed.reads(), reads + 1);
}

#[test]
fn bad_options_are_named() {
    let sampler = Sampler::new(ManualClock::new().clock());
    for percent in [0, 101] {
        match CpuLimiter::builder(percent)
            .source(Fed::new(0, 1))
            .build(&sampler)
        {
            Err(BuildError::Invalid(invalid)) => {
                let expected = format!("`threshold` is {percent}%: expected 1% to 100%");
                assert_eq!(invalid.to_string(), expected);
            }
            other => panic!("{other:?}"),
        }
    }
    let nowhere = CpuLimiter::builder(50)
        .source(Fed::new(0, 0))
        .build(&sampler);
    let message = nowhere.unwrap_err().to_string();
    assert_eq!(message, "the source says there are no processors");
}
