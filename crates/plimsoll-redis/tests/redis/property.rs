//! Random cases, the same in every run unless it is said otherwise.

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseResult, TestRng, TestRunner};

/// Checks `cases` random cases. `PLIMSOLL_CASES=10` checks ten times as many, `PLIMSOLL_SEED=7` others. What fails is shrunk and
/// printed with the seed.
pub(crate) fn for_all<S: Strategy>(
    cases: u32,
    values: &S,
    test: impl Fn(S::Value) -> TestCaseResult,
) {
    let variable = |name| std::env::var(name).ok()?.parse().ok();
    let factor: u32 = variable("PLIMSOLL_CASES").unwrap_or(1);
    let seed: u32 = variable("PLIMSOLL_SEED").unwrap_or(1);
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases: cases.saturating_mul(factor),
        max_shrink_iters: 300,
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    if let Err(error) = TestRunner::new_with_rng(config, rng).run(values, test) {
        panic!("PLIMSOLL_SEED={seed} PLIMSOLL_CASES={factor}: {error}");
    }
}
