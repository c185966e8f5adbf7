//! A report as text, as JSON and as a page.

use plimsoll_replay::{Logs, Replay, Report};

use crate::support::{Dir, config, line};

fn report(more: bool) -> Report {
    let dir = Dir::new(if more { "output-more" } else { "output" });
    let mut text = "no line of JSON <script>\n".repeat(2);
    for it in 0..2000 {
        let client = format!("192.0.2.{}", it % 5);
        text += &line(
            &client,
            it * 3,
            &format!("/route{}/<b>", it % 6),
            if it % 9 == 0 { 503 } else { 200 },
            20 + it % 100,
        );
    }
    let mut limits =
        "limits:\n  slots: { concurrency: 8, queue: { bound: 5, timeout: 20ms } }\n".to_owned();
    let mut routes = "routes:\n".to_owned();
    for it in 0..if more { 2 } else { 6 } {
        limits += &format!("  per_client_of_a_long_name_{it}: {{ rate: 2/s, key: client }}\n");
        routes += &format!(
            "  - {{ match: /route{it}/**, limits: [per_client_of_a_long_name_{it}, slots] }}\n"
        );
    }
    let limits = limits + &routes;
    let replay = Replay::new(config(&limits), dir.log(text));
    let replay = match more {
        true => {
            // One limit was larger, the other smaller: both sides have keys to show.
            let old = limits
                .replace("name_0: { rate: 2/s", "name_0: { rate: 4/s")
                .replace("name_1: { rate: 2/s", "name_1: { rate: 1/s");
            replay.against(config(&old)).suggest(0.001)
        }
        false => replay,
    };
    replay.run().expect("a report")
}

#[test]
fn text_fits_a_screen() {
    for more in [false, true] {
        let text = report(more).text();
        assert!(text.lines().count() <= 24, "{text}");
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        for wanted in [
            "2,000 requests, 2026-11-15 11:59:59 to 12:00:05 UTC",
            "refused",
            "unread",
            "access.log:1: it is not an object of JSON",
            "might have come again",
        ] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
        assert_eq!(
            more,
            text.contains("admitted before, refused now"),
            "{text}"
        );
        assert_eq!(more, text.contains("would refuse"), "{text}");
        let keys_of = |side: &str| {
            let mut lines = text.lines().skip_while(|line| !line.contains(side)).skip(1);
            lines.next().is_some_and(|line| line.contains("192…"))
        };
        for side in ["admitted before", "refused before"] {
            assert_eq!(more, keys_of(side), "{side}: {text}");
        }
    }
}

#[test]
fn json_has_everything() {
    let report = report(true);
    let json: serde_json::Value = serde_json::from_str(&report.json()).expect("JSON");
    assert_eq!(json["requests"], 2000);
    assert_eq!(json["limits"].as_array().map(Vec::len), Some(3));
    assert_eq!(json["logs"][0]["bad"], 2);
    assert_eq!(json["bad_lines"][0]["line"], 1);
    assert!(
        json["against"]["to_refused"]["requests"]
            .as_u64()
            .is_some_and(|it| it > 0)
    );
    assert!(
        json["suggestions"]["limits"][1]["suggested"].is_string(),
        "{json}"
    );
}

#[test]
fn the_page_needs_nothing_else_and_escapes_what_it_shows() {
    let page = report(true).html();
    for wanted in [
        "<!doctype html>",
        "prefers-color-scheme: dark",
        "@media print",
        "<svg",
        "Limits",
        "Routes",
        "Against limits.yaml",
        "&lt;script&gt;",
        "&lt;b&gt;",
    ] {
        assert!(page.contains(wanted), "{wanted}");
    }
    for never in [
        "<script", "<b>/", "http://", "https://", "src=", "@import", "url(",
    ] {
        assert!(!page.contains(never), "{never}");
    }
    // What is opened is closed.
    for tag in ["section", "table", "tr", "div", "figure", "svg", "ul"] {
        let (open, closed) = (
            page.matches(&format!("<{tag}")).count(),
            page.matches(&format!("</{tag}>")).count(),
        );
        assert_eq!(open, closed, "{tag}");
    }
}

#[test]
fn lines_of_the_text_that_are_too_long_lose_what_matters_least() {
    // The suggested share and the number of keys were cut off.
    let dir = Dir::new("long-lines");
    let path = format!("/{}", "x".repeat(100));
    let text: String = (0..900)
        .map(|it| line(&format!("192.0.2.{}", it % 9), it * 3, &path, 200, 0))
        .collect();
    let limits = "limits: { per_client_of_a_long_name: { rate: 100/min, burst: 12, key: client } }\nroutes: [{ match: /**, limits: [per_client_of_a_long_name] }]";
    let log = Logs::of([dir.file("access-2026-11-15.log", text)]);
    let replay = Replay::new(config(limits), log);
    let text = replay.suggest(0.1).run().expect("a report").text();
    let found = |wanted: &str| text.lines().any(|line| line.contains(wanted));
    assert!(found("; 9 of 9 keys"), "{text}");
    assert!(
        found(" refuses 84.00 %; 550/m, burst 66: 10.00 %"),
        "{text}"
    );
}

#[test]
fn what_a_log_writes_does_not_control_the_terminal() {
    // A path with an escape sequence was written as it was.
    let dir = Dir::new("control");
    let text = line("192.0.2.1", 0, "/\\u001b[1m\\n\\u202e", 200, 0).repeat(2);
    let limits = "limits: { a: 1/h }\nroutes: [{ match: /**, limits: [a] }]";
    let report = crate::support::replay(limits, dir.log(text));
    let text = report.text();
    assert!(text.contains("GET /\\u{1b}[1m\\n\\u{202e}"), "{text}");
    let controls = |text: &str| text.replace('\n', "").contains(char::is_control);
    assert!(!controls(&text) && !controls(&report.html()));
    assert!(!report.html().contains('\u{202e}'));
}

#[test]
fn requests_without_a_route_and_logs_that_are_cut_short_are_noted() {
    // The text had no word of the former, and the note of the latter came last, where there may be no room.
    let dir = Dir::new("noted");
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    for it in 0..5000 {
        let line = line("192.0.2.1", it, &format!("/{}", it * 7919 % 5000), 200, 0);
        std::io::Write::write_all(&mut packed, line.as_bytes()).expect("a buffer");
    }
    let mut packed = packed.finish().expect("a buffer");
    packed.truncate(packed.len() / 2);
    let limits = "limits: { a: 1/h }\nroutes: [{ match: /1, limits: [a] }]";
    let report = crate::support::replay(limits, dir.log(packed));
    assert!(
        report.notes[0].contains("could not be read to its end"),
        "{:?}",
        report.notes
    );
    let wanted = "Not limited, because no route matches: ";
    assert!(report.text().contains(wanted), "{}", report.text());
}
