//! Processes that share a limit.
#![cfg(feature = "fleet")]

use plimsoll_sim::{Described, Fleet, FleetOutcome, fleet_text};
use proptest::prelude::*;

fn fleet(lines: &str) -> Fleet {
    let text = format!("name: test\nduration: 30s\nfleet:\n  rate: 500\n{lines}");
    Fleet::from_text("fleet.yaml", &text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn one(lines: &str, seed: u64) -> FleetOutcome {
    fleet(lines).run(seed).remove(0)
}

const BORROWED: &str = "  processes: 20\n  sharing: borrowed\n";
const ASSIGNED: &str = "  processes: 20\n  sharing: assigned\n";

#[test]
fn the_same_seed_is_the_same_run_and_another_another() {
    for way in [BORROWED, ASSIGNED] {
        let faults = format!("{way}  cuts: 10s\n  restarts: 20s\n");
        assert_eq!(one(&faults, 7), one(&faults, 7));
        assert_ne!(one(&faults, 7), one(&faults, 8));
    }
}

#[test]
fn on_a_good_network_the_limit_is_used_and_divided_fairly() {
    // Proxies are assigned nothing before they have reported.
    for (way, least) in [(BORROWED, 0.9), (ASSIGNED, 0.8)] {
        let outcome = one(way, 1);
        assert!(outcome.above <= outcome.bound, "{outcome:?}");
        assert!(outcome.used > least, "{outcome:?}");
        assert!(
            outcome.fairness > Some(0.95) && outcome.least > Some(0.6),
            "{outcome:?}"
        );
        assert_eq!(outcome.used_parted, None);
        assert_eq!(outcome.unlimited, 0);
    }
}

#[test]
fn who_wants_less_than_there_is_has_it() {
    for (way, least) in [(BORROWED, 0.99), (ASSIGNED, 0.7)] {
        let outcome = one(&format!("{way}  demand: 0.5\n"), 1);
        let part = outcome.admitted as f64 / outcome.demanded as f64;
        assert!(part > least, "{way}{outcome:?}");
    }
}

/// With the store gone for half of the time for all of them, as much is lost, or passes by what they are told to do.
#[test]
fn what_a_partition_costs() {
    let parted = format!("{BORROWED}  partitions: [{{ from: 10s, to: 25s, part: 1 }}]\n");
    let denied = one(&parted, 1);
    assert!(denied.used_parted.unwrap() < 0.05, "{denied:?}");
    assert!(denied.used < 0.6, "{denied:?}");
    assert_eq!(denied.unlimited, 0);
    let admitted = one(&format!("{parted}  outage: admit\n"), 1);
    // One and a half times the rate for fifteen seconds.
    assert!(
        (10_000..11_500).contains(&admitted.unlimited),
        "{admitted:?}"
    );
    let local = one(&format!("{parted}  outage: local\n"), 1);
    assert!((7_000..8_100).contains(&local.unlimited), "{local:?}");
    let half = parted.replace("part: 1", "part: 0.5");
    let half = one(&half, 1);
    // The others use what those do not.
    assert!(half.used_parted.unwrap() > 0.7, "{half:?}");
    assert!(half.fairness.unwrap() < 0.95, "{half:?}");
}

#[test]
fn a_fleet_that_admits_nothing_is_neither_fair_nor_unfair() {
    // It had a fairness of 1, which met expectations, and an infinite least part.
    for (way, faults) in [
        (BORROWED, "  loss: 1\n"),
        (BORROWED, "  demand: 0\n"),
        (ASSIGNED, "  partitions: [{ from: 0s, to: 30s, part: 1 }]\n"),
    ] {
        let lines =
            format!("{way}{faults}expect: {{ fairness: '>= 0', least: '>= 0', most: '<= 2' }}\n");
        let report = fleet(&lines).report(1, 1);
        let outcome = &report.outcomes[0];
        assert_eq!(outcome.admitted, 0);
        assert_eq!(
            (outcome.fairness, outcome.least, outcome.most),
            (None, None, None)
        );
        assert!(
            report.checks.iter().all(|check| !check.met),
            "{:?}",
            report.checks
        );
        let text = fleet_text(&report);
        assert!(!text.contains("inf"), "{text}");
    }
}

#[test]
fn loss_costs_little_and_breaks_nothing() {
    let outcome = one(
        &format!("{BORROWED}  loss: 0.05\n  delay: 10ms\n  timeout: 50ms\n"),
        3,
    );
    assert!(
        outcome.above <= outcome.bound && outcome.used > 0.5,
        "{outcome:?}"
    );
    let clean = one(&format!("{BORROWED}  delay: 10ms\n  timeout: 50ms\n"), 3);
    assert!(clean.used > outcome.used, "{outcome:?}");
}

#[test]
fn clocks_that_disagree_change_nothing_that_matters() {
    for way in [BORROWED, ASSIGNED] {
        let plain = one(way, 5);
        let skewed = one(&format!("{way}  skew: 10s\n"), 5);
        assert!(skewed.above <= skewed.bound, "{skewed:?}");
        assert!((skewed.used - plain.used).abs() < 0.05, "{skewed:?}");
    }
}

#[test]
fn a_store_that_forgets_admits_a_burst_more() {
    let outcome = one(&format!("{BORROWED}  server_restarts: [10s, 20s]\n"), 2);
    let plain = one(BORROWED, 2);
    let more = outcome.admitted - plain.admitted;
    assert!((900..1_100).contains(&more), "{more}");
    assert!((outcome.bound - plain.bound - 1000.0).abs() < 0.1);
    assert!(outcome.above <= outcome.bound);
}

#[test]
fn shipped_fleets_do_what_they_say() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let page = std::fs::read_to_string(format!("{root}/docs/fleets.md")).expect("the page");
    for name in ["borrowed", "assigned"] {
        let file = format!("{root}/examples/fleet/{name}.yaml");
        let Ok(Described::Fleet(fleet)) = Described::from_file(&file) else {
            panic!("{file}");
        };
        let report = fleet.report(1, 1);
        let text = fleet_text(&report);
        assert_eq!(report.checks.len(), 6, "{text}");
        assert!(report.checks.iter().all(|check| check.met), "{text}");
        assert_eq!(text.lines().count(), 5, "{text}");
        assert!(
            page.contains(&text),
            "docs/fleets.md has another table than\n{text}"
        );
    }
}

#[test]
fn every_mistake_has_its_message() {
    let good = "name: n\nduration: 10s\nfleet: { processes: 2, sharing: borrowed, rate: 5 }\n";
    assert!(Fleet::from_text("f.yaml", good).is_ok());
    let cases = [
        (
            "processes: 2",
            "processes: 0",
            "3:21: fleet.processes: expected a number of processes from 1 to 100000, found \"0\"",
        ),
        (
            "processes: 2",
            "processes: []",
            "3:21: fleet.processes: expected a list of numbers of processes, found an empty list",
        ),
        (
            "borrowed",
            "lent",
            "3:33: fleet.sharing: unknown word \"lent\", known are borrowed, assigned",
        ),
        (
            "rate: 5",
            "rate: 0",
            "3:49: fleet.rate: expected a whole number from 1 to 1000000, found \"0\"",
        ),
        (
            "rate: 5",
            "rate: 5, without: deny",
            "3:52: fleet.without: is for `sharing: assigned`; what processes do without the store is `outage`",
        ),
        (
            "borrowed, rate: 5",
            "assigned, rate: 5, loss: 0.1",
            "3:52: fleet.loss: is for `sharing: borrowed`: assignments travel on streams, which break by `cuts`",
        ),
        (
            "borrowed, rate: 5",
            "assigned, rate: 5, outage: deny",
            "3:52: fleet.outage: is for `sharing: borrowed`; what proxies do without an assignment is `without`",
        ),
        (
            "rate: 5",
            "rate: 5, delay: 5",
            "3:59: fleet.delay: expected a duration with its unit such as 250ms, 1s, 5m, 1h or 1d, found \"5\", did you mean `5s`?",
        ),
        (
            "rate: 5",
            "rate: 5, loss: 2",
            "3:58: fleet.loss: expected a part from 0 to 1, found \"2\"",
        ),
        (
            "rate: 5",
            "rate: 5, busy: { part: 1, share: 0.5 }",
            "3:66: fleet.busy.part: expected a part above 0 and below 1, found \"1\"",
        ),
        (
            "rate: 5",
            "rate: 5, partitions: [{ from: 5s, to: 5s, part: 1 }]",
            "3:77: fleet.partitions[0].to: a partition must end after it has begun",
        ),
        (
            "rate: 5",
            "rate: 5, server_restarts: [11s]",
            "3:70: fleet.server_restarts[0]: expected a moment within the simulation, found \"11s\"",
        ),
        (
            "rate: 5",
            "rate: 5, outage: pray",
            "3:60: fleet.outage: unknown word \"pray\", known are deny, admit, local",
        ),
        (
            "duration: 10s",
            "duration: 10s\nexpect: { abov: '<= 1%' }",
            "3:11: expect.abov: unknown field of what is expected, did you mean `above`?",
        ),
        (
            "duration: 10s",
            "duration: 10s\nexpect: { above: 1 }",
            "3:18: expect.above: expected a condition such as \">= 97%\" (with >=, <=, >, < or =), found \"1\"",
        ),
    ];
    let mut wrong = Vec::new();
    for (old, new, message) in cases {
        let text = good.replace(old, new);
        let found = match Fleet::from_text("f.yaml", &text) {
            Ok(_) => "no complaint".to_owned(),
            Err(error) => error.to_string(),
        };
        if found != format!("f.yaml:{message}") {
            wrong.push(format!("{new}: {found}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever goes wrong, no span of time sees more than the bound, and nobody is admitted who did not come.
    #[test]
    fn no_span_of_time_sees_more_than_the_bound(
        seed in any::<u64>(), processes in 1..40_u32, rate in 1..400_u64, burst in 1..400_u64, most in 1..50_u64,
        demand in 0.1..4.0_f64, delay in 1..60_u64, loss in 0.0..0.3_f64, cuts in 1..60_u64, restarts in 1..60_u64,
        skew in 1..5000_u64, keep in 10..2000_u64, restart in 1..20_u64, part in 0.0..1.0_f64, borrowed in any::<bool>(),
    ) {
        let way = if borrowed {
            format!("sharing: borrowed\n  loss: {loss}\n  borrow: {{ max: {most}, keep: {keep}ms }}")
        } else {
            "sharing: assigned".to_owned()
        };
        let text = format!("name: any
duration: 20s
fleet:
  processes: {processes}
  rate: {rate}
  burst: {burst}
  demand: {demand}
  delay: {delay}ms
  cuts: {cuts}s
  restarts: {restarts}s
  skew: {skew}ms
  server_restarts: [{}s]
  partitions: [{{ from: 3s, to: 9s, part: {part} }}]
  {way}
", restart.min(19));
        let fleet = Fleet::from_text("f.yaml", &text).unwrap();
        let outcome = fleet.run(seed).remove(0);
        prop_assert!(outcome.above <= outcome.bound + 1e-6, "{outcome:?}");
        prop_assert!(outcome.admitted + outcome.unlimited + outcome.stale <= outcome.demanded, "{outcome:?}");
        prop_assert!((0.0..=1.0 + 1e-9).contains(&outcome.fairness.unwrap_or(1.0)), "{outcome:?}");
    }
}
