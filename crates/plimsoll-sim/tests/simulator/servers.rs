//! Every way to answer, each with a figure that would be another without it.

use crate::support::{near, run_of};
use plimsoll_sim::{Contender, Run, Summary};

fn only(run: &Run) -> &Summary {
    &run.phases[0]
}

/// What is answered a second.
fn throughput(run: &Run) -> f64 {
    let counts = run.counts();
    (counts.good + counts.late) as f64 / run.seconds.len() as f64
}

#[test]
fn so_many_workers_do_so_much() {
    let lines = "duration: 60s\nrate: 2000\nservice: { lognormal: { mean: 50ms, sigma: 0.5 } }\n";
    for workers in [1_u32, 7, 40] {
        let run = run_of(&format!("{lines}workers: {workers}"), &Contender::none());
        near(
            "throughput",
            throughput(&run),
            f64::from(workers) * 20.0,
            0.03,
        );
    }
}

#[test]
fn work_of_a_constant_time_takes_that_time() {
    let run = run_of(
        "duration: 60s\nrate: 100\nworkers: 100\nservice: 50ms",
        &Contender::none(),
    );
    for found in [only(&run).p50_ms, only(&run).p99_ms, only(&run).mean_ms] {
        near("latency", found.unwrap(), 50.0, 0.005);
    }
}

#[test]
fn every_distribution_can_be_asked_for_by_name() {
    // The exact percentiles of each distribution.
    let cases = [
        ("{ constant: 50ms }", 50.0, 50.0),
        (
            "{ exponential: { mean: 50ms } }",
            50.0 * 2_f64.ln(),
            50.0 * 100_f64.ln(),
        ),
        // exp(mu + z sigma), mu = ln 50 - 1/8.
        ("{ lognormal: { mean: 50ms, sigma: 0.5 } }", 44.12, 141.2),
        // A fifth more or less: the median lies 0.5/0.9 of the way through the fast.
        (
            "{ bimodal: { fast: 10ms, slow: 100ms, share: 0.1 } }",
            8.0 + 4.0 * 5.0 / 9.0,
            116.0,
        ),
        (
            "{ pareto: { least: 20ms, alpha: 2 } }",
            20.0 * 2_f64.sqrt(),
            200.0,
        ),
    ];
    for (service, p50, p99) in cases {
        let lines = format!("duration: 200s\nrate: 300\nworkers: 10000\nservice: {service}");
        let run = run_of(&lines, &Contender::none());
        near(service, only(&run).p50_ms.unwrap(), p50, 0.02);
        near(service, only(&run).p99_ms.unwrap(), p99, 0.04);
    }
}

#[test]
fn capacity_steps_down_and_up_again() {
    let lines = "duration: 90s\nrate: 1000\nservice: { exponential: { mean: 50ms } }
workers: [{ at: 0s, value: 20 }, { at: 30s, value: 5 }, { at: 60s, value: 20 }]";
    let run = run_of(lines, &Contender::oracle());
    let answered = |from: usize, to: usize| {
        let part = run.seconds[from..to]
            .iter()
            .map(|second| second.counts().good);
        part.sum::<u64>() as f64 / (to - from) as f64
    };
    near("before", answered(1, 30), 400.0, 0.04);
    near("between", answered(31, 60), 100.0, 0.08);
    near("after", answered(61, 90), 400.0, 0.04);
    let limits: Vec<Option<u64>> = [10, 40, 70].map(|at| run.seconds[at].limit).to_vec();
    let [Some(before), Some(between), Some(after)] = limits[..] else {
        panic!("{limits:?}")
    };
    assert!((20..=26).contains(&before) && before == after, "{limits:?}");
    assert!((5..=7).contains(&between), "{limits:?}");
}

#[test]
fn a_ramp_of_workers_is_followed() {
    let lines = "duration: 100s\nrate: 1000\nservice: 50ms
workers: { ramp: [{ at: 0s, value: 0 }, { at: 100s, value: 40 }] }";
    let run = run_of(lines, &Contender::none());
    let at = |second: usize| {
        (run.seconds[second].counts().good + run.seconds[second].counts().late) as f64
    };
    near("at a quarter", at(25), 200.0, 0.1);
    near("at the end", at(99), 780.0, 0.05);
}

#[test]
fn a_server_without_workers_answers_nobody_until_it_has_some() {
    let lines = "duration: 20s\nrate: 10\nservice: 50ms
workers: [{ at: 0s, value: 0 }, { at: 10s, value: 100 }]";
    let run = run_of(lines, &Contender::none());
    let answers = |at: usize| run.seconds[at].counts().good + run.seconds[at].counts().late;
    assert!((0..10).all(|at| answers(at) == 0));
    assert!(answers(10) > 80);
}

#[test]
fn service_slows_down_with_concurrency() {
    let lines =
        "duration: 30s\nrate: 2000\nworkers: 20\nservice: { exponential: { mean: 50ms } }\n";
    let plain = run_of(lines, &Contender::fixed(40));
    // Twice as much in flight as there are workers: with a contention of 1 all takes twice as long.
    let thrashing = run_of(&format!("{lines}contention: 1"), &Contender::fixed(40));
    near("plain", throughput(&plain), 400.0, 0.03);
    near("thrashing", throughput(&thrashing), 200.0, 0.03);
    // No more than the workers: no contention.
    let calm = run_of(&format!("{lines}contention: 1"), &Contender::fixed(20));
    near("calm", throughput(&calm), 400.0, 0.03);
}

#[test]
fn everything_takes_longer_by_steps_or_little_by_little() {
    let lines = "duration: 100s\nrate: 100\nworkers: 1000\nservice: 50ms\n";
    let steps = "slow_down: [{ at: 0s, value: 1 }, { at: 50s, value: 5 }]";
    let run = run_of(&format!("{lines}{steps}"), &Contender::none());
    near("before", run.seconds[20].p50_ms.unwrap(), 50.0, 0.001);
    near("after", run.seconds[80].p50_ms.unwrap(), 250.0, 0.001);

    let ramp = "slow_down: { ramp: [{ at: 0s, value: 1 }, { at: 100s, value: 3 }] }";
    let run = run_of(&format!("{lines}{ramp}"), &Contender::none());
    near("a quarter", run.seconds[25].p50_ms.unwrap(), 75.0, 0.02);
    near(
        "three quarters",
        run.seconds[75].p50_ms.unwrap(),
        125.0,
        0.02,
    );
}

#[test]
fn in_a_pause_nothing_gets_on() {
    let lines = "duration: 60s\nworkers: 20\nservice: { exponential: { mean: 50ms } }\n";
    let pauses = "pauses: { every: 1s, for: 500ms }";
    let busy = run_of(&format!("{lines}rate: 1000\n{pauses}"), &Contender::none());
    near(
        "half the time, half the work",
        throughput(&busy),
        200.0,
        0.05,
    );

    let idle = format!("{lines}rate: 20\n");
    let without = run_of(&idle, &Contender::none());
    let with = run_of(&format!("{idle}{pauses}"), &Contender::none());
    assert!(only(&without).p90_ms.unwrap() < 130.0);
    assert!(only(&with).p90_ms.unwrap() > 400.0);
    // What a perfect limiter could do is less, too.
    assert_eq!(busy.seconds[5].ideal, 200.0);
}

#[test]
fn what_comes_too_late_is_not_good() {
    let lines =
        "duration: 30s\nrate: 100\nworkers: 1000\nservice: { exponential: { mean: 50ms } }\n";
    let run = run_of(&format!("{lines}deadline: 50ms"), &Contender::none());
    // 1 - 1/e of them are in time.
    near(
        "good",
        only(&run).goodput.unwrap(),
        1.0 - (-1_f64).exp(),
        0.03,
    );
    near("late", only(&run).late, (-1_f64).exp(), 0.05);
}

#[test]
fn work_whose_client_has_left_is_done_or_dropped() {
    // Four times as much as ten workers can do, for 10 s of 20.
    let lines = "duration: 20s\ndeadline: 500ms\nrate: [{ at: 0s, value: 800 }, { at: 10s, value: 100 }]\n\
                 workers: 10\nservice: 50ms\nphases: [{ name: after, from: 12s, to: 20s }]\n";
    let done = run_of(lines, &Contender::none());
    assert_eq!(
        only(&done).goodput,
        Some(0.0),
        "it is still busy with what was left"
    );
    let dropped = run_of(&format!("{lines}late_work: dropped"), &Contender::none());
    near("goodput", only(&dropped).goodput.unwrap(), 1.0, 0.01);
    let waiting = dropped.seconds.iter().map(|second| second.in_flight).max();
    assert!(
        waiting <= Some(450),
        "more than come in the time: {waiting:?}"
    );
    let counts = dropped.counts();
    let ended = counts.good + counts.late + counts.rejected;
    assert_eq!(
        ended + dropped.inside,
        counts.offered,
        "each is counted once"
    );
}

#[test]
fn slow_traffic_is_not_above_an_ideal_that_is_stated() {
    // The ideal of each second was cut off at less than one request: 375 %.
    for (rate, least) in [("0.3", 0.8), ("2", 0.9), ("10", 0.95)] {
        let lines =
            format!("duration: 3000s\nrate: {rate}\nideal: {rate}\nworkers: 10\nservice: 10ms");
        let goodput = run_of(&lines, &Contender::none()).phases[0].goodput;
        assert!(
            (least..1.08).contains(&goodput.expect("a goodput")),
            "{rate}: {goodput:?}"
        );
    }
    // A burst is not answered from what idle seconds before it left.
    let lines = "duration: 100s\nbursts: { every: 10s, for: 1s, rate: 2000 }\nideal: 200\nworkers: 10\nservice: 50ms";
    let run = run_of(lines, &Contender::fixed(20));
    let ideals = run.seconds.iter().map(|second| second.ideal);
    assert!(ideals.fold(0.0, f64::max) <= 210.0);
}
