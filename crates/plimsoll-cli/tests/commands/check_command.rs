//! `plimsoll check`, through the program itself: exit status and output.

use std::path::PathBuf;
use std::process::{Command, Output};

const GOOD: &str = "limiters: { api: { kind: concurrency, limit: 4 } }\n";
const BAD: &str = "limiters: { api: { kind: concurrency, limt: 4 } }\n";
const EFFECTIVE: &str =
    "limiters:\n  api: # resource\n    kind: concurrency\n    limit: 4\n    keyed: false\n";

const ODD: &str =
    "limiters: { api: { kind: token_bucket, burst: 1, refill: 2, every: 1s, style: interval } }\n";

/// A directory of its own for each test, with the files in it.
struct Dir(PathBuf);

impl Dir {
    fn with(test: &str, files: &[(&str, &str)]) -> Self {
        let dir =
            std::env::temp_dir().join(format!("plimsoll-check-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory for the test");
        for (name, text) in files {
            std::fs::write(dir.join(name), text).expect("a file for the test");
        }
        Self(dir)
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        let command = command.current_dir(&self.0).arg("check").args(args);
        command.output().expect("the program runs")
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[track_caller]
fn check(output: &Output, status: i32, out: &str, err: &str) {
    assert_eq!(String::from_utf8_lossy(&output.stdout), out);
    assert_eq!(String::from_utf8_lossy(&output.stderr), err);
    assert_eq!(output.status.code(), Some(status));
}

#[test]
fn the_effective_limits_and_status_0() {
    let dir = Dir::with("good", &[("a.yaml", GOOD)]);
    check(
        &dir.run(&["a.yaml"]),
        0,
        &format!("# a.yaml\n{EFFECTIVE}"),
        "",
    );
    check(&dir.run(&["--quiet", "a.yaml"]), 0, "", "");
}

#[test]
fn the_mistake_with_its_place_and_status_2() {
    let dir = Dir::with("bad", &[("a.yaml", GOOD), ("b.yaml", BAD)]);
    let err = "b.yaml:1:39: limiters.api.limt: unknown field of the limiter `concurrency`, did you mean `limit`?\n";
    check(
        &dir.run(&["b.yaml", "a.yaml"]),
        2,
        &format!("# a.yaml\n{EFFECTIVE}"),
        err,
    );
}

#[test]
fn several_files_are_several_documents_of_any_format() {
    let toml = "[limiters.api]\nkind = 'concurrency'\nlimit = 4\n";
    let json = r#"{ "limiters": { "api": { "kind": "concurrency", "limit": 4 } } }"#;
    let dir = Dir::with("several", &[("a.toml", toml), ("b.json", json)]);
    let out = format!("# a.toml\n{EFFECTIVE}---\n# b.json\n{EFFECTIVE}");
    check(&dir.run(&["a.toml", "b.json"]), 0, &out, "");
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
    borrow: { most: 2, target: 50ms, keep: 1s, max_keys: 10000 }
  jobs: # resource
    kind: concurrency
    limit: 4
    lease: 30s
    keyed: false
    store: main
    outage: deny
"#;
    let dir = Dir::with("stores", &[("a.yaml", text)]);
    check(&dir.run(&["a.yaml"]), 0, out, "");
}

#[test]
fn a_file_that_is_not_there() {
    let dir = Dir::with("none", &[]);
    let output = dir.run(&["no.yaml"]);
    assert_eq!(output.status.code(), Some(2));
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(err.starts_with("no.yaml: cannot be read: "), "{err}");
}

#[test]
fn the_schema() {
    let dir = Dir::with("schema", &[]);
    check(&dir.run(&["--schema"]), 0, &plimsoll_config::schema(), "");
    assert_eq!(dir.run(&[]).status.code(), Some(2), "a file or the schema");
}

#[test]
fn every_mistake_has_a_line_of_its_own() {
    let text = "limiters:\n  a: { kind: concurrency, limit: 0 }\n  b: { kind: leaky_bucket }\nroutes: [{ match: x, middleware: c }]\n";
    let dir = Dir::with("all", &[("all.yaml", text)]);
    let output = dir.run(&["all.yaml"]);
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
    let dir = Dir::with("odd", &[("odd.yaml", ODD)]);
    let output = dir.run(&["-q", "odd.yaml"]);
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
