//! Every way to ask, each with a figure that would be another without it.

use crate::support::{near, run_of};
use plimsoll_sim::{Contender, Run};

const IDLE: &str = "workers: 1000\nservice: 10ms\n";

fn offered(run: &Run) -> Vec<f64> {
    run.seconds
        .iter()
        .map(|second| second.counts().offered as f64)
        .collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn the_open_loop_is_poisson() {
    let run = run_of(
        &format!("{IDLE}duration: 2000s\nrate: 50"),
        &Contender::none(),
    );
    let counts = offered(&run);
    let middle = mean(&counts);
    near("mean", middle, 50.0, 0.01);
    // The variance of a Poisson process is its mean. A regular stream would have none.
    let squares: Vec<f64> = counts
        .iter()
        .map(|count| (count - middle).powi(2))
        .collect();
    near("variance", mean(&squares), 50.0, 0.07);
}

#[test]
fn the_rate_steps_and_ramps() {
    let steps = "rate: [{ at: 0s, value: 100 }, { at: 50s, value: 400 }]\nduration: 100s";
    let counts = offered(&run_of(&format!("{IDLE}{steps}"), &Contender::none()));
    near("before", mean(&counts[..50]), 100.0, 0.05);
    near("after", mean(&counts[50..]), 400.0, 0.05);

    let ramp = "rate: { ramp: [{ at: 0s, value: 0 }, { at: 100s, value: 400 }] }\nduration: 100s";
    let counts = offered(&run_of(&format!("{IDLE}{ramp}"), &Contender::none()));
    near("first fifth", mean(&counts[..20]), 40.0, 0.1);
    near("last fifth", mean(&counts[80..]), 360.0, 0.05);
}

#[test]
fn bursts_come_and_go() {
    let lines = "rate: 20\nbursts: { every: 5s, for: 2s, rate: 500 }\nduration: 100s";
    let counts = offered(&run_of(&format!("{IDLE}{lines}"), &Contender::none()));
    let (mut inside, mut between) = (Vec::new(), Vec::new());
    for (second, count) in counts.iter().enumerate() {
        let part = if second % 5 < 2 {
            &mut inside
        } else {
            &mut between
        };
        part.push(*count);
    }
    near("burst", mean(&inside), 500.0, 0.05);
    near("between", mean(&between), 20.0, 0.1);
}

#[test]
fn a_closed_loop_asks_as_often_as_it_is_answered() {
    // 30 clients, each 150 ms of thought and 50 of service: 150 a second.
    let lines = "duration: 100s\nclients: { count: 30, think: 150ms }\nworkers: 40\nservice: 50ms";
    let counts = offered(&run_of(lines, &Contender::none()));
    near("free", mean(&counts), 150.0, 0.01);

    // Five workers answer 100 a second: the clients slow down to that, and all others wait.
    let lines = lines.replace("workers: 40", "workers: 5");
    let run = run_of(&lines, &Contender::none());
    near("bound", mean(&offered(&run)[1..]), 100.0, 0.01);
    near("latency", run.phases[0].p50_ms.unwrap(), 150.0, 0.01);
    assert_eq!(run.phases[0].late, 0.0);
}

#[test]
fn a_client_gives_up_at_the_deadline_and_the_server_does_not() {
    // One worker that takes 10 s, one client with 1 s of patience and half a second of thought.
    let lines = "duration: 60s\nclients: { count: 1, think: 500ms }\nworkers: 1\nservice: 10s";
    let run = run_of(lines, &Contender::none());
    let counts = run.counts();
    assert_eq!(counts.offered, 40, "every 1.5 s");
    assert_eq!((counts.good, counts.late), (0, 5));
    assert_eq!(run.inside, 35);
}

#[test]
fn who_is_refused_tries_again_so_often_and_no_more() {
    // One gets in and stays; everybody else is refused at every try.
    let lines = "duration: 100s\nrate: 50\nworkers: 1\nservice: 1h\n";
    let without = run_of(lines, &Contender::fixed(1));
    let with = run_of(
        &format!("{lines}retries: {{ times: 3, delay: 1s }}"),
        &Contender::fixed(1),
    );
    assert_eq!(
        without.counts().offered,
        with.counts().offered,
        "a retry is no new request"
    );
    assert_eq!(without.inside, 1);
    // Three delays of 1 s, half of it more or less: refused for good after 3 s, and 1.5 at the soonest.
    let last = with.counts().offered - with.counts().rejected - 1;
    near("still trying", last as f64, 150.0, 0.15);
    assert_eq!(with.seconds[0].counts().rejected, 0);
}

#[test]
fn retries_get_in_when_there_is_room_again() {
    let lines = "duration: 60s\nrate: 30\nbursts: { every: 10s, for: 1s, rate: 200 }\nworkers: 5\nservice: 50ms\n";
    let without = run_of(lines, &Contender::fixed(5));
    let with = run_of(
        &format!("{lines}retries: {{ times: 5, delay: 500ms }}"),
        &Contender::fixed(5),
    );
    let share = |run: &Run| run.counts().rejected as f64 / run.counts().offered as f64;
    assert!(share(&without) > 0.2, "{}", share(&without));
    assert!(share(&with) < 0.5 * share(&without), "{}", share(&with));
    // Their latency counts from the first try.
    assert!(with.phases[0].p99_ms.unwrap() > 400.0);
    assert!(without.phases[0].p99_ms.unwrap() < 60.0);
}

#[test]
fn classes_have_their_shares() {
    let lines = "duration: 100s\nrate: 200\npriorities: { critical: 0.1, normal: 0.65, non-critical: 0.25 }";
    let run = run_of(&format!("{IDLE}{lines}"), &Contender::none());
    let class = |class: usize| {
        run.seconds
            .iter()
            .map(|it| it.classes[class].offered)
            .sum::<u64>() as f64
    };
    let all = run.counts().offered as f64;
    near("critical", class(0) / all, 0.1, 0.05);
    near("normal", class(1) / all, 0.65, 0.05);
    near("non-critical", class(2) / all, 0.25, 0.05);
}

const CROWDED: &str =
    "duration: 40s\nrate: 400\nworkers: 10\nservice: { exponential: { mean: 50ms } }
priorities: { critical: 0.25, normal: 0.5, non-critical: 0.25 }\n";

#[test]
fn a_queue_serves_the_important_first() {
    let run = run_of(
        &format!("{CROWDED}queue: {{ bound: 20, counts: waiting }}"),
        &Contender::fixed(10),
    );
    let [critical, normal, minor] = run.phases[0].rejected_by_class.map(Option::unwrap);
    assert!(critical < 0.001, "{critical}");
    near("normal", normal, 0.5, 0.1);
    assert!(minor > 0.98, "{minor}");
    let [good, ..] = run.phases[0].good_by_class.map(Option::unwrap);
    assert!(good > 0.99, "{good}");
}

#[test]
fn without_a_queue_all_classes_fare_alike() {
    let run = run_of(CROWDED, &Contender::fixed(10));
    let shares = run.phases[0].rejected_by_class.map(Option::unwrap);
    assert!(
        shares.iter().all(|share| (share - shares[0]).abs() < 0.03),
        "{shares:?}"
    );
}
