//! What several tests need.

use std::path::PathBuf;

use plimsoll::adaptive::{Limit, Sample};
use plimsoll_sim::{Contender, Run, Simulation, run};

/// A simulation of these lines.
pub(crate) fn simulation(lines: &str) -> Simulation {
    let text = format!("name: test\n{lines}\n");
    match Simulation::from_text("test.yaml", &text) {
        Ok(simulation) => simulation,
        Err(error) => panic!("{error}\n{text}"),
    }
}

/// One run with seed 1.
pub(crate) fn run_of(lines: &str, contender: &Contender) -> Run {
    run(&simulation(lines), contender, 1)
}

pub(crate) fn shipped() -> Vec<PathBuf> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/simulations");
    let entries = std::fs::read_dir(dir).expect("the examples");
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|it| it == "yaml"));
    files.sort();
    assert!(files.len() >= 17, "{files:?}");
    files
}

fn shipped_file(name: &str) -> PathBuf {
    let mut files = shipped().into_iter();
    let file = files.find(|file| file.file_stem().is_some_and(|stem| stem == name));
    file.expect(name)
}

pub(crate) fn shipped_as(name: &str) -> Simulation {
    Simulation::from_file(shipped_file(name)).unwrap_or_else(|error| panic!("{error}"))
}

/// A shipped simulation without its expectations: where they compare with the oracle, its search takes longer than all the rest.
pub(crate) fn shipped_without_expectations(name: &str) -> Simulation {
    let text = std::fs::read_to_string(shipped_file(name)).expect("read");
    // `expect` is the last entry of each file.
    let (text, _) = text.split_once("\nexpect:").expect(name);
    Simulation::from_text(name, text).unwrap_or_else(|error| panic!("{error}"))
}

/// One more for each success of a limit in use, a tenth less for each overload.
#[derive(Debug)]
struct Aimd(f64);

impl Limit for Aimd {
    fn limit(&self) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "within 1 to 1000"
        )]
        let limit = self.0 as u64;
        limit
    }

    fn sample(&mut self, sample: &Sample) {
        let next = if sample.overload {
            (self.0 * 0.9).floor()
        } else if 2 * sample.in_flight >= self.limit() {
            self.0 + 1.0
        } else {
            self.0
        };
        self.0 = next.clamp(1.0, 1000.0);
    }
}

pub(crate) fn aimd() -> Contender {
    Contender::new("aimd", || Box::new(Aimd(20.0)))
}

/// A limit that knows the workers, as the test bed has it: a fifth more, and one, and every change at once.
#[derive(Debug)]
struct Told(Vec<(u64, u64)>, u64);

impl Limit for Told {
    fn limit(&self) -> u64 {
        self.1
    }

    fn sample(&mut self, _sample: &Sample) {}

    fn tick_every(&self) -> Option<std::time::Duration> {
        Some(std::time::Duration::from_millis(100))
    }

    fn tick(&mut self, load: plimsoll::adaptive::Load) {
        let now = load.now.as_nanos() / 1_000_000_000;
        let last = self.0.iter().rfind(|(at, _)| *at <= now);
        self.1 = last.map_or(1, |(_, workers)| workers + workers / 5 + 1);
    }
}

/// From when on, in seconds, there are how many workers.
pub(crate) fn told(workers: &'static [(u64, u64)]) -> Contender {
    let first = workers[0].1;
    Contender::new("told", move || {
        Box::new(Told(workers.to_vec(), first + first / 5 + 1))
    })
}

#[track_caller]
pub(crate) fn near(what: &str, found: f64, wanted: f64, relative: f64) {
    let off = (found - wanted).abs();
    assert!(
        off <= relative * wanted.abs(),
        "{what}: {found}, expected {wanted}"
    );
}
