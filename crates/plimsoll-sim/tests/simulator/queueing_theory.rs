//! Against what theory says of a queue: with exponential gaps and times of service, the mean wait is Erlang's.

use crate::support::{near, simulation};
use plimsoll_sim::{Contender, run};

/// The mean wait in milliseconds of a queue of `workers` at `load`, each request taking 50 ms.
fn erlang_c(workers: u32, load: f64) -> f64 {
    let (c, offered) = (f64::from(workers), f64::from(workers) * load);
    // The probability that all are busy, from the recursion of Erlang B.
    let blocked = (1..=workers).fold(1.0, |b, k| offered * b / (f64::from(k) + offered * b));
    let waits = blocked / (1.0 - load * (1.0 - blocked));
    waits * 50.0 / (c * (1.0 - load))
}

fn mean_wait(workers: u32, load: f64, seconds: u64) -> f64 {
    let rate = f64::from(workers) * load * 20.0;
    let simulation = simulation(&format!(
        "duration: {seconds}s\ndeadline: 1h\nrate: {rate}\nworkers: {workers}\n\
         service: {{ exponential: {{ mean: 50ms }} }}"
    ));
    let waits = (1..=3).map(|seed| {
        let run = run(&simulation, &Contender::none(), seed);
        run.phases[0].mean_ms.map_or(f64::NAN, |mean| mean - 50.0)
    });
    waits.sum::<f64>() / 3.0
}

#[test]
fn the_formula_itself() {
    // By hand: one worker at half load waits as long as it works, two a third of that.
    near("one worker", erlang_c(1, 0.5), 50.0, 1e-12);
    near("two workers", erlang_c(2, 0.5), 50.0 / 3.0, 1e-12);
}

#[test]
fn one_worker() {
    near("wait", mean_wait(1, 0.7, 10_000), erlang_c(1, 0.7), 0.04);
}

#[test]
fn eight_workers() {
    near("wait", mean_wait(8, 0.85, 2_000), erlang_c(8, 0.85), 0.04);
}

#[test]
fn forty_workers() {
    near("wait", mean_wait(40, 0.9, 800), erlang_c(40, 0.9), 0.04);
}
