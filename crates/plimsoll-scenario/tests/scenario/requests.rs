//! Requests as steps, against the limits of a configuration file.

use std::fs;
use std::path::{Path, PathBuf};

use plimsoll_scenario::{run_file, run_str};

/// A directory with a configuration, gone when it is dropped.
struct Dir(PathBuf);

impl Dir {
    fn with(test: &str, config: &str) -> Self {
        let name = format!("plimsoll-requests-{test}-{}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).expect("a directory");
        fs::write(dir.join("limits.yaml"), config).expect("written");
        Self(dir)
    }

    /// What comes of a scenario with these steps.
    fn run(&self, steps: &str) -> Result<String, String> {
        let text = format!("- name: n\n  config: limits.yaml\n  steps:\n{steps}");
        let report = run_str(self.0.join("scenarios.yaml"), &text);
        let show = |text: String| text.replace(&format!("{}/", self.0.display()), "");
        report
            .map(|report| show(report.to_string()))
            .map_err(|error| show(error.to_string()))
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const LIMITS: &str = "
limits:
  per_client: { rate: 2/s, key: client }
  tomorrow: { rate: 1/h, mode: shadow }
  bytes: { rate: 1000/h, cost: request_bytes }
  answers: { rate: 100/h, cost: 'response_json:/n' }
  fleet: { rate: 3/min, key: header:x-user, store: shared }
stores: { shared: { url: 'redis://nowhere.invalid' } }
routes:
  - { match: /upload, limits: [bytes] }
  - { match: /answer, limits: [answers] }
  - { match: /fleet, limits: [fleet] }
  - { match: /**, limits: [per_client, tomorrow] }
";

#[test]
fn the_example_passes() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scenarios");
    let report = run_file(examples.join("requests.yaml")).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report.to_string(), "6 passed, 0 failed");
}

#[test]
fn bodies_answers_shadows_and_stores_count_as_on_a_server() {
    let dir = Dir::with("counts", LIMITS);
    let steps = r#"
    - { request: POST /upload, body: 400, expect: allowed, remaining: { bytes: 600 } }
    - { request: POST /upload, body: 700, expect: refused by bytes }
    - { request: GET /answer, answer: '{"n": 30}', expect: allowed, remaining: { answers: 70 } }
    - { request: GET /x from 2001:db8::1, times: 2, expect: allowed }
    # The same client by its prefix of 64 bits; the limit in shadow mode refuses nobody.
    - { request: GET /x from 2001:db8::2, expect: { refused_by: per_client, retry_after: 499ms, within: 1ms } }
    - { request: GET /fleet, headers: { x-user: anna }, times: 3, expect: allowed }
    - { request: GET /fleet, headers: { x-user: anna }, expect: { refused_by: fleet, retry_after: 20s } }
"#;
    assert_eq!(dir.run(steps).as_deref(), Ok("1 passed, 0 failed"));
}

#[test]
fn what_does_not_come_as_expected_is_told_with_its_line() {
    let dir = Dir::with("fails", LIMITS);
    let cases = [
        (
            "    - { request: GET /x from 192.0.2.1, times: 3, expect: allowed }",
            "step 1: expected allowed, got refused by per_client (exhausted, retry_after 500ms)",
        ),
        (
            "    - { request: GET /x from 192.0.2.1, expect: refused by tomorrow }",
            "step 1: expected refused by tomorrow, got allowed",
        ),
        (
            "    - { request: GET /x from 192.0.2.1, expect: allowed, remaining: { per_client: 2 } }",
            "step 1: expected 2 of `per_client` remaining, got 1",
        ),
        (
            "    - { request: GET /x from 192.0.2.1, expect: { result: allowed, status: 201 } }",
            "step 1: expected status 201, got 200",
        ),
        (
            "    - { request: GET /x from 192.0.2.1, remaining: { bytes: 1 } }",
            "step 1: expected 1 of `bytes` remaining, got no such limit in the decision of this request",
        ),
        (
            "    - { ask: per_client, key: k, cost: 3, expect: { reason: exhausted } }",
            "step 1: expected reason exhausted, got too_large",
        ),
    ];
    for (steps, wrong) in cases {
        let told = format!("scenarios.yaml:4: n: {wrong}\n0 passed, 1 failed");
        assert_eq!(dir.run(steps), Ok(told), "{steps}");
    }
}

#[test]
fn mistakes_are_told_with_their_places_and_the_nearest_names() {
    let dir = Dir::with("mistakes", LIMITS);
    let cases = [
        (
            "    - { request: GET login }",
            "4:18: scenarios[0].steps[0].request: expected a request such as GET /login from 10.0.0.7, found \"GET login\"",
        ),
        (
            "    - { request: GET / from 10.0.0 }",
            "4:18: scenarios[0].steps[0].request: expected an address such as 10.0.0.7 or 2001:db8::1, found \"10.0.0\"",
        ),
        (
            "    - { request: GET /, expect: refused by per_cient }",
            "4:33: scenarios[0].steps[0]: \"limits.yaml\" has no limit \"per_cient\", did you mean `per_client`?",
        ),
        (
            "    - { ask: per_client, headers: { a: b } }",
            "4:26: scenarios[0].steps[0].headers: this goes with `request`",
        ),
        (
            "    - { finish: a }",
            "4:17: scenarios[0].steps[0].finish: no step up to here has `as: \"a\"`",
        ),
        (
            "    - { request: GET /, exect: allowed }",
            "4:25: scenarios[0].steps[0].exect: unknown field of a step, did you mean `expect`?",
        ),
        (
            "    - { request: GET /, expect: { result: allowed, retry_after: 1s } }",
            "4:52: scenarios[0].steps[0].expect.retry_after: only a refusal has this, and something else is expected",
        ),
    ];
    for (steps, wrong) in cases {
        let error = dir.run(steps).expect_err(steps);
        let wrong = format!("scenarios.yaml:{wrong}");
        assert!(error.starts_with(&wrong), "{error}\n{wrong}");
    }
    fs::write(dir.0.join("limits.yaml"), "limits: { a: 1/fortnight }").expect("written");
    let error = dir
        .run("    - { request: GET / }")
        .expect_err("no such rate");
    assert!(
        error.contains("scenarios[0].config: limits.yaml:1:"),
        "{error}"
    );
    fs::remove_file(dir.0.join("limits.yaml")).expect("removed");
    let error = dir.run("    - { request: GET / }").expect_err("no file");
    assert!(error.contains("limits.yaml: cannot be read"), "{error}");
}
