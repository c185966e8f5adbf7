//! The simulator gives the figures of the test bed it was ported from, where the limiters are the same: without a
//! limit, with one that is told of the workers, and with a plain additive increase, multiplicative decrease.
//!
//! The figures are means of three seeds of other generators, so they agree within chance: goodput within 2 points,
//! the 99th percentile within 6 %, and within 12 % where a queue grows without a bound.

use crate::support::{aimd, shipped_without_expectations, told};
use plimsoll_sim::{Comparison, Contender, Summary};

/// Scenario and phase; goodput in % and p99 in ms of the one that is told, then without a limit.
const TABLE: [(&str, &str, [f64; 2], [f64; 2]); 15] = [
    ("underload", "all", [100.0, 142.0], [100.0, 142.0]),
    ("near_limit", "all", [99.0, 143.0], [100.0, 145.0]),
    ("overload", "start", [100.0, 150.0], [14.0, 6517.0]),
    ("overload", "steady", [100.0, 151.0], [0.0, 39_600.0]),
    ("overload_x5", "steady", [100.0, 152.0], [0.0, 71_400.0]),
    ("capacity_drop", "drop", [101.0, 154.0], [2.0, 40_900.0]),
    ("capacity_drop", "after", [100.0, 143.0], [0.0, 41_200.0]),
    ("slow_dependency", "slow", [100.0, 699.0], [100.0, 699.0]),
    ("slow_dependency", "after", [100.0, 153.0], [100.0, 153.0]),
    ("bursts", "all", [101.0, 144.0], [108.0, 1524.0]),
    ("heavy_tail", "all", [100.0, 490.0], [100.0, 490.0]),
    ("bimodal", "steady", [99.0, 568.0], [0.0, 27_700.0]),
    ("low_rate", "surge", [86.0, 159.0], [2.0, 38_700.0]),
    ("collapse", "steady", [84.0, 182.0], [0.0, 115_800.0]),
    ("retry_storm", "storm", [100.0, 458.0], [13.0, 7435.0]),
];

fn agrees(summary: &Summary, [goodput, p99]: [f64; 2]) -> bool {
    let found = summary.p99_ms.unwrap_or(f64::NAN);
    let share = summary.goodput.unwrap_or(f64::NAN);
    let tolerance = if p99 > 5000.0 { 0.12 } else { 0.06 };
    (100.0 * share - goodput).abs() <= 2.0 && (found / p99 - 1.0).abs() <= tolerance
}

#[test]
fn a_told_limit_and_no_limit_at_all_fare_as_in_the_test_bed() {
    let mut wrong = Vec::new();
    let mut names: Vec<&str> = TABLE.iter().map(|(name, ..)| *name).collect();
    names.dedup();
    assert_eq!(names.len(), 12);
    for name in names {
        let simulation = shipped_without_expectations(name);
        let workers: &[(u64, u64)] = match name {
            "capacity_drop" => &[(0, 40), (60, 10), (120, 40)],
            "slow_dependency" => &[(0, 2000)],
            "low_rate" => &[(0, 2)],
            _ => &[(0, 40)],
        };
        let comparison = Comparison::of(&simulation).test(told(workers));
        let compared = comparison.beside(Contender::none()).run();
        for (_, phase, oracle, none) in TABLE.iter().filter(|row| row.0 == name) {
            for (result, wanted) in compared.limits.iter().zip([*oracle, *none]) {
                let summary = result.phases.iter().find(|it| it.phase == *phase).unwrap();
                if !agrees(summary, wanted) {
                    wrong.push(format!(
                        "{name} {phase} {}: {summary:?}, not {wanted:?}",
                        result.limit
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_limit_that_moves_fares_as_in_the_test_bed() {
    // Additive increase, a tenth less for each answer past the deadline: it saws between full and far too full. The
    // test bed told it how much was in flight when the work began, a sample here when it ended: hence the tolerance.
    let rows = [
        ("overload", "steady", 67.0, 1286.0),
        ("slow_dependency", "slow", 100.0, 699.0),
        ("bimodal", "steady", 98.0, 1583.0),
        ("collapse", "steady", 14.0, 1890.0),
    ];
    for (name, phase, goodput, p99) in rows {
        let simulation = shipped_without_expectations(name);
        let compared = Comparison::of(&simulation).test(aimd()).run();
        let summary = compared.limits[0]
            .phases
            .iter()
            .find(|it| it.phase == phase)
            .unwrap();
        let found = (100.0 * summary.goodput.unwrap(), summary.p99_ms.unwrap());
        assert!(
            (found.0 - goodput).abs() <= 4.0,
            "{name}: {found:?}, not {goodput}"
        );
        assert!(
            (found.1 / p99 - 1.0).abs() <= 0.15,
            "{name}: {found:?}, not {p99}"
        );
    }
}
