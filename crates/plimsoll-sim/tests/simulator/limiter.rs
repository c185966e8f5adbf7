//! What a limit is told, and that the gate does what it says.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::support::{near, run_of};
use plimsoll::Moment;
use plimsoll::adaptive::{Limit, Load, Sample};
use plimsoll_sim::Contender;

/// A limit that writes down what it hears.
#[derive(Debug, Default)]
struct Heard {
    samples: Vec<Sample>,
    loads: Vec<Load>,
}

#[derive(Debug)]
struct Listener {
    limit: fn(usize) -> u64,
    queue_bound: Option<u64>,
    heard: Arc<Mutex<Heard>>,
}

impl Listener {
    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().expect("nobody panicked")
    }
}

impl Limit for Listener {
    fn limit(&self) -> u64 {
        (self.limit)(self.heard().loads.len())
    }

    fn sample(&mut self, sample: &Sample) {
        self.heard().samples.push(*sample);
    }

    fn tick_every(&self) -> Option<Duration> {
        Some(Duration::from_millis(250))
    }

    fn tick(&mut self, load: Load) {
        self.heard().loads.push(load);
    }

    fn queue_bound(&self) -> Option<u64> {
        self.queue_bound
    }
}

/// A limit that depends on the number of ticks, and what it hears.
fn listener(limit: fn(usize) -> u64, queue_bound: Option<u64>) -> (Contender, Arc<Mutex<Heard>>) {
    let heard = Arc::<Mutex<Heard>>::default();
    let ears = Arc::clone(&heard);
    let make = move || -> Box<dyn Limit> {
        Box::new(Listener {
            limit,
            queue_bound,
            heard: Arc::clone(&ears),
        })
    };
    (Contender::new("listener", make), heard)
}

#[test]
fn a_limit_hears_of_every_answer_and_every_tick() {
    let (contender, heard) = listener(|_| 3, None);
    let run = run_of(
        "duration: 10s\nrate: 100\nworkers: 2\nservice: 50ms\ndeadline: 80ms",
        &contender,
    );
    let heard = heard.lock().unwrap();
    let counts = run.counts();
    assert_eq!(heard.samples.len() as u64, counts.good + counts.late);
    let at: Vec<u64> = heard
        .loads
        .iter()
        .map(|load| load.now.as_nanos() / 1_000_000)
        .collect();
    assert_eq!(at, (1..40).map(|tick| tick * 250).collect::<Vec<_>>());
    assert!(
        heard
            .loads
            .iter()
            .all(|load| load.in_flight <= 3 && load.queued == 0)
    );

    // Three at two workers: whoever is third waits up to 50 ms in the server, which is part of its latency.
    let in_flight = |n: u64| {
        heard
            .samples
            .iter()
            .filter(|sample| sample.in_flight == n)
            .count()
    };
    assert!(in_flight(2) > 0 && in_flight(3) > 0);
    assert_eq!(
        in_flight(0) + in_flight(1) + in_flight(2) + in_flight(3),
        heard.samples.len()
    );
    let longest = heard.samples.iter().map(Sample::latency).max();
    assert!(longest > Some(Duration::from_millis(90)), "{longest:?}");
    for sample in &heard.samples {
        assert_eq!(
            sample.overload,
            sample.latency() > Duration::from_millis(80)
        );
        assert!(sample.start < sample.end && sample.end < Moment::from_nanos(10_000_000_000));
    }
    // With 80 a second refused, nearly every answer follows a refusal; none without any.
    let refused = heard.samples.iter().filter(|sample| sample.refused).count();
    assert!(
        refused > heard.samples.len() / 3 && refused < heard.samples.len(),
        "{refused}"
    );
}

#[test]
fn time_at_the_gate_is_part_of_the_latency_of_a_client_and_not_of_a_sample() {
    let (contender, heard) = listener(|_| 2, None);
    let lines =
        "duration: 20s\nrate: 100\nworkers: 2\nservice: 50ms\nqueue: { bound: 2, counts: waiting }";
    let run = run_of(lines, &contender);
    // Each of the two slots answers every 50 ms; who comes last in the queue of two waits for one of them.
    assert!(run.phases[0].p50_ms.unwrap() > 80.0);
    let heard = heard.lock().unwrap();
    let all = heard
        .samples
        .iter()
        .all(|sample| sample.latency() == Duration::from_millis(50));
    assert!(
        all,
        "no more in flight than workers: all take their time and no longer"
    );
    assert!(heard.loads.iter().any(|load| load.queued == 2));
    assert!(heard.loads.iter().all(|load| load.queued <= 2));
}

#[test]
fn the_gate_is_as_wide_as_the_limit_says() {
    // 5 for 2.5 s, then 1, then 20: there are always more who want in.
    let limit = |ticks| match ticks {
        0..10 => 5,
        10..20 => 1,
        _ => 20,
    };
    let (contender, heard) = listener(limit, None);
    let run = run_of(
        "duration: 10s\nrate: 2000\nworkers: 100\nservice: 50ms",
        &contender,
    );
    let loads = &heard.lock().unwrap().loads;
    let most = |from: usize, to: usize| loads[from..to].iter().map(|load| load.in_flight).max();
    assert_eq!(
        (most(1, 10), most(11, 20), most(21, 38)),
        (Some(5), Some(1), Some(20))
    );
    let good = |at: usize| run.seconds[at].counts().good as f64;
    near("five", good(1), 100.0, 0.1);
    near("one", good(3), 20.0, 0.1);
    near("twenty", good(8), 400.0, 0.1);
    assert_eq!(
        run.seconds
            .iter()
            .map(|second| second.limit)
            .collect::<Vec<_>>()[1],
        Some(5)
    );
    assert_eq!(run.seconds[9].limit, Some(20));
}

#[test]
fn an_algorithm_with_its_own_idea_of_a_queue_gets_one() {
    let lines = "duration: 10s\nrate: 200\nworkers: 2\nservice: 50ms\n";
    let (contender, heard) = listener(|_| 2, Some(3));
    let run = run_of(lines, &contender);
    assert!(
        heard
            .lock()
            .unwrap()
            .loads
            .iter()
            .any(|load| load.queued == 3)
    );
    assert!(run.seconds.iter().any(|second| second.waiting > 0));
    // A queue of the file goes before it.
    let (contender, heard) = listener(|_| 2, Some(3));
    let _ = run_of(
        &format!("{lines}queue: {{ bound: 1, counts: waiting }}"),
        &contender,
    );
    assert!(
        heard
            .lock()
            .unwrap()
            .loads
            .iter()
            .all(|load| load.queued <= 1)
    );
}

#[test]
fn whoever_waits_too_long_at_the_gate_is_refused_in_time() {
    // Nobody gets out for 10 s. Who waits is refused after the timeout of the queue, or at its own deadline.
    let lines = "duration: 5s\nrate: 100\nworkers: 1\nservice: 10s\n";
    for (more, seconds) in [
        ("queue: { bound: 1000, timeout: 300ms }", 0.3),
        ("queue: { bound: 1000 }\ndeadline: 2s", 2.0),
    ] {
        let run = run_of(&format!("{lines}{more}"), &Contender::fixed(1));
        let waiting = run.seconds[3].waiting;
        near("waiting", f64::from(waiting), 100.0 * seconds, 0.25);
        assert_eq!(run.counts().offered, run.counts().rejected + run.inside);
    }
}

#[test]
fn without_a_limit_there_is_none_to_show() {
    let run = run_of(
        "duration: 5s\nrate: 10\nworkers: 2\nservice: 50ms",
        &Contender::none(),
    );
    assert!(run.seconds.iter().all(|second| second.limit.is_none()));
    assert_eq!((run.phases[0].limit, run.phases[0].limit_sd), (None, None));
}

#[test]
fn limits_are_known_by_name() {
    let names: Vec<String> = Contender::all()
        .iter()
        .map(|it| it.name().to_owned())
        .collect();
    assert!(names.contains(&"none".to_owned()) && names.contains(&"oracle".to_owned()));
    for name in names
        .iter()
        .map(String::as_str)
        .chain(["fixed=1", "fixed=4294967295"])
    {
        assert_eq!(Contender::named(name).unwrap().name(), name);
    }
    for name in [
        "",
        "fixed",
        "fixed=",
        "fixed=0",
        "fixed=-1",
        "fixed=x",
        "fixed=18446744073709551616",
        "nun",
    ] {
        assert!(Contender::named(name).is_err(), "{name}");
    }
}
