//! The memory limiter, fed with numbers, on a clock moved by hand.

use std::sync::Arc;
use std::time::Duration;

use crate::fed::Fed;
use plimsoll::{All, Concurrency, Demand, Gate, Limiter, LimiterExt, ManualClock, Outcome, Reason};
use plimsoll_ambient::{
    Amount, BuildError, Level, MemoryLimiter, MemoryLimiterBuilder, MemoryReading, MemoryUsage,
    Sampler, SourceError, WhenUnknown,
};

const SECOND: Duration = Duration::from_secs(1);

fn set_up() -> (ManualClock, Sampler) {
    let time = ManualClock::new();
    let sampler = Sampler::new(time.clock());
    (time, sampler)
}

fn limits(limiter: &MemoryLimiter) -> (u64, u64) {
    let MemoryUsage {
        soft_limit,
        hard_limit,
        ..
    } = limiter.usage();
    (soft_limit, hard_limit)
}

#[test]
fn it_is_saturated_from_the_soft_limit_on_and_opens_below_it() {
    let (_, sampler) = set_up();
    let fed = Fed::new(0, 0);
    let limiter = MemoryLimiter::builder(Amount::Bytes(1000))
        .spike(Amount::Bytes(300))
        .source(fed.clone())
        .name("memory")
        .build(&sampler)
        .unwrap();
    let steps = [
        (699, Level::Normal),
        (700, Level::Soft),
        (999, Level::Soft),
        (1000, Level::Hard),
        (u64::MAX, Level::Hard),
        (700, Level::Soft),
        (699, Level::Normal),
    ];
    for (used, level) in steps {
        fed.set(used);
        sampler.sample().unwrap();
        assert_eq!(limiter.level(), level, "{used}");
        assert_eq!(limiter.usage().used, used);
        match limiter.check_saturation() {
            Ok(()) => assert_eq!(level, Level::Normal),
            Err(denied) => {
                assert_ne!(level, Level::Normal);
                assert_eq!(denied.reason(), Reason::Saturated);
                assert_eq!(denied.limiter(), Some("memory"));
                // When memory is freed nobody can know.
                assert_eq!(denied.retry_after(), None);
            }
        }
    }
}

#[test]
fn the_first_sample_is_taken_when_it_is_built() {
    let (_, sampler) = set_up();
    let fed = Fed::new(900, 0);
    let limiter = MemoryLimiter::builder(Amount::Bytes(1000)).source(fed.clone());
    let limiter = limiter.build(&sampler).unwrap();
    assert_eq!(limiter.level(), Level::Soft);
    assert_eq!(fed.reads(), 1);
}

#[test]
fn percentages_are_of_what_there_is_and_the_spike_is_a_fifth_of_the_hard_limit() {
    let (_, sampler) = set_up();
    let build = |hard, spike: Option<Amount>, total| {
        let mut builder = MemoryLimiter::builder(hard).source(Fed::new(1, total));
        if let Some(spike) = spike {
            builder = builder.spike(spike);
        }
        limits(&builder.build(&sampler).unwrap())
    };
    assert_eq!(build(Amount::Percent(80), None, 1000), (640, 800));
    assert_eq!(
        build(Amount::Percent(80), Some(Amount::Percent(25)), 1000),
        (550, 800)
    );
    assert_eq!(
        build(Amount::Percent(80), Some(Amount::Bytes(10)), 1000),
        (790, 800)
    );
    assert_eq!(
        build(Amount::Bytes(500), Some(Amount::Percent(25)), 1000),
        (250, 500)
    );
    assert_eq!(
        build(Amount::Percent(100), Some(Amount::Bytes(0)), u64::MAX),
        (u64::MAX, u64::MAX)
    );
    assert_eq!(build(Amount::mib(1), None, 0), (838_861, 1_048_576));
}

#[test]
fn limits_follow_what_there_is() {
    let (_, sampler) = set_up();
    let fed = Fed::new(500, 1000);
    let limiter = MemoryLimiter::builder(Amount::Percent(80)).source(fed.clone());
    let limiter = limiter.build(&sampler).unwrap();
    assert_eq!(limiter.level(), Level::Normal);
    fed.set_total(600);
    sampler.sample().unwrap();
    assert_eq!(limits(&limiter), (384, 480));
    assert_eq!(limiter.level(), Level::Hard);
}

#[test]
fn bad_options_are_named() {
    let (_, sampler) = set_up();
    let rejected = |builder: MemoryLimiterBuilder| match builder.build(&sampler) {
        Err(BuildError::Invalid(invalid)) => invalid.to_string(),
        other => panic!("{other:?}"),
    };
    let hard = |amount| MemoryLimiter::builder(amount).source(Fed::new(1, 1000));
    let ok = || hard(Amount::Bytes(100));
    assert_eq!(
        rejected(hard(Amount::Bytes(0))),
        "`hard_limit` is 0 bytes: expected at least 1 byte"
    );
    assert_eq!(
        rejected(hard(Amount::Percent(0))),
        "`hard_limit` is 0%: expected 1% to 100%"
    );
    assert_eq!(
        rejected(hard(Amount::Percent(101))),
        "`hard_limit` is 101%: expected 1% to 100%"
    );
    assert_eq!(
        rejected(ok().spike(Amount::Percent(101))),
        "`spike` is 101%: expected at most 100%"
    );
    assert_eq!(
        rejected(ok().spike(Amount::Bytes(100))),
        "`spike` is 100 bytes: expected less than the hard limit"
    );
    assert_eq!(
        rejected(ok().spike(Amount::Percent(10))),
        "`spike` is 10%: expected less than the hard limit"
    );
    assert_eq!(
        rejected(ok().check_interval(Duration::ZERO)),
        "`check_interval` is 0ns: expected a longer time than that"
    );
    let blind = |amount| MemoryLimiter::builder(amount).source(Fed::new(1, 0));
    let rule = "expected bytes, because the source does not say how much memory there is";
    assert_eq!(
        rejected(blind(Amount::Percent(80))),
        format!("`hard_limit` is 80%: {rule}")
    );
    let spike = blind(Amount::Bytes(80)).spike(Amount::Percent(5));
    assert_eq!(rejected(spike), format!("`spike` is 5%: {rule}"));
    let tiny = MemoryLimiter::builder(Amount::Percent(1)).source(Fed::new(1, 10));
    assert_eq!(
        rejected(tiny),
        "`hard_limit` is 1%: expected at least 1 byte of what there is"
    );

    let broken = Fed::new(1, 1);
    broken.break_down(true);
    let broken = MemoryLimiter::builder(Amount::Bytes(1))
        .source(broken)
        .build(&sampler);
    assert_eq!(
        broken.unwrap_err(),
        BuildError::Source(SourceError::new("broken"))
    );
}

#[test]
fn if_nobody_samples_the_first_who_asks_does_once_in_a_while() {
    let (time, sampler) = set_up();
    let fed = Fed::new(900, 0);
    let limiter = MemoryLimiter::builder(Amount::Bytes(1000)).source(fed.clone());
    let limiter = limiter.build(&sampler).unwrap();
    fed.set(0);
    // The sample counts for two intervals of a second.
    time.advance(2 * SECOND - Duration::from_nanos(1));
    assert!(limiter.check_saturation().is_err());
    assert_eq!(fed.reads(), 1);
    // It does not stay saturated for ever.
    time.advance(Duration::from_nanos(1));
    for _ in 0..100 {
        assert!(limiter.check_saturation().is_ok());
    }
    assert_eq!(fed.reads(), 2);
    // And is not open for ever either.
    fed.set(900);
    time.advance(3600 * SECOND);
    for _ in 0..100 {
        assert!(limiter.check_saturation().is_err());
    }
    assert_eq!(fed.reads(), 3);
}

#[test]
fn of_many_who_ask_at_once_one_measures() {
    let (time, sampler) = set_up();
    let fed = Fed::new(0, 0);
    let limiter = MemoryLimiter::builder(Amount::Bytes(1000)).source(fed.clone());
    let limiter = limiter.build(&sampler).unwrap();
    for round in 1..=20 {
        time.advance(5 * SECOND);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| assert!(limiter.check_saturation().is_ok()));
            }
        });
        assert_eq!(fed.reads(), 1 + round);
    }
}

#[test]
fn a_single_failure_changes_nothing_and_lasting_failure_is_not_silent() {
    let (time, sampler) = set_up();
    let fed = Fed::new(0, 0);
    let limiter = MemoryLimiter::builder(Amount::Bytes(1000))
        .source(fed.clone())
        .name("memory");
    let limiter = limiter.build(&sampler).unwrap();
    fed.break_down(true);
    time.advance(SECOND);
    assert_eq!(sampler.sample(), Err(SourceError::new("broken")));
    assert!(limiter.check_saturation().is_ok());
    assert_eq!(limiter.last_error(), Some(SourceError::new("broken")));
    time.advance(SECOND);
    assert!(sampler.sample().is_err());
    let denied = limiter.check_saturation().unwrap_err();
    assert_eq!(denied.reason(), Reason::Unavailable);
    assert_eq!(denied.limiter(), Some("memory"));
    // The level is the last that was known.
    assert_eq!(limiter.level(), Level::Normal);
    // Those who ask try again, once in an interval.
    let reads = fed.reads();
    for seconds in 1..=5 {
        time.advance(SECOND);
        for _ in 0..10 {
            assert!(limiter.check_saturation().is_err());
        }
        assert_eq!(fed.reads(), reads + seconds);
    }
    fed.break_down(false);
    time.advance(SECOND);
    assert!(limiter.check_saturation().is_ok());
    assert_eq!(limiter.last_error(), None);
}

#[test]
fn a_limiter_may_admit_while_nobody_knows() {
    let (time, sampler) = set_up();
    let fed = Fed::new(900, 0);
    let limiter = MemoryLimiter::builder(Amount::Bytes(1000))
        .source(fed.clone())
        .when_unknown(WhenUnknown::Admit)
        .build(&sampler)
        .unwrap();
    fed.break_down(true);
    time.advance(SECOND);
    assert!(sampler.sample().is_err());
    assert!(limiter.check_saturation().is_err());
    time.advance(SECOND);
    assert!(limiter.check_saturation().is_ok());
    assert!(limiter.last_error().is_some());
}

#[test]
fn a_source_that_panics_has_failed_and_no_more() {
    let (time, sampler) = set_up();
    let mut calls = 0;
    let limiter = MemoryLimiter::builder(Amount::Bytes(1000))
        .source(move || {
            calls += 1;
            assert_ne!(calls, 2, "on purpose");
            Ok(MemoryReading {
                used: 0,
                total: None,
            })
        })
        .build(&sampler)
        .unwrap();
    let other = Fed::new(0, 0);
    let second = MemoryLimiter::builder(Amount::Bytes(1000)).source(other.clone());
    let _second = second.build(&sampler).unwrap();
    time.advance(SECOND);
    assert_eq!(
        sampler.sample(),
        Err(SourceError::new("the source panicked"))
    );
    assert_eq!(other.reads(), 2);
    assert!(limiter.check_saturation().is_ok());
    assert_eq!(sampler.sample(), Ok(()));
}

#[test]
fn it_is_a_limiter_that_grants_everything_or_nothing() {
    let (_, sampler) = set_up();
    let fed = Fed::new(0, 0);
    let limiter = MemoryLimiter::builder(Amount::Bytes(1000))
        .source(fed.clone())
        .name("memory");
    let limiter = limiter.build(&sampler).unwrap();

    let permit = limiter
        .try_acquire(Demand::of(u64::MAX))
        .unwrap()
        .into_owned();
    assert_eq!(permit.cost(), u64::MAX);
    permit.finish(Outcome::Success);
    limiter.acquire_blocking(Demand::ONE).unwrap().undo();
    let reservation = limiter.reserve(Demand::of(0)).unwrap();
    assert_eq!(reservation.wait(), Some(Duration::ZERO));
    assert!(reservation.wait_blocking().is_ok());
    assert!(limiter.estimate(Demand::ONE).is_ok());
    assert_eq!(limiter.snapshot().available(), u64::MAX);
    assert!(limiter.snapshot().saturation() < f64::EPSILON);

    fed.set(800);
    sampler.sample().unwrap();
    let refusals = [
        limiter.try_acquire(Demand::of(0)).unwrap_err(),
        limiter.acquire_blocking(Demand::ONE).unwrap_err(),
        limiter.reserve(Demand::ONE).unwrap_err(),
        limiter.estimate(Demand::ONE).unwrap_err(),
    ];
    for denied in refusals {
        assert_eq!(denied.to_string(), "memory: saturated");
    }
    assert_eq!(limiter.snapshot().available(), 0);
    assert!(limiter.snapshot().saturation() >= 1.0);

    limiter.close();
    fed.set(0);
    sampler.sample().unwrap();
    assert_eq!(
        limiter.check_saturation().unwrap_err().reason(),
        Reason::Closed
    );
    assert_eq!(limiter.name(), Some("memory"));
}

#[test]
fn with_other_limits_all_or_none() {
    let (time, sampler) = set_up();
    let fed = Fed::new(0, 0);
    let memory = MemoryLimiter::builder(Amount::Bytes(1000))
        .source(fed.clone())
        .name("memory");
    let memory = Arc::new(memory.build(&sampler).unwrap());
    let slots = Arc::new(
        Gate::builder(Concurrency::new(2))
            .clock(time.clock())
            .build(),
    );
    let all = All::new([slots.clone() as Arc<dyn Limiter>, memory]);
    let permit = all.try_acquire(1).unwrap();
    fed.set(800);
    sampler.sample().unwrap();
    assert_eq!(all.try_acquire(1).unwrap_err().limiter(), Some("memory"));
    assert_eq!(
        all.acquire_blocking(Demand::ONE).unwrap_err().reason(),
        Reason::Saturated
    );
    assert_eq!(slots.snapshot().in_use(), 1);
    assert!(all.snapshot().saturation() >= 1.0);
    drop(permit);
    assert_eq!(slots.snapshot().in_use(), 0);
    fed.set(799);
    sampler.sample().unwrap();
    assert!(all.try_acquire(2).is_ok());
}
