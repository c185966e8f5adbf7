//! Servers of several parts, and several processes before one.

use crate::support::{near, run_of};
use plimsoll_sim::{Contender, Run};

fn answered(run: &Run) -> f64 {
    let counts = run.counts();
    (counts.good + counts.late) as f64 / run.seconds.len() as f64
}

#[test]
fn stations_in_series_take_the_sum_of_their_times() {
    let lines = "duration: 30s\nrate: 50\nstations:
  - { name: app, workers: 100, service: 20ms }
  - { name: network, service: 30ms }
  - { name: db, workers: 100, service: 50ms }";
    let run = run_of(lines, &Contender::none());
    near("latency", run.phases[0].p99_ms.unwrap(), 100.0, 0.01);
    near("goodput", run.phases[0].goodput.unwrap(), 1.0, 0.01);
}

#[test]
fn the_narrowest_station_is_what_the_server_can_do() {
    let lines = "duration: 60s\nrate: 500\nstations:
  - { name: app, workers: 20, service: 50ms }
  - { name: db, workers: 5, service: 50ms }";
    let run = run_of(lines, &Contender::fixed(40));
    near("answered", answered(&run), 100.0, 0.03);
    assert_eq!(run.seconds[30].ideal.round(), 100.0);
}

#[test]
fn a_pure_delay_holds_a_permit_and_no_worker() {
    // 300 ms on the way, 10 ms of work by one worker: 100 a second, with 31 inside.
    let lines = "duration: 60s\nrate: 500\nstations:
  - { name: way, service: 300ms }
  - { name: app, workers: 1, service: 10ms }";
    let wide = run_of(lines, &Contender::fixed(31));
    near("with room for the delay", answered(&wide), 100.0, 0.03);
    let narrow = run_of(lines, &Contender::fixed(10));
    near("without", answered(&narrow), 10.0 / 0.315, 0.05);
}

#[test]
fn a_share_of_the_requests_needs_a_pool() {
    let lines = "duration: 60s\nrate: 300\nstations:
  - { name: app, workers: 100, service: 10ms }
  - { name: pool, workers: 5, service: 50ms, share: 0.25 }";
    let run = run_of(lines, &Contender::none());
    near("p50", run.phases[0].p50_ms.unwrap(), 10.0, 0.02);
    assert!(run.phases[0].p90_ms.unwrap() > 59.0);
    near("all", answered(&run), 300.0, 0.03);
    // A quarter of 800 is twice what the pool can do: three quarters, and half of the rest.
    let run = run_of(&lines.replace("300", "800"), &Contender::none());
    near("ideal", run.seconds[30].ideal, 800.0 * (0.75 + 0.125), 0.1);
}

#[test]
fn a_pool_with_a_limit_of_its_own_answers_with_errors_what_is_too_much_for_it() {
    let lines = "duration: 60s\nrate: 800\nstations:
  - { name: app, workers: 100, service: 10ms }
  - { name: pool, workers: 5, service: 50ms, share: 0.25, limit: fixed=8 }";
    let run = run_of(lines, &Contender::none());
    let counts = run.counts();
    assert_eq!(counts.late + counts.rejected, 0);
    near(
        "failed",
        counts.failed as f64 / counts.offered as f64,
        0.125,
        0.08,
    );
    near("goodput", run.phases[0].goodput.unwrap(), 1.0, 0.02);
    // Who may wait there waits, and fewer fail.
    let queue = lines.replace("fixed=8", "fixed=5, queue: { bound: 20, counts: waiting }");
    let waits = run_of(&queue, &Contender::none());
    near(
        "still",
        waits.counts().failed as f64,
        counts.failed as f64,
        0.08,
    );
    assert!(waits.phases[0].p99_ms > run.phases[0].p99_ms);
}

#[test]
fn gates_in_series_are_both_passed_and_held() {
    // The second lets 4 in; who is refused there was let in by the first, and gets an error.
    let lines = "duration: 30s\nrate: 300\nstations:
  - { name: edge, workers: 1000, service: 1ms, holds: true, limit: fixed=10 }
  - { name: app, workers: 100, service: 50ms, limit: fixed=4 }";
    let run = run_of(lines, &Contender::fixed(1000));
    near("answered", answered(&run), 80.0, 0.1);
    // The outer one is narrower than what the inner one would let in.
    let outer = lines.replace("fixed=10", "fixed=2");
    let run = run_of(&outer, &Contender::fixed(1000));
    near("held by the first", answered(&run), 2.0 / 0.051, 0.15);
}

#[test]
fn a_worker_may_be_held_until_the_answer() {
    let lines = "duration: 30s\nrate: 500\nstations:
  - { name: app, workers: 10, service: 10ms, holds: true }
  - { name: db, workers: 100, service: 90ms }";
    let held = run_of(lines, &Contender::fixed(50));
    near("held", answered(&held), 100.0, 0.03);
    assert_eq!(held.seconds[20].ideal.round(), 100.0);
    let free = run_of(&lines.replace(", holds: true", ""), &Contender::fixed(200));
    near("free", answered(&free), 500.0, 0.03);
}

#[test]
fn contention_may_begin_below_the_workers() {
    // Ten at once are as fast as can be; with 40 each takes 1 + 30/40 times as long.
    let lines = "duration: 30s\nrate: 2000\nworkers: 40\nservice: 50ms\ncontention: { factor: 1, above: 10 }";
    near(
        "ten",
        answered(&run_of(lines, &Contender::fixed(10))),
        200.0,
        0.02,
    );
    let all = answered(&run_of(lines, &Contender::fixed(40)));
    near("forty", all, 800.0 / 1.75, 0.03);
    assert_eq!(
        run_of(lines, &Contender::none()).seconds[5].ideal.round(),
        457.0
    );
}

#[test]
fn work_is_of_several_kinds_and_their_weights_change() {
    let lines = "duration: 60s\nrate: 100\nworkers: 1000\nservice:
  mix:
    - { weight: [{ at: 0s, value: 1 }, { at: 20s, value: 0, over: 20s }], service: 10ms }
    - { weight: 0.0001, service: { exponential: { mean: 100ms } } }";
    let run = run_of(lines, &Contender::none());
    near("before", run.seconds[10].p99_ms.unwrap(), 10.0, 0.01);
    assert!(run.seconds[50].p99_ms.unwrap() > 150.0);
}

#[test]
fn every_process_has_a_limit_of_its_own_before_the_same_server() {
    let lines = "duration: 60s\nrate: 1000\nworkers: 20\nservice: 50ms\n";
    let run = run_of(&format!("{lines}processes: 4"), &Contender::fixed(3));
    // Four times three inside, of twenty workers, but for the time until the next comes.
    near("answered", answered(&run), 240.0, 0.1);
    assert_eq!(run.seconds[30].limit, Some(12));
    assert!(run.phases[0].fairness.unwrap() > 0.999);
    // One with nine tenths of the traffic has as many places as the other.
    let run = run_of(
        &format!("{lines}processes: [0.9, 0.1]"),
        &Contender::fixed(3),
    );
    near("answered", answered(&run), 105.0, 0.1);
    assert!(run.phases[0].fairness.unwrap() < 0.7);
    let one = run_of(lines, &Contender::fixed(3));
    assert_eq!(one.phases[0].fairness, None);
}

#[test]
fn classes_may_change_their_shares() {
    let lines = "duration: 60s\nrate: 200\nworkers: 100\nservice: 10ms\npriorities:
  critical: [{ at: 0s, value: 0.1 }, { at: 30s, value: 0.9 }]
  normal: [{ at: 0s, value: 0.9 }, { at: 30s, value: 0.1 }]";
    let run = run_of(lines, &Contender::none());
    let critical = |from: usize, to: usize| {
        let part = run.seconds[from..to].iter().map(|it| it.classes[0].offered);
        part.sum::<u64>() as f64 / 30.0
    };
    near("before", critical(0, 30), 20.0, 0.15);
    near("after", critical(30, 60), 180.0, 0.05);
}
