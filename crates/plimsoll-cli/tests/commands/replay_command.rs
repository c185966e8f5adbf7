//! `plimsoll replay`, through the program itself: exit status, output and files.

use std::io::Write;
use std::process::{Output, Stdio};

use crate::dir::Dir;

const LIMITS: &str = "limits:
  per_client: { rate: 1/min, burst: 2, key: client }
routes:
  - { match: /**, limits: [per_client] }
";

/// Five requests of one client, one of another, and a line that is none.
fn log() -> String {
    let line = |client: u8, second: u8| {
        format!(
            "192.0.2.{client} - - [15/Nov/2026:12:00:0{second} +0000] \"GET /a?b HTTP/1.1\" 200 5 \"-\" \"-\" 0.100\n"
        )
    };
    let mut text: String = (1..6).map(|second| line(7, second)).collect();
    text += "garbage\n";
    text + &line(8, 6)
}

/// The status, and what was written to both outputs.
fn run(dir: &Dir, args: &[&str]) -> (Option<i32>, String, String) {
    said(&dir.run(&[&["replay"], args].concat()))
}

fn said(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn who_would_have_been_refused_on_a_screen() {
    let dir = Dir::with(&[("limits.yaml", LIMITS), ("access.log", &log())]);
    let (status, text, err) = run(&dir, &["limits.yaml", "access.log"]);
    assert_eq!((status, err.as_str()), (Some(0), ""), "{text}");
    assert!(
        text.lines().count() <= 24 && text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    assert_eq!(
        text,
        "\
6 requests, 2026-11-15 12:00:01 to 12:00:06 UTC (5.0 s)
of access.log (combined), under limits.yaml
admitted 3    50.00 %
refused  3    50.00 %
unread   1  line: access.log:6: it has no moment in brackets

limit                                   asked    refused     share     alone
per_client       1/m, burst 2               6          3   50.00 %   50.00 %
  per_client: first 12:00:03 access.log:3 GET /a; 1 of 2 keys
route                                requests    refused     share
/**                                         6          3   50.00 %  per_client
most refused     per_client       192… (9)                                   3
! Refused clients might have come again: the log does not show that.
! Moments are whole seconds: requests of a second were spread over it evenly.
"
    );
    let (_, text, _) = run(
        &dir,
        &["limits.yaml", "access.log", "--show-keys", "--top", "1"],
    );
    assert!(text.contains("192.0.2.7 "), "{text}");
}

#[test]
fn logs_come_by_standard_input_and_in_the_format_that_is_said() {
    let dir = Dir::with(&[("limits.yaml", LIMITS)]);
    let mut command = dir.command(&[
        "replay",
        "limits.yaml",
        "-",
        "--format",
        "csv",
        "--duration-unit",
        "ms",
        "--window",
        "5s",
        "--deadline",
        "1s",
    ]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut input = child.stdin.take().expect("an input");
    input
        .write_all(b"time,client,path,duration\n1794744001.5,192.0.2.1,/,250\n")
        .expect("it reads");
    drop(input);
    let (status, text, _) = said(&child.wait_with_output().expect("it ends"));
    assert_eq!(status, Some(0));
    assert!(
        text.starts_with("1 request, 2026-11-15 12:00:01 "),
        "{text}"
    );
    assert!(text.contains("of standard input (csv)"), "{text}");
}

#[test]
fn thresholds_are_exit_codes() {
    let dir = Dir::with(&[("limits.yaml", LIMITS), ("access.log", &log())]);
    let run = |thresholds: &[&str]| {
        let arguments: Vec<&str> = thresholds
            .iter()
            .flat_map(|it| ["--max-refused", it])
            .collect();
        let (status, _, err) = run(
            &dir,
            &[&["limits.yaml", "access.log"], &arguments[..]].concat(),
        );
        (status, err)
    };
    assert_eq!(run(&["50%", "per_client=0.5"]), (Some(0), String::new()));
    assert_eq!(
        run(&["49.9%"]),
        (
            Some(1),
            "refused 50.0000 % of all requests, at most 49.9 % may be\n".to_owned()
        )
    );
    assert_eq!(run(&["per_client=1%"]).0, Some(1));
    let (status, err) = run(&["nobody=1%"]);
    assert_eq!(status, Some(2));
    assert!(
        err.contains("limits.yaml has no such limit; it has per_client"),
        "{err}"
    );
    let (status, err) = run(&["much"]);
    assert_eq!(status, Some(2));
    assert!(
        err.contains("expected a share such as 0.1% or 0.001"),
        "{err}"
    );
}

#[test]
fn json_and_a_page_are_written() {
    let dir = Dir::with(&[("limits.yaml", LIMITS), ("access.log", &log())]);
    let (status, text, err) = run(
        &dir,
        &[
            "limits.yaml",
            "access.log",
            "--json",
            "-",
            "--html",
            "report.html",
        ],
    );
    assert_eq!((status, err.as_str()), (Some(0), ""));
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON and nothing else");
    assert_eq!(
        (&json["requests"], &json["refused"]),
        (&6.into(), &3.into())
    );
    assert!(dir.read("report.html").starts_with(b"<!doctype html>"));
    let (_, text, _) = run(
        &dir,
        &["limits.yaml", "access.log", "--json", "report.json"],
    );
    assert!(text.starts_with("6 requests"), "{text}");
    assert_eq!(
        serde_json::from_slice::<serde_json::Value>(&dir.read("report.json")).expect("JSON"),
        json
    );
    let (status, _, err) = run(
        &dir,
        &["limits.yaml", "access.log", "--html", "no/such/report.html"],
    );
    assert_eq!(status, Some(2));
    assert!(err.contains("no/such/report.html: "), "{err}");
}

#[test]
fn against_another_file_and_suggestions() {
    let old = LIMITS.replace("burst: 2", "burst: 4");
    let dir = Dir::with(&[
        ("limits.yaml", LIMITS),
        ("old.yaml", &old),
        ("access.log", &log()),
    ]);
    let (status, text, err) = run(
        &dir,
        &[
            "limits.yaml",
            "access.log",
            "--against",
            "old.yaml",
            "--suggest",
            "20%",
        ],
    );
    assert_eq!((status, err.as_str()), (Some(0), ""), "{text}");
    assert!(
        text.contains("-          2 admitted before, refused now  most by per_client"),
        "{text}"
    );
    assert!(
        text.contains(
            "per_client       1/m, burst 2 refuses 50.00 %; 2/m, burst 4 would refuse 16.67 %"
        ),
        "{text}"
    );
    let (status, _, err) = run(&dir, &["limits.yaml", "-", "--suggest"]);
    assert_eq!(status, Some(2));
    assert!(
        err.contains("expected files, found the standard input"),
        "{err}"
    );
}

#[test]
fn what_cannot_be_read_is_said_with_a_remedy() {
    let files = [
        ("limits.yaml", LIMITS),
        ("text.log", "Dear reader\n"),
        ("empty.log", ""),
        ("bare.yaml", "limits: { a: 1/s }"),
        ("wrong.yaml", "limits: { a: 1/parsec }"),
    ];
    let dir = Dir::with(&files);
    for (args, wanted) in [
        (
            ["limits.yaml", "text.log"],
            "text.log: no line of its beginning is a request of a known format",
        ),
        (
            ["limits.yaml", "empty.log"],
            "expected requests, one a line, found none",
        ),
        (
            ["limits.yaml", "missing.log"],
            "missing.log: cannot be read",
        ),
        (
            ["bare.yaml", "empty.log"],
            "bare.yaml: it has no routes, so no request asks its limits: expected `routes`",
        ),
        (["wrong.yaml", "empty.log"], "wrong.yaml:1:"),
    ] {
        let (status, text, err) = run(&dir, &args);
        assert_eq!((status, text.as_str()), (Some(2), ""), "{err}");
        assert!(err.contains(wanted), "{err}");
    }
}
