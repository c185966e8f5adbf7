//! Answers that are errors.

use crate::support::{near, run_of, simulation};
use plimsoll::adaptive::{Limit, Sample};
use plimsoll_sim::{Comparison, Contender, Run, text};

const SERVER: &str = "duration: 60s\nworkers: 40\nservice: 50ms\n";

fn failed(run: &Run) -> f64 {
    run.counts().failed as f64 / run.counts().offered as f64
}

#[test]
fn a_share_of_the_answers_are_errors_and_are_not_good() {
    let lines = format!("{SERVER}rate: 200\nfailures: {{ share: 0.2 }}");
    let run = run_of(&lines, &Contender::none());
    near("failed", failed(&run), 0.2, 0.05);
    let counts = run.counts();
    assert_eq!(counts.offered, counts.good + counts.failed + run.inside);
    // What could be had is what does not fail.
    near("goodput", run.phases[0].goodput.unwrap(), 1.0, 0.02);
    near("share", run.phases[0].failed, 0.2, 0.05);
    // An error is no answer whose latency counts.
    near("p99", run.phases[0].p99_ms.unwrap(), 50.0, 0.01);
}

#[test]
fn errors_change_with_time_and_differ_by_class() {
    let lines = format!(
        "{SERVER}rate: 400
priorities: {{ critical: 0.5, normal: 0.5 }}
failures:
  - {{ share: [{{ at: 0s, value: 0 }}, {{ at: 30s, value: 0.5 }}], priority: critical }}
  - {{ share: 0.1, priority: normal, outcome: ignore }}"
    );
    let run = run_of(&lines, &Contender::none());
    let part = |from: usize, to: usize, class: usize| {
        let seconds = run.seconds[from..to].iter().map(|it| it.classes[class]);
        let (failed, all) = seconds.fold((0, 0), |sum, it| (sum.0 + it.failed, sum.1 + it.offered));
        failed as f64 / all as f64
    };
    assert_eq!(part(0, 30, 0), 0.0);
    near("critical", part(30, 60, 0), 0.5, 0.05);
    near("normal", part(0, 60, 1), 0.1, 0.1);
}

#[test]
fn an_error_takes_as_long_as_the_work_or_fails_fast() {
    // Half of them fail. After the work, 40 workers handle 800 a second; at once, nearly twice as many.
    let overload = format!("{SERVER}rate: 3000\n");
    let handled = |more: &str| {
        let run = run_of(&format!("{overload}{more}"), &Contender::fixed(60));
        let counts = run.counts();
        (counts.good + counts.late + counts.failed) as f64 / 60.0
    };
    near(
        "after the work",
        handled("failures: { share: 0.5 }"),
        800.0,
        0.02,
    );
    let fast = handled("failures: { share: 0.5, after: 2ms }");
    near("fast", fast, 40.0 / 0.026, 0.02);
}

/// Counts what it hears.
#[derive(Debug)]
struct Ears(std::sync::Arc<std::sync::Mutex<(u64, u64)>>);

impl Limit for Ears {
    fn limit(&self) -> u64 {
        1000
    }

    fn sample(&mut self, sample: &Sample) {
        let mut heard = self.0.lock().expect("nobody panicked");
        heard.0 += 1;
        heard.1 += u64::from(sample.overload);
    }
}

/// How many answers the limit hears of, and how many of them are overloads.
fn heard(lines: &str) -> (Run, u64, u64) {
    let heard = std::sync::Arc::default();
    let ears = std::sync::Arc::clone(&heard);
    let contender = Contender::new("ears", move || Box::new(Ears(std::sync::Arc::clone(&ears))));
    let run = run_of(lines, &contender);
    let (all, overloads) = *heard.lock().expect("nobody panicked");
    (run, all, overloads)
}

#[test]
fn the_limit_hears_what_the_file_says() {
    let lines = format!("{SERVER}rate: 200\n");
    for (outcome, samples, overloads) in [
        ("overload", 1.0, 0.3),
        ("ignore", 0.7, 0.0),
        ("success", 1.0, 0.0),
    ] {
        let more = format!("failures: {{ share: 0.3, outcome: {outcome} }}");
        let (run, all, bad) = heard(&format!("{lines}{more}"));
        let ended = (run.counts().offered - run.inside) as f64;
        near(outcome, all as f64 / ended, samples, 0.03);
        let share = bad as f64 / ended;
        assert!((share - overloads).abs() < 0.02, "{outcome}: {share}");
    }
}

#[test]
fn lateness_is_told_or_not() {
    let lines = "duration: 30s\nrate: 100\nworkers: 1000\nservice: 200ms\ndeadline: 100ms\n";
    let (run, all, overloads) = heard(lines);
    assert_eq!((run.counts().late, all), (overloads, overloads));
    let (run, all, overloads) = heard(&format!("{lines}late_outcome: success"));
    assert_eq!((run.counts().late, overloads), (all, 0));
}

#[test]
fn who_gets_an_error_may_try_again() {
    let lines = format!("{SERVER}rate: 200\nfailures: {{ share: 0.5 }}\n");
    let again = |on: &str| {
        let more = format!("retries: {{ times: 3, delay: 100ms, on: {on} }}");
        run_of(&format!("{lines}{more}"), &Contender::none())
    };
    near("not these", failed(&again("refused")), 0.5, 0.03);
    let run = again("[refused, failed]");
    near("these", failed(&run), 1.0 / 16.0, 0.1);
    near("goodput", run.phases[0].goodput.unwrap(), 1.0, 0.02);
}

#[test]
fn the_table_shows_errors_where_there_may_be_any() {
    let simulation = simulation(&format!("{SERVER}rate: 20\nfailures: {{ share: 1 }}"));
    let compared = Comparison::of(&simulation).test(Contender::none()).seeds(1);
    let table = text(&simulation, &compared.run());
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[1].ends_with("mean limit  failed"), "{table}");
    assert!(
        lines[2].ends_with("100.0%") || lines[2].ends_with("99.9%"),
        "{table}"
    );
    assert!(
        lines[2].contains("none") && lines[2].contains(" - "),
        "no goodput: {table}"
    );
}
