//! `plimsoll simulate`, through the program itself: exit status, output and files.

use std::process::Output;

use crate::dir::Dir;

/// Twice what the server can do, for ten seconds.
const OVERLOAD: &str = "name: over load
about: twice too much
duration: 10s
rate: 400
workers: 10
service: { exponential: { mean: 50ms } }
expect:
  all: { goodput: '>= 90%' }
";

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_table_and_status_0_if_all_is_as_expected() {
    let dir = Dir::with(&[("a.yaml", OVERLOAD)]);
    let output = dir.run(&["simulate", "a.yaml", "--limit", "fixed=14"]);
    let text = out(&output);
    assert_eq!(
        (output.status.code(), err(&output).as_str()),
        (Some(0), ""),
        "{text}"
    );
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "over load: twice too much (3 seeds)");
    assert!(lines[1].starts_with("  phase  limit     goodput"), "{text}");
    assert!(lines[2].starts_with("  all    fixed=14"), "{text}");
    assert_eq!(lines[3..], ["", "1 met, 0 failed"]);
    assert_eq!(
        text,
        out(&dir.run(&["simulate", "a.yaml", "--limit", "fixed=14"])),
        "the same every time"
    );
}

#[test]
fn the_worst_seed_stands_beside_the_mean_and_can_be_run_alone() {
    let dir = Dir::with(&[("a.yaml", OVERLOAD)]);
    let text = out(&dir.run(&["simulate", "a.yaml", "-l", "fixed=14", "--seeds", "5"]));
    let head = text.lines().nth(1).expect("a head");
    assert!(head.contains("goodput  worst seed"), "{text}");
    let row = text.lines().nth(2).expect("a row");
    let words: Vec<&str> = row.split_whitespace().collect();
    let (worst, seed) = (words[3], words[4].trim_matches(['(', ')']));
    let alone = out(&dir.run(&[
        "simulate",
        "a.yaml",
        "-l",
        "fixed=14",
        "-q",
        "--first-seed",
        seed,
    ]));
    let row = alone.lines().nth(2).expect("a row");
    assert_eq!(row.split_whitespace().nth(2), Some(worst), "{alone}");
}

#[test]
fn decisions_are_explained_over_time() {
    let dir = Dir::with(&[("a.yaml", OVERLOAD)]);
    let text = out(&dir.run(&["simulate", "a.yaml", "-q", "--explain", "--first-seed", "2"]));
    let (_, decisions) = text
        .split_once("over load, verdict, seed 2: decisions\n")
        .expect(&text);
    let rows: Vec<&str> = decisions
        .lines()
        .take_while(|line| !line.is_empty())
        .collect();
    assert!(rows[0].trim_start().starts_with("at"), "{text}");
    assert!(
        rows[1].ends_with("start") && rows[1].contains(" 20 "),
        "{text}"
    );
    assert!(
        rows.len() > 5 && rows[2..].iter().all(|row| row.contains(" s ")),
        "{text}"
    );
}

#[test]
fn status_1_if_an_expectation_is_not_met() {
    let dir = Dir::with(&[("a.yaml", OVERLOAD)]);
    let output = dir.run(&["simulate", "a.yaml", "--limit", "none,fixed=14", "--quick"]);
    let text = out(&output);
    assert_eq!(
        (output.status.code(), err(&output).as_str()),
        (Some(1), ""),
        "{text}"
    );
    assert!(text.contains("(1 seed)"), "{text}");
    assert!(
        text.contains("\n  FAILED: none, all: expected goodput >= 90%, found "),
        "{text}"
    );
    assert!(text.ends_with("1 met, 1 failed\n"), "{text}");
}

#[test]
fn nothing_is_expected_of_what_is_only_compared() {
    let dir = Dir::with(&[("a.yaml", OVERLOAD)]);
    let output = dir.run(&[
        "simulate",
        "a.yaml",
        "--limit",
        "fixed=14",
        "--compare",
        "--seeds",
        "2",
    ]);
    let text = out(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    for name in ["fixed=14", "none", "oracle"] {
        assert!(text.contains(&format!("\n  all    {name} ")), "{text}");
    }
    assert!(
        text.contains("(2 seeds)") && text.ends_with("1 met, 0 failed\n"),
        "{text}"
    );
}

#[test]
fn status_2_for_a_bad_file_and_the_others_still_run() {
    let broken = OVERLOAD.replace("workers", "wokers");
    let dir = Dir::with(&[("a.yaml", &broken), ("b.yaml", OVERLOAD)]);
    let output = dir.run(&[
        "simulate",
        "a.yaml",
        "missing.yaml",
        "b.yaml",
        "-q",
        "-l",
        "fixed=14",
    ]);
    assert_eq!(output.status.code(), Some(2));
    let messages = err(&output);
    assert!(
        messages.starts_with("a.yaml:5:1: wokers: unknown field of a simulation, did you mean `workers`?\nmissing.yaml: cannot be read: "),
        "{messages}"
    );
    assert!(out(&output).ends_with("1 met, 0 failed\n"));
}

#[test]
fn status_2_for_bad_arguments_with_a_word_of_help() {
    let dir = Dir::with(&[("a.yaml", OVERLOAD)]);
    let cases: [(&[&str], &str); 5] = [
        (&[], "Usage: plimsoll simulate"),
        (
            &["a.yaml", "--limit", "orakle"],
            "unknown limit \"orakle\", did you mean `oracle`?",
        ),
        (
            &["a.yaml", "--plot", "a.gif"],
            "the name must end in .svg or .png",
        ),
        (&["a.yaml", "--seeds", "0"], "0 is not in 1..=1000"),
        (
            &["a.yaml", "--plot", "no/such/place/a.svg", "-q"],
            "no/such/place/a.svg: cannot be written: ",
        ),
    ];
    for (args, message) in cases {
        let output = dir.run(&[&["simulate"], args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(err(&output).contains(message), "{args:?}: {}", err(&output));
    }
    let output = dir.run(&["simulate", "a.yaml", "-q", "--json", "no/such/place/a.json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        err(&output).contains("no/such/place/a.json: "),
        "{}",
        err(&output)
    );
}

#[test]
fn json_goes_to_a_file_or_in_the_place_of_the_tables() {
    let dir = Dir::with(&[("a.yaml", OVERLOAD)]);
    let output = dir.run(&["simulate", "a.yaml", "-q", "-l", "fixed=14", "--json", "-"]);
    let value: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("nothing but JSON");
    assert_eq!(value["simulations"][0]["limits"][0]["limit"], "fixed=14");
    assert_eq!(value["simulations"][0]["checks"][0]["met"], true);
    assert_eq!(output.status.code(), Some(0));

    let output = dir.run(&[
        "simulate", "a.yaml", "-q", "-l", "fixed=14", "--json", "out.json",
    ]);
    assert!(out(&output).starts_with("over load"));
    let written: serde_json::Value = serde_json::from_slice(&dir.read("out.json")).unwrap();
    assert_eq!(written, value);
}

#[test]
fn pictures_are_written_as_their_names_say() {
    let other = OVERLOAD.replace("over load", "other");
    let dir = Dir::with(&[("a.yaml", OVERLOAD), ("b.yaml", &other)]);
    assert_eq!(
        dir.run(&["simulate", "a.yaml", "-q", "--plot", "a.svg"])
            .status
            .code(),
        Some(0)
    );
    assert!(dir.read("a.svg").starts_with(b"<svg "));
    assert_eq!(
        dir.run(&["simulate", "a.yaml", "b.yaml", "-q", "--plot", "p.png"])
            .status
            .code(),
        Some(0)
    );
    for name in ["p-over_load.png", "p-other.png"] {
        let bytes = dir.read(name);
        assert!(
            bytes.starts_with(b"\x89PNG\r\n\x1a\n") && bytes.len() > 10_000,
            "{name}"
        );
    }
}

#[test]
fn help_explains_the_figures_and_the_exit_status() {
    let output = Dir::with(&[]).run(&["simulate", "--help"]);
    assert_eq!(output.status.code(), Some(0));
    let text = out(&output);
    for part in [
        "Goodput is the requests answered in time",
        "2 if\na file could not be read or written.",
        "--compare",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn an_access_log_with_a_garbage_line_is_simulated_and_the_line_is_said() {
    let mut log = String::new();
    for number in 0..200 {
        log += &format!(
            "192.0.2.1 - - [15/Nov/2026:12:00:0{} +0000] \"GET / HTTP/1.1\" 200 5\n",
            number / 20 % 10
        );
    }
    log += "garbage\n";
    let dir = Dir::with(&[("a.yaml", OVERLOAD), ("access.log", &log)]);
    let output = dir.run(&[
        "simulate",
        "a.yaml",
        "--quick",
        "--access-log",
        "access.log",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", out(&output));
    assert_eq!(
        err(&output),
        "access.log: 1 of its lines could not be read (warning)\n\
         access.log:201: it has no moment in brackets: \"garbage\" (warning)\n"
    );
    let output = dir.run(&["simulate", "a.yaml", "--access-log", "a.yaml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        err(&output).contains("a.yaml: no line of its beginning is a request"),
        "{}",
        err(&output)
    );
}

#[test]
fn an_access_log_that_is_cut_short_is_simulated_as_far_as_it_goes_and_that_is_said() {
    // It was simulated without a word.
    let line = b"192.0.2.1 - - [15/Nov/2026:12:00:01 +0000] \"GET / HTTP/1.1\" 200 5\n";
    let length = u16::try_from(line.len()).unwrap();
    // A gzip header and a stored block, after which another one should follow.
    let mut log = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 0];
    log.extend(length.to_le_bytes());
    log.extend((!length).to_le_bytes());
    log.extend(line);
    let dir = Dir::with(&[("a.yaml", OVERLOAD)]);
    std::fs::write(dir.path("access.log.gz"), log).unwrap();
    let arguments = ["simulate", "a.yaml", "-q", "--access-log", "access.log.gz"];
    let output = dir.run(&arguments);
    assert!(
        err(&output).starts_with("access.log.gz: it could not be read to its end: after line 1: "),
        "{}",
        err(&output)
    );
}

#[test]
fn the_schema_is_that_of_the_simulator() {
    let dir = Dir::with(&[]);
    let output = dir.run(&["simulate", "--schema"]);
    assert_eq!(
        (output.status.code(), out(&output)),
        (Some(0), plimsoll_sim::schema())
    );
    assert_eq!(
        dir.run(&["simulate"]).status.code(),
        Some(2),
        "a file or the schema"
    );
}
