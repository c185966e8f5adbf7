//! `plimsoll check`, through the program itself: exit status and output.

use crate::dir::{Dir, check};

const GOOD: &str = "limiters: { api: { kind: concurrency, limit: 4 } }\n";
const BAD: &str = "limiters: { api: { kind: concurrency, limt: 4 } }\n";
const EFFECTIVE: &str =
    "limiters:\n  api: # resource\n    kind: concurrency\n    limit: 4\n    keyed: false\n";

const ODD: &str =
    "limiters: { api: { kind: token_bucket, burst: 1, refill: 2, every: 1s, style: interval } }\n";

#[test]
fn the_effective_limits_and_status_0() {
    let dir = Dir::with(&[("a.yaml", GOOD)]);
    check(
        &dir.run(&["check", "a.yaml"]),
        0,
        &format!("# a.yaml\n{EFFECTIVE}"),
        "",
    );
    check(&dir.run(&["check", "--quiet", "a.yaml"]), 0, "", "");
}

#[test]
fn the_mistake_with_its_place_and_status_2() {
    let dir = Dir::with(&[("a.yaml", GOOD), ("b.yaml", BAD)]);
    let err = "b.yaml:1:39: limiters.api.limt: unknown field of the limiter `concurrency`, did you mean `limit`?\n";
    check(
        &dir.run(&["check", "b.yaml", "a.yaml"]),
        2,
        &format!("# a.yaml\n{EFFECTIVE}"),
        err,
    );
}

#[test]
fn several_files_are_several_documents_of_any_format() {
    let toml = "[limiters.api]\nkind = 'concurrency'\nlimit = 4\n";
    let json = r#"{ "limiters": { "api": { "kind": "concurrency", "limit": 4 } } }"#;
    let dir = Dir::with(&[("a.toml", toml), ("b.json", json)]);
    let out = format!("# a.toml\n{EFFECTIVE}---\n# b.json\n{EFFECTIVE}");
    check(&dir.run(&["check", "a.toml", "b.json"]), 0, &out, "");
}

/// Nobody listens there, and nobody is asked.
#[test]
fn where_limits_are_kept_without_a_password() {
    let text = "stores: { main: { url: 'rediss://shop:secret@127.0.0.1:1/2' } }
limiters:
  user: { kind: token_bucket, burst: 40, refill: 1, every: 1s, keyed: true, store: main, outage: { local: 0.5 }, borrow: {} }
  jobs: { kind: concurrency, limit: 4, store: main }
";
    let out = r#"# a.yaml
stores:
  main: { url: "rediss://shop:***@127.0.0.1:1/2", namespace: plimsoll, deadline: 50ms }
limiters:
  user: # rate
    kind: token_bucket
    burst: 40
    refill: 1
    every: 1s
    style: greedy
    initial: 40
    keyed: true
    store: main
    outage: { local: 0.5 }
    borrow: { max: 2, target: 50ms, keep: 1s, max_keys: 10000 }
  jobs: # resource
    kind: concurrency
    limit: 4
    lease: 30s
    keyed: false
    store: main
    outage: deny
"#;
    let dir = Dir::with(&[("a.yaml", text)]);
    check(&dir.run(&["check", "a.yaml"]), 0, out, "");
}

#[test]
fn a_file_that_is_not_there() {
    let dir = Dir::with(&[]);
    let output = dir.run(&["check", "no.yaml"]);
    assert_eq!(output.status.code(), Some(2));
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(err.starts_with("no.yaml: cannot be read: "), "{err}");
}

#[test]
fn the_schema() {
    let dir = Dir::with(&[]);
    check(
        &dir.run(&["check", "--schema"]),
        0,
        &plimsoll_config::schema(),
        "",
    );
    assert_eq!(
        dir.run(&["check"]).status.code(),
        Some(2),
        "a file or the schema"
    );
}

#[test]
fn every_mistake_has_a_line_of_its_own() {
    let text = "limiters:\n  a: { kind: concurrency, limit: 0 }\n  b: { kind: leaky_bucket }\nroutes: [{ match: x, middleware: c }]\n";
    let dir = Dir::with(&[("all.yaml", text)]);
    let output = dir.run(&["check", "all.yaml"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2));
    let starts: Vec<&str> = said
        .lines()
        .map(|line| line.split(": ").next().unwrap_or(line))
        .collect();
    assert_eq!(
        starts,
        [
            "all.yaml:2:34",
            "all.yaml:3:14",
            "all.yaml:4:19",
            "all.yaml:4:34"
        ],
        "{said}"
    );
}

#[test]
fn a_warning_is_no_mistake() {
    let dir = Dir::with(&[("odd.yaml", ODD)]);
    let output = dir.run(&["check", "-q", "odd.yaml"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        (output.status.code(), said.lines().count()),
        (Some(0), 1),
        "{said}"
    );
    assert!(
        said.starts_with("odd.yaml:1:47: limiters.api.burst: with `style: interval`"),
        "{said}"
    );
    assert!(said.ends_with("(warning)\n"), "{said}");
}

#[test]
fn json_has_an_object_for_each_file() {
    let good = "limits: { api: 5/s, slots: { concurrency: 2 } }\nmiddleware: { all: [slots] }\nroutes: [{ match: /, limits: [api, all] }]\n";
    let dir = Dir::with(&[("a.yaml", good), ("b.yaml", BAD), ("c.yaml", ODD)]);
    let output = dir.run(&["check", "--json", "a.yaml", "b.yaml", "c.yaml"]);
    assert_eq!(output.status.code(), Some(2));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let [a, b, c] = json.as_array().expect("a list").as_slice() else {
        panic!("{json}");
    };
    assert_eq!((&a["file"], &a["valid"]), (&"a.yaml".into(), &true.into()));
    assert_eq!(a["files"], serde_json::json!(["a.yaml"]));
    assert_eq!(a["config"]["limits"]["api"]["kind"], "token_bucket");
    assert_eq!(a["config"]["limits"]["api"]["every"], "1s");
    assert_eq!(a["config"]["limits"]["api"]["burst"], 5);
    assert_eq!(a["config"]["limits"]["slots"]["class"], "resource");
    assert_eq!(
        a["config"]["routes"][0]["asks"],
        serde_json::json!(["api", "slots"])
    );
    assert_eq!((&b["valid"], b["config"].is_null()), (&false.into(), true));
    let problem = b["problems"][0].as_str().expect("a line");
    assert!(
        problem.starts_with("b.yaml:1:39: limiters.api.limt: unknown field"),
        "{problem}"
    );
    assert!(
        c["warnings"][0]
            .as_str()
            .is_some_and(|line| line.starts_with("c.yaml:1:")),
        "{c}"
    );
}

#[test]
fn a_file_of_scenarios_is_for_another_command() {
    let scenarios =
        "scenarios: [{ name: a, limiter: { kind: concurrency, limit: 1 }, steps: [{ try: 1 }] }]\n";
    let list = "- { name: a, limiter: { kind: concurrency, limit: 1 }, steps: [{ try: 1 }] }\n";
    let dir = Dir::with(&[("a.yaml", scenarios), ("b.yaml", list)]);
    let err = "a.yaml: this file holds scenarios: did you mean `plimsoll test a.yaml`?\n\
               b.yaml: this file holds scenarios: did you mean `plimsoll test b.yaml`?\n";
    check(&dir.run(&["check", "a.yaml", "b.yaml"]), 2, "", err);
}

#[test]
fn what_comes_from_the_environment_is_used_and_not_shown() {
    let text = "stores: { main: { url: '${PLIMSOLL_TEST_URL}' }, other: { url: { env: PLIMSOLL_TEST_URL } } }\n\
                limits: { api: { rate: '${PLIMSOLL_TEST_RATE}/s', store: main } }\n";
    let dir = Dir::with(&[("a.yaml", text)]);
    let run = |url: &str| {
        let mut command = dir.command(&["check", "a.yaml"]);
        command
            .env("PLIMSOLL_TEST_RATE", "7")
            .env("PLIMSOLL_TEST_URL", url)
            .output()
            .expect("the program runs")
    };
    let output = run("redis://anna:hunter2@127.0.0.1");
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert_eq!((output.status.code(), &*err), (Some(0), ""));
    assert!(
        out.contains("refill: 7\n") && out.contains("${PLIMSOLL_TEST_URL}"),
        "{out}"
    );
    assert!(out.contains("url: { env: PLIMSOLL_TEST_URL }"), "{out}");
    assert!(!out.contains("hunter2") && !out.contains("anna"), "{out}");
    let output = run("redis:/anna:hunter2@127.0.0.1");
    let err = String::from_utf8_lossy(&output.stderr);
    let line = "a.yaml:1:24: stores.main.url: expected the address of a Redis";
    assert!(
        output.status.code() == Some(2) && err.contains(line),
        "{err}"
    );
    assert!(!err.contains("hunter2") && !err.contains("anna"), "{err}");
}
