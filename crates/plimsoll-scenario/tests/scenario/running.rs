//! Scenarios that pass, scenarios that fail, and what is said about them.

use plimsoll_scenario::{ScenarioStatus, assert_file, run_str};

/// Runs one scenario called `n`.
fn run(limiter: &str, steps: &str) -> String {
    let text = format!("- name: n\n  limiter: {{ kind: {limiter} }}\n  steps: {steps}\n");
    let report = run_str("f.yaml", &text).expect("a readable file");
    report.to_string()
}

/// For each sort of expectation and each verb there is a scenario that fails by it: a check that cannot fail
/// checks nothing. The table is in `failing.txt`: limiter, steps, and what is said.
#[test]
fn every_expectation_can_fail() {
    let mut rows = 0;
    for row in include_str!("../failing.txt")
        .split("\n\n")
        .filter(|row| !row.starts_with('#'))
    {
        let (scenario, message) = row.trim_end().split_once("\n=> ").expect(row);
        let (limiter, steps) = scenario.split_once(" | ").expect(row);
        let report = run(limiter, steps);
        assert_eq!(
            report,
            format!("f.yaml:3: n: {message}\n0 passed, 1 failed"),
            "of {scenario}"
        );
        rows += 1;
    }
    assert!(rows > 50, "the table could not be read");
}

#[test]
fn the_same_expectations_can_be_met() {
    let window = "fixed_window, limit: 1, window: 1s";
    let bucket = "token_bucket, burst: 1, refill: 1, every: 1s";
    let queue = "concurrency, limit: 1, queue: { bound: 1 }";
    let all = "all, of: [{ kind: concurrency, limit: 2, name: a }, { kind: concurrency, limit: 1, name: b }]";
    let table = [
        (
            window,
            "[{ try: 1 }, { try: 1, expect: { retry_after: 999ms, within: 1ms } }]",
        ),
        (
            window,
            "[{ try: 1 }, { try: 1, expect: { retry_after: 1001ms, within: 1ms } }]",
        ),
        (
            window,
            "[{ try: 1 }, { try: 1, expect: { retry_after: 999ms, within: 1ms, sufficient: true } }]",
        ),
        (
            window,
            "[{ try: 1 }, { try: 1, expect: { retry_after: 1s, sufficient: true } }]",
        ),
        (
            window,
            "[{ try: 2, expect: { reason: too_large, retry_after: none } }]",
        ),
        (
            window,
            "[{ try: 1, expect: { result: granted, retry_after: none } }]",
        ),
        (
            bucket,
            "[{ try: 1 }, { reserve: 1, expect: { result: granted, wait: 1s } }]",
        ),
        (
            bucket,
            "[{ try: 1 }, { reserve: 1, expect: { wait: 900ms, within: 100ms } }]",
        ),
        (
            bucket,
            "[{ take_up_to: 5, expect: { taken: 1 } }, { take_up_to: 5, expect: { taken: 0 } }]",
        ),
        (
            queue,
            "[{ try: 1 }, { reserve: 1, as: r, expect: pending, settled: { r: pending }, waiters: 1 }]",
        ),
        (all, "[{ try: 1 }, { try: 1, expect: { refused_by: b } }]"),
    ];
    for (limiter, steps) in table {
        assert_eq!(
            run(limiter, steps),
            "1 passed, 0 failed",
            "{limiter} {steps}"
        );
    }
}

#[test]
fn reservations_can_be_used_and_called_off() {
    let queue = "concurrency, limit: 1, queue: { bound: 3 }";
    let bucket = "token_bucket, burst: 2, refill: 1, every: 1s";
    let table = [
        // On concurrency a reservation waits like anybody else.
        (
            queue,
            "[{ try: 1, as: h }, { reserve: 1, as: r }, { release: h, settled: { r: granted }, in_use: 1 }]",
        ),
        (
            queue,
            "[{ reserve: 1, as: r, expect: granted }, { cancel: r, in_use: 0, settled: { r: cancelled } }]",
        ),
        (
            queue,
            "[{ reserve: 1, as: r }, { at: 1s, release: r, in_use: 0, settled: { r: granted } }]",
        ),
        (
            queue,
            "[{ try: 1, as: h }, { reserve: 1, as: r }, { release: h }, { cancel: r, in_use: 0 }]",
        ),
        (
            queue,
            "[{ try: 1 }, { reserve: 1, as: r }, { cancel: r, waiters: 0, settled: { r: cancelled } }]",
        ),
        (
            queue,
            "[{ try: 1 }, { reserve: 1, as: r }, { close: true, settled: { r: { result: denied, reason: closed } } }]",
        ),
        // Being asked what became of it does not use it up.
        (
            bucket,
            "[{ try: 2 }, { reserve: 2, as: r, settled: { r: pending } }, { at: 2s, settled: { r: granted } }, { cancel: r, available: 2 }]",
        ),
        (
            bucket,
            "[{ try: 2 }, { reserve: 2, as: r }, { at: 3s, settled: { r: granted }, available: 1 }, { cancel: r, available: 1 }]",
        ),
        (
            bucket,
            "[{ try: 2 }, { reserve: 1, as: r }, { at: 1s, release: r, available: 0 }, { release: r }]",
        ),
    ];
    for (limiter, steps) in table {
        assert_eq!(
            run(limiter, steps),
            "1 passed, 0 failed",
            "{limiter} {steps}"
        );
    }
}

#[test]
fn doing_it_twice_is_harmless() {
    let queue = "concurrency, limit: 2, queue: { bound: 3 }";
    let table = [
        "[{ try: 1, as: a }, { release: a, in_use: 0 }, { release: a, in_use: 0 }]",
        "[{ try: 2 }, { acquire: 1, as: a }, { cancel: a }, { cancel: a, settled: { a: cancelled }, cancelled_total: 1 }]",
        // Cancelling comes too late for one that has been granted or refused.
        "[{ acquire: 1, as: a }, { cancel: a, settled: { a: granted }, in_use: 1 }]",
        "[{ acquire: 3, as: a }, { cancel: a, settled: { a: denied } }]",
    ];
    for steps in table {
        assert_eq!(run(queue, steps), "1 passed, 0 failed", "{steps}");
    }
}

#[test]
fn what_has_no_name_is_kept_to_the_end() {
    let queue = "concurrency, limit: 2, queue: { bound: 3 }";
    let steps = "[{ try: 1 }, { acquire: 1 }, { acquire: 1, waiters: 1 }, { reserve: 1, waiters: 2 }, { in_use: 2 }]";
    assert_eq!(run(queue, steps), "1 passed, 0 failed");
}

#[test]
fn a_name_used_again_stands_for_the_new_one() {
    let steps = "[{ try: 1, as: a }, { try: 1, as: a, in_use: 2 }, { release: a, in_use: 1 }, { release: a, in_use: 1 }]";
    assert_eq!(run("concurrency, limit: 2", steps), "1 passed, 0 failed");
}

#[test]
fn the_limiter_is_built_at_the_start_and_time_never_steps_back() {
    let text = "
- name: n
  start: 10500ms
  limiter: { kind: fixed_window, limit: 1, window: 1s }
  steps:
    - { try: 1, expect: granted }
    - { try: 1, expect: { retry_after: 1s } }
    - { at: 2s, try: 1, expect: { retry_after: 1s } }
    - { at: 11500ms, try: 1, expect: granted }
- name: aligned to the epoch
  start: 10500ms
  limiter: { kind: fixed_window, limit: 1, window: 1s, align: epoch }
  steps:
    - { try: 1, expect: granted }
    - { try: 1, expect: { retry_after: 500ms } }
";
    assert_eq!(
        run_str("f.yaml", text).unwrap().to_string(),
        "2 passed, 0 failed"
    );
}

#[test]
fn what_no_limiter_can_do_yet_is_counted_by_kind() {
    let text = "
- { name: a, limiter: { kind: adaptive, algorithm: verdict }, steps: [{ try: 1, expect: granted, limit: 20 }] }
- { name: b, limiter: { kind: all, keyed: true, of: [{ kind: concurrency, limit: 1 }] }, steps: [{ try: 1, key: k }] }
- { name: c, limiter: { kind: concurrency, limit: 1, keyed: true }, steps: [{ forget: k }] }
- { name: d, limiter: { kind: all, of: [{ kind: concurrency, limit: 1 }], queue: { bound: 1 } }, steps: [{ try: 1 }] }
- { name: e, limiter: { kind: adaptive, algorithm: aimd, keyed: true }, steps: [{ reserve: 1, key: k }] }
- { name: f, limiter: { kind: concurrency, limit: 1 }, steps: [{ try: 1, expect: granted }] }
- { name: g, limit: { algorithm: verdict }, columns: [start_ns, rtt_ns, in_flight, dropped, limit_after], samples: [[0, 1, 2, 0, 20]] }
- { name: h, limiter: { kind: concurrency, limit: 1 }, steps: [{ try: 1, expect: denied }] }
";
    let report = run_str("f.yaml", text).unwrap();
    let expected = "f.yaml:9: h: step 1: expected denied, got granted
3 not supported yet: keyed 2, queue of all 1
4 passed, 1 failed";
    assert_eq!(report.to_string(), expected);
    assert_eq!(
        report.lines().nth(1).unwrap(),
        "f.yaml:3: b: not supported yet: keyed"
    );
    assert_eq!(report.lines().nth(5).unwrap(), "f.yaml:7: f: passed");
    let ScenarioStatus::Failed(failure) = report.results()[7].status() else {
        panic!("{report}");
    };
    assert_eq!((failure.step(), failure.line()), (1, 9));
}

#[test]
fn a_scenario_ends_at_the_first_step_that_fails() {
    let text = "- name: |\n    two\n    lines\n  limiter: { kind: concurrency, limit: 1 }\n  steps:\n  - { try: 1 }\n  - { try: 1, expect: granted }\n  - { try: 1, expect: granted }\n";
    let report = run_str("dir/f.json", text).unwrap().to_string();
    assert_eq!(
        report,
        "dir/f.json:7: two lines : step 2: expected granted, got denied (exhausted)\n0 passed, 1 failed"
    );
}

fn assert_text(name: &str, text: &str) {
    let name = format!("plimsoll-{name}-{}.yaml", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, text).expect("a file for the test");
    let outcome = std::panic::catch_unwind(|| assert_file(&path));
    std::fs::remove_file(&path).expect("the file is still there");
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn assert_file_is_silent_when_all_pass() {
    let text = "- { name: n, limiter: { kind: concurrency, limit: 1 }, steps: [{ limit: 1 }] }";
    assert_text("passes", text);
}

#[test]
#[should_panic(expected = ":1: n: step 1: expected limit 2, got 1\n0 passed, 1 failed")]
fn assert_file_panics_with_the_report() {
    let text = "- { name: n, limiter: { kind: concurrency, limit: 1 }, steps: [{ limit: 2 }] }";
    assert_text("fails", text);
}

#[test]
#[should_panic(expected = "1 not supported yet: keyed 1\n0 passed, 0 failed")]
fn assert_file_does_not_take_unsupported_for_passed() {
    let text = "- { name: n, limiter: { kind: adaptive, algorithm: verdict, keyed: true }, steps: [{ reserve: 1, key: k }] }";
    assert_text("unsupported", text);
}

#[test]
#[should_panic(expected = "no/such/file.yaml: cannot be read")]
fn assert_file_panics_when_there_is_no_file() {
    assert_file("no/such/file.yaml");
}

#[test]
fn what_a_naive_model_found_does_not_come_back() {
    assert_file(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/model.yaml"));
}

#[test]
fn amounts_above_32_bits() {
    assert_file(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/wide.yaml"));
}

#[test]
fn a_trace_of_every_algorithm() {
    assert_file(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/traces.yaml"));
}

/// Each number of a trace can be the one that differs.
#[test]
fn a_trace_fails_at_the_first_row_that_differs() {
    let aimd =
        "{ algorithm: aimd }\n  columns: [start_ns, rtt_ns, in_flight, dropped, limit_after]";
    let gradient = "{ algorithm: latency_gradient }";
    let table = [
        (
            aimd,
            "[0, 1, 20, 0, 21]\n  - [0, 1, 21, 0, 23]\n  - [0, 1, 22, 0, 99]",
            "f.yaml:6: n: step 2: expected limit 23, got 22",
        ),
        (
            gradient,
            "[s, 10, 11, 12]",
            "f.yaml:4: n: step 1: expected avg 11, got 10; expected min 12, got 10",
        ),
        (
            gradient,
            "[s, 10, 10, 10]\n  - [t, 5, 2, 8, 21, 11, 12, 2]",
            "f.yaml:5: n: step 2: expected limit 8, got 7; expected queue limit 21, got 20; \
             expected avg 11, got 10; expected min 12, got 10; expected samples 2, got 1",
        ),
    ];
    for (limit, rows, message) in table {
        let text = format!("- name: n\n  limit: {limit}\n  samples:\n  - {rows}\n");
        let report = run_str("f.yaml", &text).unwrap().to_string();
        assert_eq!(report, format!("{message}\n0 passed, 1 failed"));
    }
}

fn assert_example(name: &str) {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/scenarios");
    assert_file(std::path::Path::new(examples).join(name));
}

#[test]
fn scenarios_have_amounts_of_64_bits() {
    assert_example("large_amounts.yaml");
}

#[test]
fn scenarios_say_which_events_happen() {
    assert_example("events.yaml");
    let text = "- { name: n, limiter: { kind: concurrency, limit: 1 }, steps: [{ try: 1, events: [rejected] }] }";
    let report = run_str("f.yaml", text).unwrap().to_string();
    let expected = "expected events [rejected], got [processing, in_use_changed]";
    assert!(report.contains(expected), "{report}");
    let wrong =
        "- { name: n, limiter: { kind: concurrency, limit: 1 }, steps: [{ events: [enqeued] }] }";
    let error = run_str("f.yaml", wrong).unwrap_err().to_string();
    assert!(
        error.contains("unknown word \"enqeued\", did you mean `enqueued`?"),
        "{error}"
    );
}

#[test]
fn scenarios_wait_for_memory_and_for_the_processor() {
    assert_example("machine.yaml");
    let wrong = "- { name: n, limiter: { kind: concurrency, limit: 1 }, steps: [{ sample: 90% }] }";
    let error = run_str("f.yaml", wrong).unwrap_err().to_string();
    assert!(error.contains("it goes with `memory`, `cpu`"), "{error}");
}

#[test]
fn scenarios_ask_shares_policies_and_learned_limits_by_key() {
    assert_example("by_key.yaml");
}
