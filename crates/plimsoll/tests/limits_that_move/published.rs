//! What was published, number by number.

use super::*;

#[test]
fn aimd() {
    let mut limit = Aimd::default();
    assert_eq!(after(&mut limit, &[took(10, 9)]), 20);
    assert_eq!(after(&mut limit, &[took(10, 10)]), 21);
    let mut limit = Aimd::builder().initial(30).build().unwrap();
    assert_eq!(after(&mut limit, &[overload(took(10, 1))]), 27);
    assert_eq!(after(&mut limit, &[took(5000, 27)]), 28);
    assert_eq!(after(&mut limit, &[took(5001, 28)]), 25);
    let mut limit = Aimd::builder().max(21).build().unwrap();
    assert_eq!(after(&mut limit, &[took(10, 10); 3]), 21);
}

#[test]
fn vegas() {
    let ten = || {
        let vegas = Vegas::builder().initial(10).max(20).build();
        vegas.unwrap()
    };
    assert_eq!(after(&mut ten(), &[took(10, 10), took(10, 11)]), 16);
    assert_eq!(after(&mut ten(), &[took(10, 10), took(50, 11)]), 9);
    assert_eq!(after(&mut ten(), &[took(10, 10), took(14, 14)]), 10);
    assert_eq!(after(&mut ten(), &[took(10, 10), overload(took(10, 1))]), 9);
    let mut large = Vegas::builder()
        .initial(10_000)
        .max(20_000)
        .build()
        .unwrap();
    let slow = took(10_000, 6000);
    assert_eq!(after(&mut large, &[slow, slow]), 10_024);
}

#[test]
fn vegas_steps_by_the_logarithm() {
    for (limit, step) in [(1, 1), (99, 1), (100, 2), (999, 2), (1000, 3), (99_999, 4)] {
        let vegas = Vegas::builder().initial(limit).max(1_000_000).build();
        let ten = took(10, u64::MAX);
        assert_eq!(after(&mut vegas.unwrap(), &[ten, ten]), limit + 6 * step);
    }
}

/// 30 times the limit of 10, times the jitter: 150 samples, then 300, then 150 again.
#[test]
fn vegas_forgets_the_least_latency_by_given_jitters_in_turn() {
    let mut limit = Vegas::builder()
        .initial(10)
        .max(10)
        .probe_jitter([0.5, 1.0])
        .build()
        .unwrap();
    let mut probes = Vec::new();
    for n in 1..=600 {
        limit.sample(&took(10, 1));
        if limit.insight().decision == "kept: probed" {
            probes.push(n);
        }
    }
    assert_eq!(probes, [150, 450, 600]);
}

#[test]
fn vegas_scatters_its_probes_by_seed() {
    let probes = |seed| {
        let mut limit = Vegas::builder().initial(10).max(10).seed(seed).build();
        let limit = limit.as_mut().unwrap();
        let probed = |n: &i32| {
            limit.sample(&took(10, 1));
            limit.insight().decision == "kept: probed" && *n > 0
        };
        (1..3000).filter(probed).collect::<Vec<_>>()
    };
    let first = probes(0);
    assert_eq!(first, probes(0));
    assert_ne!(first, probes(1));
    for pair in first.windows(2) {
        assert!((150..=300).contains(&(pair[1] - pair[0])), "{first:?}");
    }
}

#[test]
fn gradient2_is_blind_to_failures() {
    let mut limit = Gradient2::default();
    for _ in 0..150 {
        let in_flight = limit.limit();
        limit.sample(&overload(took(10, in_flight)));
    }
    assert_eq!(limit.limit(), 140);
}

/// The first sample is always a window of its own.
#[test]
fn windows_show_the_mean_and_the_greatest() {
    let aimd = Aimd::builder().min(1).initial(10).build().unwrap();
    let mut limit = Windowed::new(aimd);
    limit.sample(&took(10, 10));
    for n in 1..10 {
        limit.sample(&sample(n * 100 * MILLI, n * MILLI, 1));
    }
    assert_eq!(limit.insight(), Insight::default());
    assert_eq!(after(&mut limit, &[sample(SECOND, 15 * MILLI, 5)]), 11);
    // (1 + 2 + … + 9 + 15) / 10
    assert_eq!(limit.insight().signal, Some(Duration::from_millis(6)));
}

#[test]
fn windows_are_twice_the_least_latency_within_bounds() {
    let windowed = |min, max| {
        Windowed::builder(Aimd::default())
            .min_window(Duration::from_millis(min))
            .max_window(Duration::from_millis(max))
            .build()
            .unwrap()
    };
    for (min, max, latency, window) in [
        (100, 1000, 10, 100),
        (100, 1000, 200, 400),
        (100, 1000, 900, 1000),
    ] {
        let mut limit = windowed(min, max);
        limit.sample(&took(latency, 20));
        for n in 0..2000 {
            limit.sample(&sample(n * MILLI, latency * MILLI, 20));
            if limit.limit() > 20 {
                assert_eq!(n, window + 1);
                break;
            }
        }
        assert_eq!(limit.limit(), 21);
    }
}

#[test]
fn what_is_too_fast_vanishes_from_windows() {
    let mut limit = Windowed::new(Aimd::default());
    for n in 0..1000 {
        limit.sample(&overload(sample(n * 10 * MILLI, 99_999, 20)));
    }
    assert_eq!(limit.insight(), Insight::default());
}

#[test]
fn the_latency_gradient_grows_by_what_waits_and_is_cut_by_a_tenth_at_most() {
    let mut limit = LatencyGradient::builder().initial(100).build().unwrap();
    assert_eq!(limit.tick_every(), Some(Duration::from_millis(500)));
    limit.sample(&took(10, 1));
    for (in_flight, queued, expected) in
        [(100, 0, 100), (49, 9, 100), (50, 9, 109), (109, 1000, 500)]
    {
        limit.tick(load(in_flight, queued));
        assert_eq!(limit.limit(), expected);
    }
    for _ in 0..9 {
        limit.sample(&took(1000, 1));
    }
    limit.tick(load(500, 0));
    assert_eq!(limit.limit(), 450);
    limit.tick(load(450, 0));
    assert_eq!(limit.limit(), 450, "the average no longer rises");
}

#[test]
fn the_queue_of_the_latency_gradient_follows_the_limit() {
    let queue = |min_queue, limit| {
        let mut limit = LatencyGradient::builder()
            .min(1)
            .initial(limit)
            .max(2000)
            .min_queue(min_queue)
            .initial_queue(min_queue + 1)
            .build()
            .unwrap();
        assert_eq!(limit.queue_bound(), Some(min_queue + 1));
        limit.tick(load(limit.limit(), 0));
        limit.queue_bound()
    };
    let facts = [(10, 1, 10), (10, 1028, 33), (10, 20, 10), (1, 20, 5)];
    for (min_queue, limit, expected) in facts {
        assert_eq!(queue(min_queue, limit), Some(expected));
    }
}

#[test]
fn the_latency_gradient_forgets_when_hardly_anything_goes_on() {
    let mut limit = LatencyGradient::default();
    assert_eq!((limit.average_ms(), limit.least_average_ms()), (0, None));
    limit.sample(&took(50, 1));
    limit.tick(load(0, 0));
    assert_eq!(
        (limit.average_ms(), limit.least_average_ms()),
        (50, Some(50))
    );
    limit.sample(&took(150, 1));
    limit.tick(load(0, 0));
    assert_eq!(limit.average_ms(), 90);
    limit.tick(load(0, 0));
    assert_eq!((limit.average_ms(), limit.samples()), (81, 2));
    limit.tick(load(0, 0));
    assert_eq!((limit.average_ms(), limit.samples()), (0, 0));
}
