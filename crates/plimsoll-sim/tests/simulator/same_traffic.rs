//! The same seed gives the same run; every limit gets the same traffic; and nobody is lost on the way.

use crate::support::{aimd, run_of, shipped, shipped_as, simulation};
use plimsoll_sim::{Comparison, Contender, RequestCounts, Simulation, run};

fn contenders() -> [Contender; 4] {
    [
        Contender::none(),
        Contender::fixed(50),
        Contender::fixed(8),
        aimd(),
    ]
}

#[test]
fn a_seed_gives_one_run_and_another_seed_another() {
    for name in ["retry_storm", "priorities", "closed_loop", "gc_pauses"] {
        let simulation = shipped_as(name);
        let first = run(&simulation, &aimd(), 7);
        assert_eq!(first, run(&simulation, &aimd(), 7), "{name}");
        assert_ne!(
            first.seconds,
            run(&simulation, &aimd(), 8).seconds,
            "{name}"
        );
    }
}

#[test]
fn runs_do_not_depend_on_the_threads_they_run_on() {
    let simulation = shipped_as("bursts");
    let comparison = Comparison::of(&simulation).test(aimd()).seeds(3);
    let compared = comparison.run();
    for (seed, at) in (1..).zip(&compared.limits[0].runs) {
        assert_eq!(*at, run(&simulation, &aimd(), seed));
    }
    assert_eq!(compared, comparison.run());
}

#[test]
fn every_limit_sees_the_same_arrivals() {
    for name in ["overload", "retry_storm", "priorities"] {
        let simulation = shipped_as(name);
        let offered = |contender: &Contender| {
            let seconds = run(&simulation, contender, 1).seconds;
            let each = seconds
                .iter()
                .map(|second| second.classes.map(|class| class.offered));
            each.collect::<Vec<_>>()
        };
        let [first, rest @ ..] = contenders().map(|contender| offered(&contender));
        assert!(rest.iter().all(|other| *other == first), "{name}");
    }
}

#[test]
fn with_nobody_refused_two_limits_do_the_same_work() {
    let lines =
        "duration: 30s\nrate: 100\nworkers: 40\nservice: { lognormal: { mean: 50ms, sigma: 1 } }";
    let (none, wide) = (
        run_of(lines, &Contender::none()),
        run_of(lines, &Contender::fixed(10_000)),
    );
    let answers = |run: &plimsoll_sim::Run| {
        run.seconds
            .iter()
            .map(|it| (it.counts(), it.p99_ms))
            .collect::<Vec<_>>()
    };
    assert_eq!(answers(&none), answers(&wide));
}

#[test]
fn offered_is_good_late_rejected_or_still_inside() {
    // One limit for each, in turn.
    for (file, contender) in shipped().into_iter().zip(contenders().iter().cycle()) {
        let simulation = Simulation::from_file(&file).unwrap();
        check(&simulation, contender, &file.display().to_string());
    }
}

#[test]
fn nobody_is_lost_in_a_queue_with_retries_and_clients() {
    let simulation = simulation(
        "duration: 30s
deadline: 400ms
rate: 200
clients: { count: 50, think: 30ms }
retries: { times: 2, delay: 50ms }
priorities: { critical: 0.3, normal: 0.3, non-critical: 0.4 }
workers: [{ at: 0s, value: 10 }, { at: 10s, value: 0 }, { at: 15s, value: 10 }]
pauses: { every: 2s, for: 300ms }
service: { pareto: { least: 20ms, alpha: 1.6 } }
queue: { bound: 10, order: lifo, timeout: 100ms }",
    );
    for contender in contenders().into_iter().chain([Contender::oracle()]) {
        check(&simulation, &contender, contender.name());
    }
}

#[track_caller]
fn check(simulation: &Simulation, contender: &Contender, what: &str) {
    let run = run(simulation, contender, 1);
    let RequestCounts {
        offered,
        good,
        late,
        rejected,
        failed,
        ..
    } = run.counts();
    assert!(offered > 0, "{what}");
    assert_eq!(
        offered,
        good + late + rejected + failed + run.inside,
        "{what}, {}",
        contender.name()
    );
}
