//! What is exported: names, types, labels and buckets, to the letter.

use std::sync::Arc;
use std::time::Duration;

use crate::hand::{gate, poll};
use crate::page::{page, sum, value};
use plimsoll::adaptive::{Adaptive, Limit, Sample};
use plimsoll::{Concurrency, Demand, Gate, Limiter, ManualClock, Outcome, Priority, Queue, Reason};
use plimsoll_observe::prometheus_client::registry::Registry;
use plimsoll_observe::{Metric, Metrics, MetricsBuilder};

/// The buckets of one series: `counts` gives the cumulative count from that bound on.
fn histogram(name: &str, labels: &str, sum: &str, first: f64, counts: &[(usize, u64)]) -> String {
    let upto = |k: usize| {
        let reached = counts.iter().rev().find(|(from, _)| *from <= k);
        reached.map_or(0, |(_, count)| *count)
    };
    let mut text = format!("{name}_sum{{{labels}}} {sum}\n");
    text += &format!("{name}_count{{{labels}}} {}\n", upto(20));
    let mut bound = first;
    for k in 0..20 {
        let count = upto(k);
        text += &format!("{name}_bucket{{le=\"{bound:?}\",{labels}}} {count}\n");
        bound *= 2.0;
    }
    text + &format!("{name}_bucket{{le=\"+Inf\",{labels}}} {}\n", upto(20))
}

#[test]
fn a_small_story_is_exported_to_the_letter() {
    let time = ManualClock::new();
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let metered = metrics.meter(Arc::new(gate(&time, 1, 1))).unwrap();
    let critical = Demand::of(1).priority(Priority::Critical);
    let soon = critical.within(Duration::from_millis(3));

    // One runs for 30 ms, one waits for them, one finds no room, and one waits in vain for the second.
    let running = metered.try_acquire("get", 1).unwrap();
    let mut waiting = metered.acquire("POST", critical);
    assert!(poll(&mut waiting).is_pending());
    assert!(poll(&mut metered.acquire("BREW", 1)).is_ready());
    time.advance(Duration::from_millis(30));
    running.finish(Outcome::Success);
    let waited = poll(&mut waiting);
    let mut in_vain = metered.acquire("POST", soon);
    assert!(poll(&mut in_vain).is_pending());
    time.advance(Duration::from_millis(4));
    assert!(poll(&mut in_vain).is_ready());

    let times = "http_requests_task_processing_time_seconds";
    let waits = "http_requests_queue_time_seconds";
    let expected = "\
# HELP http_requests_concurrency_items_total Requests that are processed.
# TYPE http_requests_concurrency_items_total gauge
http_requests_concurrency_items_total 1
# HELP http_requests_concurrency_limit_total How much may be processed at once.
# TYPE http_requests_concurrency_limit_total gauge
http_requests_concurrency_limit_total 1
# HELP http_requests_queue_items_total Requests that wait.
# TYPE http_requests_queue_items_total gauge
http_requests_queue_items_total{method=\"POST\",priority=\"critical\"} 0
# HELP http_requests_queue_limit_total How much may wait.
# TYPE http_requests_queue_limit_total gauge
http_requests_queue_limit_total 1
# HELP http_requests_task_processing_time_seconds How long requests were processed.
# TYPE http_requests_task_processing_time_seconds histogram
"
    .to_owned()
        + &histogram(
            times,
            "method=\"GET\",priority=\"normal\"",
            "0.03",
            0.001,
            &[(5, 1)],
        )
        + &histogram(
            times,
            "method=\"POST\",priority=\"critical\"",
            "0.0",
            0.001,
            &[],
        )
        + "\
# HELP http_requests_queue_time_seconds How long requests waited, of those that had to.
# TYPE http_requests_queue_time_seconds histogram
" + &histogram(
        waits,
        "method=\"POST\",priority=\"critical\"",
        "0.034",
        0.0005,
        &[(3, 1), (6, 2)],
    ) + "\
# HELP http_requests_rejected Requests that were refused.
# TYPE http_requests_rejected counter
http_requests_rejected_total{method=\"POST\",priority=\"critical\",reason=\"queue_timeout\"} 1
http_requests_rejected_total{method=\"UNKNOWN\",priority=\"normal\",reason=\"max_queue_items\"} 1
# EOF
";
    assert_eq!(page(&registry), expected);
    drop(waited);
    assert_eq!(sum(&registry, Metric::ConcurrencyItems.default_name()), 0.0);
}

#[test]
fn before_anybody_came_there_are_the_limits() {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    assert_eq!(page(&registry), "# EOF\n");
    let gate = gate(&ManualClock::new(), 3, 7);
    let metered = metrics.meter(Arc::new(gate.clone())).unwrap();
    let limit = "http_requests_concurrency_limit_total";
    let bound = "http_requests_queue_limit_total";
    assert_eq!(value(&registry, limit), Some(3.0));
    assert_eq!(value(&registry, bound), Some(7.0));
    assert_eq!(page(&registry).lines().count(), 7);
    gate.resize(5).unwrap();
    gate.set_queue_bound(2);
    assert_eq!(value(&registry, limit), Some(5.0));
    assert_eq!(value(&registry, bound), Some(2.0));
    drop(metered);
    assert_eq!(page(&registry), "# EOF\n", "it goes with the limiter");
}

#[test]
fn the_limits_follow_a_limit_that_finds_itself() {
    #[derive(Debug)]
    struct Growing(u64);
    impl Limit for Growing {
        fn limit(&self) -> u64 {
            self.0
        }
        fn sample(&mut self, _sample: &Sample) {
            self.0 += 10;
        }
    }
    let gate = Gate::builder(Adaptive::new(Growing(1)))
        .queue(Queue::fifo(2))
        .clock(ManualClock::new().clock())
        .build();
    let mut registry = Registry::default();
    let metered = Metrics::register(&mut registry)
        .meter(Arc::new(gate))
        .unwrap();
    for (limit, bound) in [(1.0, 2.0), (11.0, 4.0), (21.0, 5.0)] {
        let found = value(&registry, "http_requests_concurrency_limit_total");
        assert_eq!(found, Some(limit));
        let found = value(&registry, "http_requests_queue_limit_total");
        assert_eq!(found, Some(bound));
        metered
            .try_acquire("GET", 1)
            .unwrap()
            .finish(Outcome::Success);
    }
}

/// Makes every metric say something.
fn some_of_everything(builder: MetricsBuilder) -> String {
    let time = ManualClock::new();
    let mut registry = Registry::default();
    let metrics = builder.register(&mut registry).expect("valid names");
    let metered = metrics.meter(Arc::new(gate(&time, 1, 1)));
    let metered = metered.expect("the only one");
    let _running = metered.try_acquire("PUT", 1);
    let mut waiting = metered.acquire("PUT", 1);
    assert!(poll(&mut waiting).is_pending());
    assert!(metered.try_acquire("PUT", 1).is_err());
    metrics.refused("api", Reason::Exhausted);
    page(&registry)
}

#[test]
fn what_is_switched_off_is_not_exported() {
    for off in Metric::ALL {
        let page = some_of_everything(Metrics::builder().off(off));
        for metric in Metric::ALL {
            let there = page.contains(metric.default_name());
            assert_eq!(there, metric != off, "{metric} without {off}");
        }
    }
    let nothing = Metric::ALL
        .into_iter()
        .fold(Metrics::builder(), MetricsBuilder::off);
    assert_eq!(some_of_everything(nothing), "# EOF\n");
}

#[test]
fn each_can_be_renamed() {
    let page = some_of_everything(Metrics::builder());
    for metric in Metric::ALL {
        let renamed = Metrics::builder().rename(metric, "another:name_total");
        let (old, new) = match metric {
            // Of a counter the family is described without the suffix.
            Metric::Rejected => ("http_requests_rejected", "another:name"),
            Metric::Refused => ("plimsoll_refused", "another:name"),
            _ => (metric.default_name(), "another:name_total"),
        };
        assert_eq!(some_of_everything(renamed), page.replace(old, new));
    }
}

#[test]
fn bad_names_are_refused() {
    let refused = |builder: MetricsBuilder| {
        let mut registry = Registry::default();
        let refused = builder.register(&mut registry).unwrap_err().to_string();
        assert_eq!(page(&registry), "# EOF\n");
        refused
    };
    let names = ["", "1st", "with space", "dash-ed", "naïve", "new\nline"];
    for name in names {
        for metric in Metric::ALL {
            let said = refused(Metrics::builder().rename(metric, name));
            assert!(said.contains("expected letters"), "{said}");
        }
    }
    for name in ["rejected", "_total", "total"] {
        let said = refused(Metrics::builder().rename(Metric::Rejected, name));
        assert!(said.contains("`_total` at its end"), "{said}");
    }
    let clashes = [
        (Metric::QueueItems, "http_requests_concurrency_items_total"),
        (
            Metric::QueueTime,
            "http_requests_task_processing_time_seconds",
        ),
        // Not the same name, but the name of a part, or of the family.
        (Metric::QueueItems, "http_requests_queue_time_seconds_sum"),
        (Metric::QueueItems, "http_requests_rejected"),
        (Metric::Rejected, "http_requests_queue_limit_total"),
    ];
    for (metric, name) in clashes {
        let said = refused(Metrics::builder().rename(metric, name));
        assert!(said.contains("expected a name that differs"), "{said}");
        let alone = Metric::ALL
            .into_iter()
            .filter(|other| *other != metric)
            .fold(Metrics::builder(), MetricsBuilder::off);
        let mut registry = Registry::default();
        let valid = alone.rename(metric, name).register(&mut registry);
        assert!(
            valid.is_ok(),
            "{name} clashes with nothing that is exported"
        );
    }
    for label in [
        "", "le", "method", "priority", "reason", "__name", "a b", "1",
    ] {
        let said = refused(Metrics::builder().limiter_label(label));
        assert!(said.starts_with(&format!("label `{label}`")), "{said}");
    }
}

#[test]
fn several_limiters_are_told_apart_by_their_names() {
    let mut registry = Registry::default();
    let metrics = Metrics::builder()
        .limiter_label("limiter")
        .register(&mut registry)
        .unwrap();
    let named = |name: &str| {
        let gate = Gate::builder(Concurrency::new(2)).name(name).build();
        Arc::new(gate) as Arc<dyn Limiter>
    };
    let api = metrics.meter(named("api")).unwrap();
    let odd = metrics.meter(named("the \"odd\" \\ one")).unwrap();
    let unnamed = metrics
        .meter(Arc::new(Gate::new(Concurrency::new(9))))
        .unwrap();
    let permits = [api.try_acquire("GET", 1), odd.try_acquire("GET", 1)];

    let all = page(&registry);
    assert_eq!(
        all.matches("# TYPE http_requests_concurrency_items_total")
            .count(),
        1
    );
    let items = "http_requests_concurrency_items_total{limiter=\"api\"}";
    assert_eq!(value(&registry, items), Some(1.0));
    assert!(all.contains("limit_total{limiter=\"the \\\"odd\\\" \\\\ one\"} 2\n"));
    assert!(all.contains("http_requests_concurrency_limit_total 9\n"));

    let again = metrics.meter(named("api")).unwrap_err();
    assert_eq!(
        again.to_string(),
        "a second limiter `api`: expected each to have a name of its own"
    );
    drop(permits);
    drop(api);
    assert!(metrics.meter(named("api")).is_ok(), "the first one is gone");
    drop(unnamed);

    let plain = Metrics::register(&mut Registry::default());
    let _first = plain.meter(named("first")).unwrap();
    let second = plain.meter(named("second")).unwrap_err();
    assert_eq!(
        second.to_string(),
        "a second limiter: expected a label to tell them apart by"
    );
}

#[test]
fn a_prefix_of_the_registry_applies() {
    let mut registry = Registry::with_prefix("shop");
    let _metered = Metrics::register(&mut registry)
        .meter(Arc::new(gate(&ManualClock::new(), 3, 0)))
        .unwrap();
    let limit = value(&registry, "shop_http_requests_concurrency_limit_total");
    assert_eq!(limit, Some(3.0));
}

#[test]
fn names_of_refusing_limiters_are_bounded() {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    for number in 0..1000 {
        metrics.refused(&format!("limiter {number}"), Reason::TooSoon);
    }
    metrics.refused("limiter 7", Reason::TooSoon);
    metrics.refused("limiter 7", Reason::LockedOut);
    let page = page(&registry);
    let line = |limiter: &str, reason: &str, count: u64| {
        let labels = format!("limiter=\"{limiter}\",reason=\"{reason}\"");
        page.contains(&format!("plimsoll_refused_total{{{labels}}} {count}\n"))
    };
    assert!(line("limiter 7", "too_soon", 2));
    assert!(line("limiter 7", "locked_out", 1));
    assert!(line("limiter 255", "too_soon", 1));
    assert!(line("other", "too_soon", 744));
    assert_eq!(page.matches("plimsoll_refused_total{").count(), 258);
}

#[test]
fn items_are_told_apart_by_method_if_wanted() {
    let mut registry = Registry::default();
    let metrics = Metrics::builder()
        .items_by_method()
        .register(&mut registry)
        .unwrap();
    let metered = metrics
        .meter(Arc::new(Gate::new(Concurrency::new(2))))
        .unwrap();
    let _permit = metered.try_acquire("GET", 1).unwrap();
    let series = "http_requests_concurrency_items_total{method=\"GET\",priority=\"normal\"}";
    assert_eq!(value(&registry, series), Some(1.0));
}
