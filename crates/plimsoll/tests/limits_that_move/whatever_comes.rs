//! Any samples at all, and what is true all the same.

use super::*;

/// Moments near the origin, near the end of time, and between.
fn nanos() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(1),
        1..10 * SECOND,
        1..100 * 24 * HOUR,
        any::<u64>(),
        Just(u64::MAX)
    ]
}

fn samples() -> impl Strategy<Value = Sample> {
    let in_flight = prop_oneof![0..300_u64, any::<u64>(), Just(u64::MAX)];
    (
        nanos(),
        nanos(),
        any::<bool>(),
        in_flight,
        any::<[bool; 2]>(),
    )
        .prop_map(|(start, other, forward, in_flight, [overload, refused])| {
            let end = if forward {
                start.saturating_add(other)
            } else {
                other
            };
            Sample::new(
                Moment::from_nanos(start),
                Moment::from_nanos(end),
                in_flight,
            )
            .overload(overload)
            .refused(refused)
        })
}

#[derive(Clone, Debug)]
enum Event {
    Sample(Sample),
    /// The same, many times over.
    Samples(Sample, u16),
    Tick(Load),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let tick = (nanos(), any::<u64>(), any::<u64>())
        .prop_map(|(now, in_flight, queued)| Load::new(Moment::from_nanos(now), in_flight, queued));
    let event = prop_oneof![
        4 => samples().prop_map(Event::Sample),
        1 => (samples(), 1..2000_u16).prop_map(|(sample, times)| Event::Samples(sample, times)),
        2 => tick.prop_map(Event::Tick),
    ];
    prop::collection::vec(event, 0..60)
}

fn happen(limit: &mut dyn Limit, event: &Event) {
    match event {
        Event::Sample(sample) => limit.sample(sample),
        Event::Samples(sample, times) => (0..*times).for_each(|_| limit.sample(sample)),
        Event::Tick(load) => limit.tick(*load),
    }
}

/// `min`, `initial`, `max`, small ones and such as fill the type.
fn ranges() -> impl Strategy<Value = (u64, u64, u64)> {
    let bound = || prop_oneof![1..300_u64, 1..=u64::MAX, Just(u64::MAX)];
    (bound(), bound(), bound()).prop_map(|(a, b, c)| {
        let mut sorted = [a, b, c];
        sorted.sort_unstable();
        let [min, initial, max] = sorted;
        if min == max {
            (1, 1, max.max(2))
        } else {
            (min, initial, max)
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn whatever_comes_a_limit_stays_within_its_bounds(
        (min, initial, max) in ranges(),
        events in events(),
    ) {
        for mut limit in all(min, initial, max) {
            for event in &events {
                happen(&mut *limit, event);
                prop_assert!((min..=max).contains(&limit.limit()), "{limit:?}");
                prop_assert!(limit.queue_bound() != Some(0), "{limit:?}");
                let _ = limit.insight();
            }
        }
    }

    #[test]
    fn with_any_settings_a_limit_stays_within_its_bounds(
        (min, initial, max) in ranges(),
        events in events(),
        smoothing in prop_oneof![f64::MIN_POSITIVE..1.0, Just(1.0), Just(f64::MIN_POSITIVE)],
        tolerance in prop_oneof![1.0..10.0, Just(1.0), Just(f64::MAX)],
        sizes in prop::array::uniform3(prop_oneof![1..100_u32, Just(u32::MAX)]),
        queue in prop_oneof![1..100_u64, Just(u64::MAX)],
        jitter in prop_oneof![f64::MIN_POSITIVE..2.0, Just(f64::MAX)],
        backoff in 0.5..1.0,
        timeout in (1..u64::MAX).prop_map(Duration::from_nanos),
    ) {
        let [multiplier, window, warmup] = sizes;
        let aimd = Aimd::builder().min(min).initial(initial).max(max).backoff(backoff).timeout(timeout);
        let vegas = Vegas::builder().min(min).initial(initial).max(max).smoothing(smoothing);
        let vegas = vegas.probe_multiplier(multiplier).probe_jitter([jitter]);
        let gradient2 = Gradient2::builder().min(min).initial(initial).max(max).smoothing(smoothing);
        let gradient2 = gradient2.long_window(window).warmup(warmup).queue_size(queue);
        let gradient2 = gradient2.tolerance(tolerance);
        let latency = LatencyGradient::builder().min(min).initial(initial).max(max);
        let latency = latency.tolerance(tolerance.max(1.1));
        let windowed = Windowed::builder(vegas.clone().build().unwrap());
        let windowed = windowed.max_window(timeout.max(Duration::from_secs(1))).min_rtt(Duration::ZERO);
        let limits: [Box<dyn Limit>; 5] = [
            Box::new(aimd.build().unwrap()),
            Box::new(vegas.build().unwrap()),
            Box::new(gradient2.build().unwrap()),
            Box::new(latency.build().unwrap()),
            Box::new(windowed.build().unwrap()),
        ];
        for mut limit in limits {
            for event in &events {
                happen(&mut *limit, event);
                prop_assert!((min..=max).contains(&limit.limit()), "{limit:?}");
                let _ = limit.insight();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// After whatever came, an hour of good work brings every limit to the top.
    #[test]
    fn good_samples_bring_a_limit_back(
        events in events(),
        from in prop_oneof![Just(0), 0..u64::MAX / 2],
    ) {
        for mut limit in all(1, 20, 50) {
            for event in &events {
                happen(&mut *limit, event);
            }
            limit.sample(&sample(from, 10 * MILLI, 1));
            let from = from + HOUR + 20 * SECOND;
            for n in 0..45_000 {
                let in_flight = limit.limit();
                limit.sample(&sample(from + n * 50 * MILLI, 10 * MILLI, in_flight));
                if n % 10 == 0 {
                    limit.tick(load(in_flight, in_flight + 1));
                }
            }
            prop_assert_eq!(limit.limit(), 50, "{:?}", limit);
        }
    }
}
