//! Logs as they are found: out of order, packed, in pieces, and with lines that are none.

use std::io::Write;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use plimsoll_replay::{LogError, Logs, Requests};

use crate::support::{Dir, line};

fn paths(requests: &mut Requests) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(record) = requests.next() {
        all.push(record.target().to_owned());
    }
    all
}

#[test]
fn lines_that_are_none_are_counted_and_shown_and_the_rest_is_read() {
    let dir = Dir::new("bad");
    let mut text = Vec::new();
    for number in 0..1000 {
        text.extend(
            format!(
                "192.0.2.1 - - [15/Nov/2026:12:00:01 +0000] \"GET /{number} HTTP/1.1\" 200 1\n"
            )
            .bytes(),
        );
        if number % 100 == 0 {
            text.extend(b"\xff\xfe garbage\n\n");
        }
    }
    text.extend(b"192.0.2.1 - - [15/Nov/2026:12:00:01 +0000] \"-\" 400 0\n");
    let mut requests = dir.log(&text).open().expect("a log");
    assert_eq!(paths(&mut requests).len(), 1000);
    let seen = requests.summaries().remove(0);
    assert_eq!((seen.requests, seen.bad, seen.lines), (1000, 11, 1021));
    let bad = requests.bad_lines();
    assert_eq!(bad.len(), 3);
    assert_eq!(
        bad[0].to_string(),
        "access.log:2: it has no moment in brackets: \"\u{fffd}\u{fffd} garbage\""
    );
}

#[test]
fn a_line_longer_than_64_kib_is_one_bad_line_and_takes_no_memory() {
    let dir = Dir::new("long");
    let good = "192.0.2.1 - - [15/Nov/2026:12:00:01 +0000] \"GET / HTTP/1.1\" 200 1\n";
    let long = format!(
        "192.0.2.1 - - [15/Nov/2026:12:00:01 +0000] \"GET /{} HTTP/1.1\" 200 1\n",
        "x".repeat(3 << 20)
    );
    let text = [good, &long, good, &long].concat();
    let mut requests = dir.log(text.trim_end()).open().expect("a log");
    assert_eq!(paths(&mut requests), ["/", "/"]);
    let bad = requests.bad_lines();
    let bad: Vec<(u64, &str)> = bad.iter().map(|bad| (bad.line, bad.why.as_str())).collect();
    assert_eq!(
        bad,
        [
            (2, "it is longer than 64 KiB"),
            (4, "it is longer than 64 KiB")
        ]
    );
}

#[test]
fn packed_files_and_several_of_them_are_merged_by_time() {
    let dir = Dir::new("merged");
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    for second in [1, 3, 5] {
        packed
            .write_all(line("192.0.2.1", second * 1000, &format!("/{second}"), 200, 0).as_bytes())
            .expect("memory");
    }
    // Files that were packed one after the other and joined are one file.
    let mut bytes = packed.finish().expect("memory");
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed
        .write_all(line("192.0.2.1", 7000, "/7", 200, 0).as_bytes())
        .expect("memory");
    bytes.extend(packed.finish().expect("memory"));
    let odd = dir.file("odd.log.gz", &bytes);
    let even = dir.file(
        "even.log",
        [2, 4, 6]
            .map(|second| line("192.0.2.1", second * 1000, &format!("/{second}"), 200, 0))
            .concat(),
    );
    let mut requests = Logs::of([&even, &odd]).open().expect("logs");
    assert_eq!(
        paths(&mut requests),
        ["/1", "/2", "/3", "/4", "/5", "/6", "/7"]
    );

    let cut = dir.file("cut.log.gz", &bytes[..bytes.len() - 40]);
    let mut requests = Logs::of([&cut]).open().expect("a log");
    assert!(paths(&mut requests).starts_with(&["/1", "/3", "/5"].map(str::to_owned)));
    let why = requests
        .summaries()
        .remove(0)
        .cut_short
        .expect("why it was cut short");
    assert!(why.starts_with("after line "), "{why}");
}

#[test]
fn slow_requests_come_before_the_quick_ones_that_were_logged_first() {
    let dir = Dir::new("slow");
    let text = [
        line("192.0.2.1", 1_000, "/quick1", 200, 10),
        line("192.0.2.1", 20_000, "/quick2", 200, 10),
        line("192.0.2.1", 30_000, "/slow", 200, 29_500),
        line("192.0.2.1", 30_100, "/quick3", 200, 10),
    ];
    let logs = dir.log(text.concat());
    let mut requests = logs.open().expect("a log");
    assert_eq!(
        paths(&mut requests),
        ["/slow", "/quick1", "/quick2", "/quick3"]
    );
    assert_eq!(requests.late(), 0);
    // With a window that is too small it comes when it is read, and that is said.
    let mut requests = logs.window(Duration::from_secs(5)).open().expect("a log");
    assert_eq!(
        paths(&mut requests),
        ["/quick1", "/slow", "/quick2", "/quick3"]
    );
    assert_eq!(requests.late(), 1);
}

#[test]
fn offsets_of_zones_and_the_end_of_summer_time_change_nothing() {
    let dir = Dir::new("zones");
    // The hour from two to three comes twice: before and after the clock is set back.
    let text = "\
192.0.2.1 - - [25/Oct/2026:02:30:00 +0200] \"GET /1 HTTP/1.1\" 200 1
192.0.2.1 - - [25/Oct/2026:02:59:59 +0200] \"GET /2 HTTP/1.1\" 200 1
192.0.2.1 - - [25/Oct/2026:02:00:00 +0100] \"GET /3 HTTP/1.1\" 200 1
192.0.2.1 - - [25/Oct/2026:02:30:00 +0100] \"GET /4 HTTP/1.1\" 200 1
192.0.2.1 - - [24/Oct/2026:21:31:00 -0400] \"GET /5 HTTP/1.1\" 200 1
";
    let mut requests = dir.log(text).open().expect("a log");
    let mut seen = Vec::new();
    while let Some(record) = requests.next() {
        seen.push((
            record.at_nanos() / 1_000_000_000 - 1_792_888_200,
            record.target().to_owned(),
        ));
    }
    let wanted = [
        (0, "/1"),
        (1799, "/2"),
        (1800, "/3"),
        (3600, "/4"),
        (3660, "/5"),
    ];
    assert_eq!(seen, wanted.map(|(at, path)| (at, path.to_owned())));
}

#[test]
fn requests_of_one_second_are_spread_over_it_in_their_order() {
    let dir = Dir::new("spread");
    let text: String = (0..4)
        .map(|it| {
            format!("192.0.2.1 - - [15/Nov/2026:12:00:01 +0000] \"GET /{it} HTTP/1.1\" 200 1\n")
        })
        .collect();
    let mut requests = dir.log(text).open().expect("a log");
    let mut millis = Vec::new();
    while let Some(record) = requests.next() {
        millis.push(record.at_nanos() / 1_000_000 % 1000);
    }
    assert_eq!(millis, [125, 375, 625, 875]);
}

#[test]
fn what_is_no_log_is_refused_with_a_remedy_and_what_is_empty_is_said() {
    let dir = Dir::new("none");
    let error = dir
        .log("Dear reader,\nthis is no log.\n")
        .open()
        .expect_err("no log");
    let text = error.to_string();
    assert!(text.contains("access.log: no line of its beginning is a request of a known format, it begins with \"Dear reader,\""), "{text}");
    assert!(text.contains("--format"), "{text}");
    assert!(matches!(error, LogError::NotALog { .. }));
    let mut requests = dir.log("").open().expect("an empty log is one");
    assert!(requests.next().is_none());
    assert_eq!(requests.summaries()[0].format, None);
    let error = Logs::of([dir.file("x", "").with_file_name("missing.log")])
        .open()
        .expect_err("no file");
    assert!(matches!(error, LogError::Open { .. }), "{error}");
    let error = Logs::of([std::env::temp_dir()])
        .open()
        .expect_err("a directory");
    assert!(error.to_string().contains("it is a directory"), "{error}");
}

#[test]
fn a_log_may_begin_with_anything() {
    let good = "192.0.2.1 - - [15/Nov/2026:12:00:01 +0000] \"GET / HTTP/1.1\" 200 1\n";
    // What a server says when it starts; a line without an end in sight; bytes.
    for (test, before, lines) in [
        (
            "notices",
            "[notice] a worker has started\n".repeat(5000),
            5000,
        ),
        ("long", "x".repeat(1 << 20) + "\n", 1),
        ("bytes", "\u{0}\u{1}\u{fffd}\n".repeat(3), 3),
    ] {
        let dir = Dir::new(test);
        let mut requests = dir.log(before + &good.repeat(2)).open().expect("a log");
        assert_eq!(paths(&mut requests), ["/", "/"], "{test}");
        let seen = requests.summaries().remove(0);
        assert_eq!(
            (seen.format, seen.bad, seen.lines),
            (Some("combined"), lines, lines + 2),
            "{test}"
        );
        assert_eq!(requests.bad_lines()[0].line, 1, "{test}");
    }
    // Lines that begin with a digit by chance make no log.
    let dir = Dir::new("chance");
    let text = "\u{7}x\u{fffd}\n".repeat(50) + "7 y\n" + &"zz\n".repeat(50);
    assert!(matches!(
        dir.log(text).open(),
        Err(LogError::NotALog { .. })
    ));
    let dir = Dir::new("blank");
    let mut requests = dir.log("  \n\n \n").open().expect("nothing is a log too");
    assert_eq!(paths(&mut requests), [""; 0]);
}

#[test]
fn more_and_longer_keys_than_are_kept_are_refused_and_counted() {
    // Each client comes once, and sends a header field as long as it may be.
    let dir = Dir::new("keys");
    let text: String = (0..30_000)
        .map(|it| {
            let line = line(
                &format!("10.{}.{}.{}", it >> 16, it >> 8 & 255, it & 255),
                it,
                "/",
                200,
                0,
            );
            let name = format!(
                "\"X-User\":[\"{it}{}\"]",
                "u".repeat(if it % 100 == 0 { 30_000 } else { 3 })
            );
            line.replace("\"headers\":{", &format!("\"headers\":{{{name}"))
        })
        .collect();
    let limits = "limits: { user: { rate: 1/d, key: header:x-user, max_keys: 1000 } }\nroutes: [{ match: /**, limits: [user] }]";
    let report = crate::support::replay(limits, dir.log(text));
    // What does not fit is refused as in production, and counted.
    assert_eq!((report.requests, report.limits[0].asked), (30_000, 30_000));
    assert_eq!(
        report.limits[0].reasons.keys().copied().collect::<Vec<_>>(),
        ["keys_full"]
    );
    assert!(
        report.limits[0].keys.abs_diff(30_000) < 3000,
        "{}",
        report.limits[0].keys
    );
    assert!(report.json().len() < 100_000);
}

#[test]
fn a_value_of_csv_may_have_several_lines() {
    // Each of them was a bad line.
    let dir = Dir::new("several-lines");
    let text = "time,path,agent\n1794744001.5,/a,\"one\r\ntwo, \"\"three\"\"\n\n\"\n1794744002.5,/b,\"x\"\n1794744003.5,/c,\"of\ntwo\"";
    let mut requests = dir.log(text).open().expect("a log");
    let mut all = Vec::new();
    while let Some(record) = requests.next() {
        let agent = record.headers().next().map(|(_, value)| value.to_owned());
        all.push((record.line(), record.target().to_owned(), agent));
    }
    assert_eq!(
        all,
        [
            (2, "/a", "one\r\ntwo, \"three\""),
            (6, "/b", "x"),
            (7, "/c", "of\ntwo"),
        ]
        .map(|(line, path, agent)| (line, path.to_owned(), Some(agent.to_owned())))
    );
    assert_eq!(requests.summaries()[0].lines, 8);
    // A quote that is never closed costs its own line only, however much follows.
    let open = "1794744001.5,/open,\"x\n";
    let rest = "1794744002.5,/b,x\n".repeat(9000);
    for rest in ["", "1794744002.5,/b,x\n", &rest] {
        let text = ["time,path,agent\n1794744000.5,/a,x\n", open, rest].concat();
        let mut requests = dir.log(text).open().expect("a log");
        assert_eq!(paths(&mut requests).len(), 1 + rest.lines().count());
        let bad = requests.bad_lines();
        assert_eq!(
            (bad.len(), bad[0].line, bad[0].why.as_str()),
            (1, 3, "its last quote is not closed")
        );
    }
}

#[test]
fn a_request_that_comes_too_late_to_be_sorted_ends_when_it_ended() {
    // It held its slot for its whole duration from its place on, far beyond its end.
    let dir = Dir::new("too-late");
    let text = [
        line("192.0.2.1", 100_000, "/quick", 200, 0),
        line("192.0.2.1", 200_000, "/quick", 200, 0),
        line("192.0.2.1", 200_500, "/slow", 200, 190_000),
        line("192.0.2.1", 201_000, "/quick", 200, 0),
    ];
    let logs = dir.log(text.concat());
    let mut requests = logs.open().expect("a log");
    let mut ends = Vec::new();
    while let Some(record) = requests.next() {
        let took = i64::try_from(record.duration_nanos().unwrap_or(0)).expect("a short time");
        ends.push((record.at_nanos() + took) / 1_000_000 - 1_794_744_000_000);
    }
    assert_eq!((requests.late(), ends.len()), (1, 4));
    assert!(ends.contains(&200_500), "{ends:?}");
    let limits = "limits: { slots: { concurrency: 1 } }\nroutes: [{ match: /**, limits: [slots] }]";
    let report = crate::support::replay(limits, logs);
    assert_eq!(report.refused, 1, "only the one at 200 s was beside it");
}
