//! Every sort of mistake a file can have, with the exact message; and whatever a file holds, no panic.
//!
//! The table is in `bad_files/table.txt`: what is put in the place of a line of a good file, then `=> ` and the message
//! for it.

use crate::support::shipped;
use plimsoll_sim::{Contender, Simulation, run};
use proptest::prelude::*;

const GOOD: &str = "name: n
duration: 10s
rate: 100
workers: 4
service: 50ms
phases: [{ name: all, from: 0s, to: 10s }]
";

fn error(text: &str) -> String {
    match Simulation::from_text("f.yaml", text) {
        Ok(simulation) => panic!("read without complaint:\n{text}\n{simulation:?}"),
        Err(error) => error.to_string(),
    }
}

/// The good file with the line of the same field replaced, or with a line more.
fn with(line: &str) -> String {
    let field = line.split_inclusive(':').next().unwrap_or_default();
    let others = GOOD.lines().filter(|good| !good.starts_with(field));
    let mut text: String = others.flat_map(|good| [good, "\n"]).collect();
    text.push_str(line);
    text.push('\n');
    text
}

#[test]
fn the_good_file_is_good() {
    let simulation = Simulation::from_text("f.yaml", GOOD).unwrap();
    assert_eq!((simulation.name(), simulation.about()), ("n", ""));
    assert_eq!(simulation.duration().as_secs(), 10);
    assert_eq!(simulation.phases()[0].name(), "all");
    assert_eq!(simulation.phases()[0].span(), (0.0, 10.0));
}

#[test]
fn every_mistake_has_its_message() {
    let rows: Vec<&str> = include_str!("bad_files/table.txt").split("\n\n").collect();
    assert!(rows.len() > 40, "the table could not be read");
    let mut wrong = Vec::new();
    for row in rows {
        let (part, message) = row.trim_end().split_once("\n=> ").expect(row);
        let found = error(&with(part));
        if found != format!("f.yaml:{message}") {
            wrong.push(format!(
                "{part}\n=> {}\n",
                found.trim_start_matches("f.yaml:")
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_missing_is_named() {
    for field in ["name", "duration", "workers", "service"] {
        let lines = GOOD.lines().filter(|line| !line.starts_with(field));
        let text: String = lines.flat_map(|line| [line, "\n"]).collect();
        assert_eq!(
            error(&text),
            format!("f.yaml:1:1: {field}: this field is missing")
        );
    }
    assert_eq!(
        error(""),
        "f.yaml:1:1: expected a simulation: a map with a `name`, found nothing"
    );
    assert_eq!(
        error("- 1"),
        "f.yaml:1:1: expected a simulation: a map with a `name`, found a list"
    );
    let nobody: String = GOOD.replace("rate: 100\n", "");
    assert_eq!(
        error(&nobody),
        "f.yaml:1:1: expected one of `rate`, `bursts` and `clients`: there is no traffic without them"
    );
}

/// Of files with stations: what is put in the place of the list, and the message.
#[test]
fn mistakes_of_stations_have_their_messages() {
    let cases = [
        (
            "[]",
            "4:11: stations: expected a list of stations, found an empty list",
        ),
        (
            "[{ name: a }]",
            "4:12: stations[0].service: this field is missing",
        ),
        (
            "[{ service: 5ms }]",
            "4:12: stations[0].name: this field is missing",
        ),
        (
            "[{ name: a, service: 5ms, workes: 3 }]",
            "4:37: stations[0].workes: unknown field of a station, did you mean `workers`?",
        ),
        (
            "[{ name: a, service: 5ms, holds: true }]",
            "4:37: stations[0].holds: a station without `workers` has none to speak of",
        ),
        (
            "[{ name: a, service: 5ms, contention: 1 }]",
            "4:37: stations[0].contention: a station without `workers` has none to speak of",
        ),
        (
            "[{ name: a, service: 5ms, share: 2 }]",
            "4:44: stations[0].share: expected a share from 0 to 1, found \"2\"",
        ),
        (
            "[{ name: a, service: 5ms, limit: oracle }]",
            "4:37: stations[0].limit: the oracle is only for the first gate",
        ),
        (
            "[{ name: a, service: 5ms, queue: { bound: 3 } }]",
            "4:37: stations[0].queue: needs a `limit` to wait for",
        ),
        (
            "[{ name: a, service: 5ms }, { name: a, service: 5ms }]",
            "4:39: stations[1].name: there is a station of this name already",
        ),
    ];
    let mut wrong = Vec::new();
    for (stations, message) in cases {
        let text = format!("name: n\nduration: 10s\nrate: 1\nstations: {stations}\n");
        let found = error(&text);
        if found != format!("f.yaml:{message}") {
            wrong.push(format!("{stations}: {found}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let many: Vec<String> = (0..33)
        .map(|index| format!("{{ name: s{index}, service: 1ms }}"))
        .collect();
    let text = format!(
        "name: n\nduration: 10s\nrate: 1\nstations: [{}]\n",
        many.join(", ")
    );
    assert_eq!(
        error(&text),
        "f.yaml:4:1: stations: there can be 32 at most"
    );
}

#[test]
fn a_file_that_cannot_be_opened_is_named() {
    let error = Simulation::from_file("no/such/file.yaml").unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("no/such/file.yaml: cannot be read: "),
        "{error}"
    );
}

#[test]
fn json_is_read_as_well() {
    let json = r#"{"name": "n", "duration": "2s", "rate": 10, "workers": 1, "service": {"constant": "5ms"}}"#;
    let simulation = Simulation::from_text("f.json", json).unwrap();
    assert!(run(&simulation, &Contender::none(), 1).counts().good > 0);
}

/// What is put in the place of something else.
const PIECES: [&str; 26] = [
    "0",
    "1",
    "0.5",
    "4294967295",
    "18446744073709551615",
    "-1",
    "1e999",
    "nan",
    "1ms",
    "213503d",
    "2s",
    "none",
    "oracle",
    "critical",
    "lifo",
    "ramp",
    "pareto",
    "lognormal",
    "\">= 1%\"",
    "steady",
    "all",
    "[",
    "}",
    "*a",
    "~",
    "rate",
];

proptest! {
    #[test]
    fn arbitrary_text(text in any::<String>()) {
        let _ = Simulation::from_text("f.yaml", &text);
    }

    #[test]
    fn a_file_with_words_exchanged(
        file in prop::sample::select(shipped()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(&PIECES[..])), 1..4),
    ) {
        let text = std::fs::read_to_string(file).unwrap();
        let words = text.split_inclusive(|c: char| !c.is_alphanumeric() && c != '_');
        let mut words: Vec<String> = words.map(str::to_owned).collect();
        for (index, piece) in changes {
            let word = index.get_mut(&mut words);
            let end = word.pop().unwrap_or(' ');
            *word = format!("{piece}{end}");
        }
        if let Err(error) = Simulation::from_text("f.yaml", &words.concat()) {
            prop_assert!(error.line().is_some());
            prop_assert_eq!(error.to_string().lines().count(), 1);
        }
    }

    #[test]
    fn a_file_with_parts_lost_or_doubled(
        file in prop::sample::select(shipped()),
        start in any::<prop::sample::Index>(), length in 0usize..40, double in any::<bool>(),
    ) {
        let mut text: Vec<char> = std::fs::read_to_string(file).unwrap().chars().collect();
        let start = start.index(text.len());
        let end = (start + length).min(text.len());
        let part: Vec<char> = text[start..end].to_vec();
        text.splice(start..end, if double { [part.clone(), part].concat() } else { Vec::new() });
        let _ = Simulation::from_text("f.yaml", &String::from_iter(text));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Any numbers within their bounds: it runs, ends, and nobody is lost.
    #[test]
    fn whatever_can_be_read_can_be_run(
        rate in 0..200_u32, burst in 0..500_u32, workers in 0..20_u32, clients in 1..30_u32, times in 1..4_u32,
        every in 1..900_u64, share in 1..99_u64, sigma in 0.0..3.0_f64, contention in 0.0..2.0_f64,
        bound in 0..10_u32, lifo in any::<bool>(), limit in 1..30_u64, deadline in 1..2000_u64, seed in any::<u64>(),
    ) {
        let length = every * share / 100 + 1;
        let order = if lifo { "lifo" } else { "fifo" };
        prop_assume!(length < every);
        let text = format!("name: any
duration: 3s
deadline: {deadline}ms
rate: {rate}
bursts: {{ every: {every}ms, for: {length}ms, rate: {burst} }}
clients: {{ count: {clients}, think: 10ms }}
retries: {{ times: {times}, delay: {every}ms }}
priorities: {{ critical: 0.5, non-critical: 0.5 }}
workers: [{{ at: 0s, value: {workers} }}, {{ at: {every}ms, value: {bound} }}]
service: {{ lognormal: {{ mean: 50ms, sigma: {sigma} }} }}
slow_down: {{ ramp: [{{ at: 0s, value: 1 }}, {{ at: {every}ms, value: 2 }}] }}
contention: {contention}
pauses: {{ every: {every}ms, for: {length}ms }}
queue: {{ bound: {bound}, order: {order}, timeout: {length}ms }}
");
        let simulation = Simulation::from_text("f.yaml", &text).unwrap();
        let run = run(&simulation, &Contender::fixed(limit), seed);
        let counts = run.counts();
        prop_assert_eq!(counts.offered, counts.good + counts.late + counts.rejected + counts.failed + run.inside);
        prop_assert_eq!(run.seconds.len(), 3);
    }

    /// The same of parts in series, mixes, failures, gates within, several processes, and clients that back off.
    #[test]
    fn whatever_has_parts_can_be_run(
        rate in 0..200_u32, workers in 1..20_u32, pool in 1..10_u32, part in 0.0..1.0_f64, holds in any::<bool>(),
        weight in 0.1..9.0_f64, failing in 0.0..1.0_f64, after in 1..90_u64, above in 0..30_u32, factor in 1.0..3.0_f64,
        jitter in 0.0..1.0_f64, budget in 0.0..1.0_f64, processes in 1..6_u32, inner in 1..12_u32, bound in 0..20_u32,
        outcome in prop::sample::select(&["overload", "ignore", "success"][..]),
        on in prop::sample::select(&["refused", "failed", "[refused, failed]"][..]), limit in 1..30_u64, seed in any::<u64>(),
    ) {
        let text = format!("name: any
duration: 3s
deadline: 300ms
rate: [{{ at: 0, value: {rate} }}, {{ at: 1s, value: {workers}, over: 500ms }}]
retries: {{ times: 2, delay: 20ms, factor: {factor}, max_delay: 100ms, jitter: {jitter}, budget: {budget}, on: {on} }}
processes: {processes}
late_outcome: {outcome}
stations:
  - {{ name: network, service: {{ exponential: {{ mean: 5ms }} }} }}
  - name: app
    workers: {workers}
    holds: {holds}
    service: {{ mix: [{{ weight: {weight}, service: 10ms }}, {{ weight: [{{ at: 0, value: 0 }}, {{ at: 1s, value: 1 }}], service: {{ bimodal: {{ fast: 5ms, slow: 90ms, share: 0.1 }} }} }}] }}
    contention: {{ factor: 0.5, above: {above} }}
    failures: [{{ share: {failing}, after: {after}ms, outcome: {outcome} }}, {{ share: 0.1, priority: normal }}]
  - {{ name: pool, share: {part}, workers: {pool}, service: {{ pareto: {{ least: 5ms, alpha: 1.5 }} }}, limit: fixed={inner}, queue: {{ bound: {bound}, timeout: 50ms }} }}
");
        prop_assert_eq!(crate::schema::check(&text), Ok(()));
        let simulation = Simulation::from_text("f.yaml", &text).unwrap();
        let run = run(&simulation, &Contender::fixed(limit), seed);
        let counts = run.counts();
        prop_assert_eq!(counts.offered, counts.good + counts.late + counts.rejected + counts.failed + run.inside);
        prop_assert_eq!(run.seconds.len(), 3);
    }
}
