//! What is told of a comparison: as a table, as JSON, as a picture; and whether expectations were met.

use crate::support::{aimd, shipped_as, simulation};
use plimsoll_sim::{Comparison, Contender, json, plot_file, plot_png, plot_svg, text};

const LINES: &str = "about: a short one
duration: 20s
rate: 2000
workers: 10
service: 50ms
phases: [{ name: early, from: 0s, to: 10s }, { name: late, from: 10s, to: 20s }]
";

#[test]
fn the_table_has_a_row_for_every_phase_and_limit() {
    let simulation = simulation(LINES);
    let compared = Comparison::of(&simulation)
        .test(Contender::fixed(10))
        .beside(Contender::none())
        .seeds(1)
        .run();
    let table = text(&simulation, &compared);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines[0], "test: a short one (1 seed)");
    let words = |line: &str| {
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(words(lines[1])[..4], ["phase", "limit", "goodput", "p50"]);
    let rows: Vec<Vec<String>> = lines[2..].iter().map(|line| words(line)).collect();
    let names: Vec<&[String]> = rows.iter().map(|row| &row[..2]).collect();
    assert_eq!(
        names,
        [
            ["early", "fixed=10"],
            ["early", "none"],
            ["late", "fixed=10"],
            ["late", "none"]
        ]
    );
    // Constant work, no more in flight than workers: 50 ms for everybody, and never too much.
    assert_eq!(rows[2][3..5], ["50", "ms"]);
    assert_eq!(rows[3][2], "0.0%");
    // All lines of a table are as long as their last column: numbers are right-aligned under their heads.
    assert!(
        lines[2..]
            .iter()
            .all(|line| line.chars().count() == lines[1].chars().count()),
        "{table}"
    );
}

#[test]
fn the_table_has_columns_for_classes_if_there_are_several() {
    let simulation = simulation(&format!(
        "{LINES}priorities: {{ critical: 0.5, non-critical: 0.5 }}"
    ));
    let compared = Comparison::of(&simulation)
        .test(Contender::fixed(10))
        .seeds(1)
        .run();
    let head = text(&simulation, &compared)
        .lines()
        .nth(1)
        .unwrap()
        .to_owned();
    assert!(
        head.ends_with("rejected critical  rejected non-critical"),
        "{head}"
    );
}

#[test]
fn expectations_are_of_what_is_tested_and_say_what_came() {
    let simulation = simulation(&format!(
        "{LINES}limit: fixed=10
expect:
  early: {{ goodput: '>= 90%', p99: '<= 51ms', settle: '<= 2s', rejected: {{ critical: '= 0%' }} }}
  late: {{ p99_vs_oracle: '< 1.0', limit_vs_first: '= 1', limit: '= 10', late: '= 0%' }}"
    ));
    let compared = Comparison::of(&simulation).beside(Contender::none()).run();
    let names: Vec<&str> = compared
        .limits
        .iter()
        .map(|result| result.limit.as_str())
        .collect();
    assert_eq!(
        names,
        ["fixed=10", "none", "oracle"],
        "the oracle is asked if it is compared with"
    );
    assert!(
        compared
            .limits
            .iter()
            .all(|result| result.tested == (result.limit == "fixed=10"))
    );
    let found: Vec<(&str, &str, bool)> = compared
        .checks()
        .iter()
        .map(|check| (check.expected.as_str(), check.found.as_str(), check.met))
        .collect();
    assert_eq!(found.len(), 8);
    assert!(
        found.contains(&("rejected of critical = 0%", "nothing", false)),
        "{found:?}"
    );
    assert!(found.contains(&("limit = 10", "10", true)), "{found:?}");
    assert_eq!(
        found.iter().filter(|(_, _, met)| !met).count(),
        1,
        "{found:?}"
    );
    assert!(
        text(&simulation, &compared)
            .contains("FAILED: fixed=10, early: expected rejected of critical = 0%, found nothing")
    );

    // In the place of the file's limit: now without one.
    let compared = Comparison::of(&simulation).test(Contender::none()).run();
    let found: Vec<String> = compared.checks().iter().map(ToString::to_string).collect();
    assert!(
        found.contains(&"FAILED: none, early: expected settle <= 2s, found never".to_owned()),
        "{found:?}"
    );
}

#[test]
fn json_has_everything() {
    let simulation = shipped_as("priorities");
    let compared = Comparison::of(&simulation)
        .test(aimd())
        .beside(Contender::none())
        .seeds(2)
        .run();
    let text = serde_json::to_string(&json(&simulation, &compared)).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["name"], "priorities");
    assert_eq!(
        value["classes"],
        serde_json::json!(["critical", "normal", "non-critical"])
    );
    assert_eq!(
        value["phases"][1],
        serde_json::json!({ "name": "steady", "from_s": 10.0, "to_s": 60.0 })
    );
    let limit = &value["limits"][0];
    assert_eq!(
        (&limit["limit"], &limit["tested"]),
        (&"aimd".into(), &true.into())
    );
    assert_eq!(limit["runs"].as_array().unwrap().len(), 2);
    for key in [
        "offered",
        "good",
        "late",
        "rejected",
        "ideal",
        "p50_ms",
        "p99_ms",
        "limit",
        "in_flight",
        "waiting",
    ] {
        assert_eq!(
            limit["runs"][1]["seconds"][key].as_array().unwrap().len(),
            60,
            "{key}"
        );
    }
    let totals = &limit["runs"][0]["totals"];
    let of = |key: &str| totals[key].as_u64().unwrap();
    let inside = limit["runs"][0]["still_inside"].as_u64().unwrap();
    assert_eq!(
        of("offered"),
        of("good") + of("late") + of("rejected") + inside
    );
    assert!(limit["phases"][1]["goodput"].as_f64().unwrap() > 0.0);
    assert!(value["limits"][1]["runs"][0]["seconds"]["limit"][5].is_null());
    assert!(
        value["checks"][0]["expected"]
            .as_str()
            .unwrap()
            .starts_with("goodput")
    );
}

#[test]
fn pictures_show_every_limit_and_phase() {
    let simulation = shipped_as("capacity_drop");
    let compared = Comparison::of(&simulation)
        .test(aimd())
        .beside(Contender::none())
        .seeds(1)
        .run();
    let svg = plot_svg(&simulation, &compared).unwrap();
    assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
    for word in [
        "aimd",
        "none",
        "offered",
        "ideal",
        "before",
        "drop",
        "after",
        "seconds",
        "capacity_drop",
    ] {
        assert!(svg.contains(&format!("\n{word}\n")), "{word}");
    }
    let png = plot_png(&simulation, &compared).unwrap();
    let mut reader = png::Decoder::new(std::io::Cursor::new(&png))
        .read_info()
        .unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!((info.width, info.height), (1400, 1060));
    // Mostly paper, and ink of many shades where there is text.
    let dark = pixels
        .chunks(3)
        .filter(|rgb| rgb.iter().all(|part| *part < 100))
        .count();
    assert!((2_000..200_000).contains(&dark), "{dark}");
    let title = &pixels[..1400 * 3 * 40];
    assert!(
        title.chunks(3).filter(|rgb| rgb[0] < 100).count() > 300,
        "no title"
    );
}

#[test]
fn a_name_is_one_line_and_may_hold_anything() {
    let text = "about: |\n  a < b\n  & c\nduration: 1s\nrate: 0\nworkers: 0\nservice: 50ms";
    let simulation = simulation(text);
    assert_eq!(simulation.about(), "a < b & c");
    let compared = Comparison::of(&simulation).seeds(1).run();
    let svg = plot_svg(&simulation, &compared).unwrap();
    assert!(svg.contains("\na &lt; b &amp; c\n"));
}

#[test]
fn a_picture_of_next_to_nothing_is_still_a_picture() {
    let simulation = simulation("duration: 1s\nrate: 0\nworkers: 0\nservice: 50ms");
    let compared = Comparison::of(&simulation).test(Contender::none()).run();
    assert!(plot_svg(&simulation, &compared).is_ok());
    assert!(plot_png(&simulation, &compared).is_ok());
    assert!(text(&simulation, &compared).contains('-'));
}

#[test]
fn the_name_says_which_kind_of_picture() {
    let simulation = simulation("duration: 1s\nrate: 0\nworkers: 0\nservice: 50ms");
    let compared = Comparison::of(&simulation).seeds(1).run();
    let error = plot_file("plot.gif".as_ref(), &simulation, &compared).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the name of a plot must end in .svg or .png"
    );
    assert!(plot_file("no/such/place/plot.svg".as_ref(), &simulation, &compared).is_err());
}

#[test]
fn all_limits_fit_into_the_legend() {
    let simulation = simulation("duration: 1s\nrate: 10\nworkers: 10\nservice: 50ms");
    let comparison = Comparison::of(&simulation)
        .test(Contender::fixed(10))
        .seeds(1);
    let compared = Contender::all()
        .into_iter()
        .fold(comparison, Comparison::beside);
    let compared = compared.run();
    let svg = plot_svg(&simulation, &compared).unwrap();
    let mut names: Vec<&str> = compared.limits.iter().map(|it| it.limit.as_str()).collect();
    names.extend(["offered", "ideal"]);
    for name in names {
        // An element, with its place, and its text on the next line.
        let (before, _) = svg.split_once(&format!("\n{name}\n")).expect(name);
        let element = &before[before.rfind("<text").unwrap()..];
        let x = element.split_once(" x=\"").unwrap().1;
        let x: usize = x.split('"').next().unwrap().parse().unwrap();
        assert!(x + 8 * name.len() < 1400, "{name} begins at {x}");
    }
    let (_, height) = svg.split_once("height=\"").unwrap();
    assert!(height.starts_with("1084"), "a second row: {}", &height[..4]);
}

#[test]
fn latencies_below_a_millisecond_are_told_in_smaller_units() {
    for (service, told) in [("800ns", "800 ns"), ("50us", "50 us"), ("2500us", "2.5 ms")] {
        let simulation = simulation(&format!(
            "duration: 5s\nrate: 100\nworkers: 10\nservice: {service}\nexpect: {{ all: {{ p99: '< 1ns' }} }}"
        ));
        let compared = Comparison::of(&simulation).test(Contender::none()).run();
        let table = text(&simulation, &compared);
        assert!(table.contains(told), "{table}");
        assert_ne!(compared.checks()[0].found, "0ms", "{table}");
    }
}

#[test]
fn an_expectation_that_is_just_missed_shows_by_how_much() {
    // It read `expected p99 <= 1ms, found 1ms`.
    let simulation = simulation(
        "duration: 5s\nrate: 100\nworkers: 10\nservice: 1ms\nexpect: { all: { p99: '<= 1ms' } }",
    );
    let compared = Comparison::of(&simulation).test(Contender::none()).run();
    let check = &compared.checks()[0];
    assert_eq!((check.met, check.found.as_str()), (false, "1.0004ms"));
}

#[test]
fn slow_traffic_is_not_answered_better_than_perfectly() {
    // Each takes more than three seconds: what is answered in a second is not what came in it.
    let simulation =
        simulation("duration: 1h\ndeadline: 30s\nrate: 0.05\nworkers: 1\nservice: 3300ms");
    let compared = Comparison::of(&simulation).test(Contender::none()).run();
    let goodput = compared.limits[0].phases[0].goodput.unwrap();
    assert!((0.97..=1.01).contains(&goodput), "{goodput}");
}

#[test]
fn clients_that_a_limit_keeps_waiting_could_have_asked_for_more() {
    let simulation = simulation(
        "duration: 60s\nclients: { count: 100, think: { exponential: { mean: 1s } } }\n\
         workers: 10\nservice: 50ms\ndeadline: 30s\nqueue: { bound: 100 }",
    );
    let comparison = Comparison::of(&simulation).test(Contender::fixed(1));
    let compared = comparison.beside(Contender::fixed(10)).run();
    let [narrow, wide] = [0, 1].map(|limit| compared.limits[limit].phases[0].goodput.unwrap());
    // One at a time: 20 a second of the 95 that are wanted.
    assert!((0.19..0.23).contains(&narrow), "{narrow}");
    assert!((0.95..1.02).contains(&wide), "{wide}");
}

#[test]
fn where_nothing_can_be_answered_there_is_no_goodput() {
    let simulation = simulation(
        "duration: 20s\nrate: 100\nservice: 500ms\n\
         workers: [{ at: 0s, value: 100 }, { at: 10s, value: 0 }]\n\
         phases: [{ name: gone, from: 10s, to: 20s }]\n\
         expect: { gone: { goodput: '>= 1%' } }",
    );
    let compared = Comparison::of(&simulation).test(Contender::none()).run();
    // What was begun before is still answered.
    let run = &compared.limits[0].runs[0];
    assert!(run.seconds[10].counts().good > 20);
    assert_eq!(compared.limits[0].phases[0].goodput, None);
    assert_eq!(compared.checks()[0].found, "nothing");
    assert!(!compared.checks()[0].met);
}
