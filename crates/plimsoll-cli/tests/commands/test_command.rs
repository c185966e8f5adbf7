//! `plimsoll test`, through the program itself: exit status and output.

use crate::dir::{Dir, check};

const PASSES: &str = "- { name: fine, limiter: { kind: concurrency, limit: 1 }, steps: [{ try: 1, expect: granted }] }\n";
const FAILS: &str = "- { name: wrong, limiter: { kind: concurrency, limit: 1 }, steps: [{ try: 1, expect: denied }] }\n";
const LATER: &str = "- { name: later, limiter: { kind: all, of: [{ kind: concurrency, limit: 1 }], queue: { bound: 1 } }, steps: [{ try: 1 }] }\n";
const BROKEN: &str = "- { name: broken, limitr: { kind: concurrency, limit: 1 } }\n";

#[test]
fn nothing_but_the_counts_when_all_pass() {
    let dir = Dir::with(&[("a.yaml", PASSES), ("b.yaml", PASSES)]);
    let output = dir.run(&["test", "a.yaml", "b.yaml"]);
    check(&output, 0, "2 passed, 0 failed\n", "");
}

#[test]
fn a_line_for_each_that_fails_and_status_1() {
    let dir = Dir::with(&[("a.yaml", PASSES), ("b.yaml", FAILS)]);
    let out = "b.yaml:1: wrong: step 1: expected denied, got granted\n1 passed, 1 failed\n";
    check(&dir.run(&["test", "a.yaml", "b.yaml"]), 1, out, "");
}

#[test]
fn what_is_not_supported_yet_is_said_and_fails_nothing() {
    let both = format!("{LATER}{PASSES}");
    let dir = Dir::with(&[("a.yaml", &both), ("b.yaml", LATER)]);
    let out = "2 not supported yet: queue of all 2\n1 passed, 0 failed\n";
    check(&dir.run(&["test", "a.yaml", "b.yaml"]), 0, out, "");
}

#[test]
fn a_file_that_cannot_be_read_is_status_2_and_the_others_still_run() {
    let files = [("a.yaml", BROKEN), ("b.yaml", FAILS), ("c.yaml", PASSES)];
    let dir = Dir::with(&files);
    let out = "b.yaml:1: wrong: step 1: expected denied, got granted\n1 passed, 1 failed\n";
    let err = "a.yaml:1:19: scenarios[0].limitr: unknown field of a scenario, \
               did you mean `limiter`? (in the scenario \"broken\")\n";
    let output = dir.run(&["test", "a.yaml", "b.yaml", "c.yaml"]);
    check(&output, 2, out, err);

    let output = dir.run(&["test", "missing.yaml", "c.yaml"]);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "1 passed, 0 failed\n"
    );
    assert!(output.stderr.starts_with(b"missing.yaml: cannot be read: "));
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn verbose_has_a_line_for_every_scenario() {
    let dir = Dir::with(&[("a.yaml", &format!("{PASSES}{FAILS}{LATER}"))]);
    let out = "a.yaml:1: fine: passed
a.yaml:2: wrong: step 1: expected denied, got granted
a.yaml:3: later: not supported yet: queue of all
1 not supported yet: queue of all 1
1 passed, 1 failed
";
    check(&dir.run(&["test", "-v", "a.yaml"]), 1, out, "");
    check(&dir.run(&["test", "a.yaml", "--verbose"]), 1, out, "");
}

#[test]
fn json_is_read_by_the_same_reader() {
    let json = r#"{"scenarios": [{"name": "n",
        "limiter": {"kind": "concurrency", "limit": 1},
        "steps": [{"try": 2, "expect": {"reason": "too_large"}}]}]}"#;
    let dir = Dir::with(&[("a.json", json)]);
    check(&dir.run(&["test", "a.json"]), 0, "1 passed, 0 failed\n", "");
}

#[test]
fn without_files_it_says_how_it_is_used() {
    let output = Dir::with(&[]).run(&["test"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("Usage: plimsoll test"));
}

#[test]
fn help_explains_the_exit_status() {
    let output = Dir::with(&[]).run(&["test", "--help"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        String::from_utf8_lossy(&output.stdout)
            .contains("2 if a file could not\nbe read or the store does not answer.")
    );
}

#[test]
fn a_file_of_limits_is_for_another_command() {
    let dir = Dir::with(&[("a.yaml", "limits: { api: 5/s }\n")]);
    let err = "a.yaml: this file holds limits: did you mean `plimsoll check a.yaml`?\n";
    check(
        &dir.run(&["test", "a.yaml"]),
        2,
        "0 passed, 0 failed\n",
        err,
    );
}
