//! The parts of the law, each on windows that need it: a server of some workers, without chance.

use super::{Law, Seen};
use crate::adaptive::verdict::window::Latency;

/// What a server makes of so much in flight: how much comes through in a nanosecond, and how long it takes.
struct Server {
    workers: f64,
    service: f64,
    /// By how much slower for each time the workers more.
    contention: f64,
    /// How much others have in flight.
    others: f64,
}

impl Server {
    const fn new(workers: f64, service: f64) -> Self {
        Self {
            workers,
            service,
            contention: 0.0,
            others: 0.0,
        }
    }

    fn latency(&self, in_flight: f64) -> f64 {
        let all = in_flight + self.others;
        let excess = (all / self.workers - 1.0).max(0.0);
        self.service * (1.0 + self.contention * excess) * (all / self.workers).max(1.0)
    }

    /// A window of a quarter of a second; what comes is all that there is room for, or so much.
    fn window(&self, number: u32, limit: f64, demand: Option<f64>) -> Seen {
        let opened = f64::from(number) * 250e6;
        let in_flight = demand.unwrap_or(f64::INFINITY).min(limit.floor());
        let value = self.latency(in_flight);
        let throughput = in_flight / value;
        let latency = Latency {
            value,
            error: value * 0.01,
        };
        Seen {
            opened,
            closed: opened + 250e6,
            count: throughput * 250e6,
            throughput,
            latency: Some(latency),
            peak: in_flight,
            mean: in_flight,
            held: in_flight,
            time: latency.value,
            time_error: latency.error,
            saturated: demand.is_none_or(|demand| demand >= limit.floor()),
            overloads: 0.0,
            overload_latency: 0.0,
            late: None,
        }
    }
}

/// Feeds windows to a law; the reasons of its decisions.
fn feed(law: &mut Law, windows: std::ops::Range<u32>, server: &Server) -> Vec<&'static str> {
    windows
        .map(|number| {
            let decision = law.decide(&server.window(number, law.limit(), None));
            law.set(decision.limit.clamp(law.min, 100_000.0));
            decision.reason
        })
        .collect()
}

#[test]
fn it_finds_the_workers_and_stays() {
    let (mut law, server) = (Law::new(20.0, 1.0), Server::new(40.0, 50e6));
    feed(&mut law, 0..200, &server);
    for number in 200..400 {
        feed(&mut law, number..number + 1, &server);
        assert!((30.0..60.0).contains(&law.limit()), "{}", law.limit());
    }
}

/// A pool that became five times slower is as wide as it was. The first window is not believed, one cut tells, and the limit is back.
#[test]
fn a_pool_that_became_slower_keeps_its_limit() {
    let mut law = Law::new(20.0, 1.0);
    let (fast, slow) = (Server::new(40.0, 50e6), Server::new(40.0, 250e6));
    feed(&mut law, 0..198, &fast);
    // Not in the middle of a probe.
    law.probe = None;
    feed(&mut law, 198..200, &fast);
    law.probe = None;
    let reasons = feed(&mut law, 200..204, &slow);
    assert_eq!(reasons[0], "keep: look again", "{reasons:?}");
    assert!(law.limit() >= 36.0, "{} {reasons:?}", law.limit());
    for number in 204..300 {
        feed(&mut law, number..number + 1, &slow);
        assert!((24.0..70.0).contains(&law.limit()), "{}", law.limit());
    }
}

/// What was asked for before a dependency became slower is let in at once, as soon as it is clear that nothing queues.
#[test]
fn what_was_asked_for_is_let_in_in_one_step() {
    let mut law = Law::new(20.0, 1.0);
    let fast = Server::new(1000.0, 20e6);
    for number in 0..10 {
        let decision = law.decide(&fast.window(number, law.limit(), Some(8.0)));
        law.set(decision.limit);
    }
    let reasons = feed(&mut law, 10..13, &Server::new(1000.0, 200e6));
    let last = reasons.last();
    assert_eq!(last, Some(&"restore: not our queue"), "{reasons:?}");
    assert!((75.0..100.0).contains(&law.limit()), "{}", law.limit());
}

/// A limit that rests where what may queue is all of it never sees that the server became slow, unless it tries more.
#[test]
fn a_limit_at_its_least_tries_more() {
    let (mut law, fast) = (Law::new(20.0, 5.0), Server::new(1000.0, 50e6));
    feed(&mut law, 0..3, &fast);
    law.met_a_queue();
    law.set(5.0);
    law.base = Some(50e6);
    let reasons = feed(&mut law, 10..60, &Server::new(1000.0, 250e6));
    assert!(reasons.contains(&"try more"), "{reasons:?}");
    assert!(reasons.contains(&"tried: more brings more"), "{reasons:?}");
    assert!(law.limit() > 50.0, "{}", law.limit());
}

/// Where it is a queue, more brings no more: the limit goes back, and is tried ever more rarely.
#[test]
fn a_limit_at_its_least_that_is_enough_stays() {
    let mut law = Law::new(5.0, 5.0);
    law.met_a_queue();
    law.base = Some(50e6);
    let reasons = feed(&mut law, 0..400, &Server::new(1.0, 50e6));
    let tried = reasons.iter().filter(|it| **it == "try more").count();
    assert!((1..=10).contains(&tried), "{tried}");
    assert!(law.limit() <= 10.0, "{}", law.limit());
}

/// Several limits before one server: each sees that its throughput goes with its limit, and none may follow that for long.
#[test]
fn limits_that_share_a_server_do_not_drift() {
    let mut laws = vec![Law::new(20.0, 1.0); 10];
    for number in 0..4000 {
        let limits: Vec<f64> = laws.iter().map(Law::limit).collect();
        let all: f64 = limits.iter().sum();
        for (law, limit) in laws.iter_mut().zip(&limits) {
            let server = Server {
                others: all - limit,
                ..Server::new(40.0, 50e6)
            };
            feed(law, number..number + 1, &server);
        }
    }
    let all: f64 = laws.iter().map(Law::limit).sum();
    assert!(all < 400.0, "ten times the workers: {all}");
}

/// What queues that only a part of the work needs does not show in the quartile: a limit that was let too high comes down.
#[test]
fn a_limit_that_brought_no_more_comes_down() {
    let (mut law, server) = (Law::new(20.0, 1.0), Server::new(40.0, 50e6));
    feed(&mut law, 0..40, &server);
    let knee = law.climbed.limit;
    law.set(10.0 * knee);
    let mut reasons = Vec::new();
    for number in 40..60 {
        // As fast by the quartile, and slow on the average.
        let mut seen = server.window(number, 40.0, None);
        seen.mean = law.limit();
        (seen.peak, seen.saturated) = (law.limit(), true);
        let decision = law.decide(&seen);
        reasons.push(decision.reason);
        law.set(decision.limit);
    }
    assert!(
        reasons.contains(&"cut: more brought no more"),
        "{reasons:?}"
    );
    assert!(law.limit() < 3.0 * knee, "{} of {knee}", law.limit());
}

/// A queue that has gone by itself within a second was a burst: the next one is let in.
#[test]
fn a_burst_is_let_in_the_next_time() {
    let (mut law, server) = (Law::new(20.0, 1.0), Server::new(40.0, 50e6));
    feed(&mut law, 0..100, &server);
    let mut step = |number: u32, demand: Option<f64>| {
        let decision = law.decide(&server.window(number, law.limit(), demand));
        law.set(decision.limit);
        decision.reason
    };
    let quiet: Vec<_> = (100..110).map(|number| step(number, Some(8.0))).collect();
    assert!(!quiet.contains(&"grow: a burst"), "{quiet:?}");
    let mut reasons = vec![step(110, None)];
    reasons.extend((111..120).map(|number| step(number, Some(8.0))));
    assert!(reasons.contains(&"grow: a burst"), "{reasons:?}");
}

/// A server that was idle after a burst, and is full again: nothing is cut for as long as the burst took, and then it is.
#[test]
fn nothing_is_cut_for_as_long_as_a_burst_took() {
    let (mut law, server) = (Law::new(20.0, 1.0), Server::new(40.0, 50e6));
    feed(&mut law, 0..100, &server);
    let mut step = |number: u32, demand: Option<f64>| {
        let decision = law.decide(&server.window(number, law.limit(), demand));
        law.set(decision.limit);
        decision.reason
    };
    for number in 100..140 {
        // One window in ten is full.
        step(number, (number % 10 != 0).then_some(8.0));
    }
    let full: Vec<_> = (140..170).map(|number| step(number, None)).collect();
    assert_eq!(full[0], "keep: a burst", "{full:?}");
    assert!(full.contains(&"cut: queue"), "{full:?}");
}

/// What was late after a second is let in for less than a second.
#[test]
fn a_burst_that_was_late_is_let_in_in_part() {
    let (mut law, server) = (Law::new(20.0, 1.0), Server::new(40.0, 50e6));
    feed(&mut law, 0..100, &server);
    for number in 100..110 {
        let decision = law.decide(&server.window(number, law.limit(), Some(8.0)));
        law.set(decision.limit);
    }
    law.set(2000.0);
    let mut burst = server.window(110, 2000.0, None);
    (burst.overloads, burst.late) = (burst.count / 2.0, Some(1e9));
    let decision = law.decide(&burst);
    law.set(decision.limit.max(2000.0));
    let after = law.decide(&server.window(111, law.limit(), Some(8.0)));
    assert_eq!(after.reason, "cut: a burst was late", "{after:?}");
    assert!((500.0..800.0).contains(&after.limit), "{after:?}");
}

/// Where more in flight brings less through, ever less may queue, and leaps of the limit tell as much as small steps.
#[test]
fn where_more_makes_the_server_slower_nothing_may_queue() {
    let server = Server {
        contention: 2.0,
        ..Server::new(40.0, 50e6)
    };
    let mut law = Law::new(30.0, 1.0);
    for number in 0..20 {
        law.probe = None;
        law.set(if number % 2 == 0 { 44.0 } else { 80.0 });
        feed(&mut law, number..number + 1, &server);
    }
    assert!(law.slope.estimate().is_none(), "each leap starts it anew");
    assert!(law.share < 0.6, "{}", law.share);
}

#[test]
fn growth_does_not_explain_a_leap_of_the_latency() {
    let (mut law, slow) = (Law::new(250.0, 1.0), Server::new(9000.0, 1e9));
    feed(&mut law, 0..1, &Server::new(9000.0, 20e6));
    law.grown = Some((250.0, 250.0 / 1e9, 250.0));
    feed(&mut law, 1..2, &slow);
    assert_eq!(law.base, Some(20e6));
}

#[test]
fn the_mean_shows_a_queue_of_less_than_three_quarters_of_the_work() {
    let (mut law, server) = (Law::new(20.0, 1.0), Server::new(40.0, 50e6));
    feed(&mut law, 0..100, &server);
    law.set(80.0);
    // A third of the work waits for the rest: the quartile stays where it was.
    let batches = |number, limit: f64| {
        let mut seen = server.window(number, limit, None);
        seen.latency = Some(Latency {
            value: 50e6,
            error: 0.5e6,
        });
        seen
    };
    let reasons: Vec<_> = (100..110)
        .map(|number| {
            let decision = law.decide(&batches(number, law.limit()));
            law.set(decision.limit);
            decision.reason
        })
        .collect();
    assert!(reasons.contains(&"cut: queue"), "{reasons:?}");
    assert!(law.limit() < 60.0, "{} {reasons:?}", law.limit());
}

/// A window of a server with workers enough, whose latencies have a mean of three times their quartile.
fn skewed(number: u32, limit: f64, service: f64, rate: f64) -> Seen {
    let server = Server::new(1e6, service);
    let mut seen = server.window(number, limit, Some(rate * service));
    seen.latency = Some(Latency {
        value: service / 3.0,
        error: service / 60.0,
    });
    seen
}

#[test]
fn latencies_that_are_longer_in_proportion_are_no_queue() {
    let mut law = Law::new(40.0, 1.0);
    let mut step = |number, service| {
        let decision = law.decide(&skewed(number, law.limit(), service, 400e-9));
        law.set(decision.limit);
        decision
    };
    for number in 0..40 {
        step(number, 30e6);
    }
    // Ten times slower: as much is asked for, which needs ten times as much at once.
    let slower: Vec<_> = (40..44).map(|number| step(number, 300e6)).collect();
    let reasons: Vec<_> = slower.iter().map(|decision| decision.reason).collect();
    assert!(reasons.contains(&"try more: as if slower"), "{reasons:?}");
    assert!(reasons.contains(&"tried: more brings more"), "{reasons:?}");
    assert!(!reasons.contains(&"cut: queue"), "{reasons:?}");
    assert!(slower[3].limit > 120.0, "{slower:?}");
}

/// Work without a shape that became slower: what was asked for needs a little more than the limit, so that is tried, not a cut.
#[test]
fn a_demand_that_fits_is_tried_before_a_cut() {
    let reasons = |slow: Server| {
        let (mut law, fast) = (Law::new(28.0, 1.0), Server::new(1000.0, 20e6));
        for number in 0..10 {
            law.decide(&fast.window(number, law.limit(), Some(12.0)));
        }
        feed(&mut law, 10..14, &slow)
    };
    let slower = reasons(Server::new(1000.0, 60e6));
    assert_eq!(slower[1], "try more: as if slower", "{slower:?}");
    assert_eq!(slower[2], "tried: more brings more", "{slower:?}");
    let pool = reasons(Server::new(10.0, 20e6));
    assert!(pool.contains(&"tried: more brings no more"), "{pool:?}");
    assert_eq!(pool[3], "cut: queue", "{pool:?}");
}

/// A baseline that was too low by chance is corrected by the next windows under a limit that is as small, and not for ever.
#[test]
fn a_baseline_that_one_window_found_is_measured_again() {
    let mut law = Law::new(40.0, 1.0);
    law.met_a_queue();
    law.base = Some(70e6);
    (law.base_error, law.found_at) = (30e6, 40.0);
    let window = |number: u32, limit: f64| {
        let mut seen = Server::new(1000.0, 100e6).window(number, limit, None);
        seen.latency = Some(Latency {
            value: 100e6,
            error: 30e6,
        });
        seen
    };
    for number in 0..20 {
        law.decide(&window(number, 40.0));
    }
    let base = law.base.unwrap();
    assert!((95e6..100e6).contains(&base), "{base}");
    // A larger limit may be the cause of its latency.
    let mut law = Law::new(60.0, 1.0);
    law.met_a_queue();
    law.base = Some(70e6);
    (law.base_error, law.found_at) = (30e6, 40.0);
    law.decide(&window(0, 60.0));
    assert_eq!(law.base, Some(70e6));
}

/// With few samples less comes through by chance, and work that only waits was taken for slower work.
#[test]
fn latencies_that_are_longer_by_the_same_time_are_a_queue() {
    let reasons = |mean: f64| {
        let mut law = Law::new(12.0, 1.0);
        law.met_a_queue();
        (law.base, law.mean_base) = (Some(30e6), Some(60e6));
        (law.shape, law.last, law.last_limit) = (2.0, 400e6, 12.0);
        let window = |number: u32, limit: f64, throughput: f64| {
            let mut seen = Server::new(1.0, 30e6).window(number, limit, None);
            (seen.count, seen.time) = (20.0, mean);
            (seen.throughput, seen.held) = (throughput, throughput * mean);
            seen.latency = Some(Latency {
                value: 400e6,
                error: 20e6,
            });
            seen
        };
        let cut = law.decide(&window(0, 12.0, 30e-9));
        law.set(cut.limit);
        // As much less as the limit, but within the error of twenty samples.
        let less = 30e-9 * law.limit() / 12.0 * 1.2;
        (1..4)
            .map(|number| law.decide(&window(number, law.limit(), less)).reason)
            .collect::<Vec<_>>()
    };
    let queue = reasons(430e6);
    assert!(!queue.contains(&"restore: not our queue"), "{queue:?}");
    let slower = reasons(800e6);
    assert!(slower.contains(&"restore: not our queue"), "{slower:?}");
}
