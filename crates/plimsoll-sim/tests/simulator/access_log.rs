//! Traffic from a log.

use plimsoll_sim::{AccessLog, Contender, Simulation, run};
use proptest::prelude::*;

const SERVER: &str = "name: n\nduration: 10s\nrate: 1\nworkers: 100\nservice: 1ms\n";

/// How many were answered in each second.
fn answered(log: &str, seed: u64) -> Vec<u64> {
    let log = AccessLog::from_text("access.log", log).expect("a log");
    let simulation = Simulation::from_text("s.yaml", SERVER).expect("a simulation");
    let run = run(&simulation.access_log(log), &Contender::none(), seed);
    run.seconds
        .iter()
        .map(|second| second.counts().good)
        .collect()
}

#[test]
fn requests_come_when_they_came() {
    let log = "\
# two in the first second, none in the second, three in the third, and one after the end
10.0.0.1 - frank [15/Nov/2026:12:59:59 +0000] \"GET /a[1] HTTP/1.0\" 200 2326
10.0.0.2 - - [15/Nov/2026:13:00:01 +0000] \"GET / HTTP/1.0\" 200 17
10.0.0.2 - - [15/Nov/2026:14:00:01 +0100] \"GET / HTTP/1.0\" 200 17
10.0.0.2 - - [15/Nov/2026:13:00:01 +0000] \"GET / HTTP/1.0\" 200 17

10.0.0.1 - - [15/Nov/2026:12:59:59 +0000] \"GET / HTTP/1.0\" 200 17
10.0.0.1 - - [15/Nov/2026:13:10:00 +0000] \"GET / HTTP/1.0\" 200 17
";
    for seed in 1..4 {
        let seconds = answered(log, seed);
        // One that came in the last moment of a second may be answered in the next.
        assert_eq!(seconds.iter().sum::<u64>(), 5);
        assert_eq!(seconds[..2].iter().sum::<u64>(), 2);
    }
}

#[test]
fn moments_may_be_seconds_since_the_epoch_or_timestamps() {
    for log in [
        "1795089601.250 GET /\n1795089603.750 GET /\n1795089603.5 GET /",
        "2026-11-15T12:00:01.25Z GET /\n2026-11-15T12:00:03.75Z\n2026-11-15T13:00:03.5+01:00 x",
    ] {
        let seconds = answered(log, 1);
        assert_eq!(seconds[..4], [1, 0, 2, 0], "{log}");
    }
}

#[test]
fn what_is_no_log_is_said_with_its_line() {
    let message = |text| AccessLog::from_text("a.log", text).unwrap_err().to_string();
    assert_eq!(
        message("1795089601 GET /\n\nnonsense here"),
        "a.log:3:1: expected a request with its moment, found \"nonsense here\""
    );
    assert_eq!(
        message("# nobody came\n"),
        "a.log:1:1: expected requests, one a line, found nothing"
    );
    assert_eq!(
        message("h - - [99/Nov/2026:12:59:59 +0000] \"GET"),
        "a.log:1:1: expected a request with its moment, found \"h - - [99/Nov/2026:12:59:59 +0000] \\\"GET\""
    );
    assert!(AccessLog::from_file("no/such.log").is_err());
}

proptest! {
    #[test]
    fn nothing_in_a_log_panics(text in "(\\PC{0,20}|[0-9.]{0,30}|\\[[0-9A-Za-z/: +]{0,30}\\]|\n){0,8}") {
        if let Ok(log) = AccessLog::from_text("a.log", &text) {
            prop_assert!(!log.is_empty());
        }
    }
}
