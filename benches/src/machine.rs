//! Where and how the numbers came about.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::asking::{now, process_time};
use crate::options::Options;

/// What the machine does meanwhile.
pub(crate) struct Watch {
    start: Instant,
    busy: Duration,
}

impl Watch {
    pub(crate) fn start() -> Self {
        Self {
            start: now(),
            busy: busy_with_others(),
        }
    }

    /// The share of all processors that others have had.
    fn others(&self) -> f64 {
        let busy = busy_with_others().saturating_sub(self.busy);
        busy.as_secs_f64() / (self.start.elapsed().as_secs_f64() * cores() as f64)
    }
}

/// Processor time that was not ours, since the machine started.
fn busy_with_others() -> Duration {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let numbers = stat.lines().next().unwrap_or_default().split_whitespace();
    let ticks: Vec<u64> = numbers.filter_map(|number| number.parse().ok()).collect();
    // The fourth and fifth are idle, those after the eighth are part of the first two.
    let busy = ticks.iter().take(3).chain(ticks.iter().skip(5).take(3));
    Duration::from_millis(busy.sum::<u64>() * 10).saturating_sub(process_time())
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

pub(crate) fn description(options: &Options, watch: &Watch) -> String {
    let cores = cores();
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo
        .lines()
        .find(|line| line.starts_with("model name"))
        .and_then(|line| line.split(": ").nth(1))
        .unwrap_or("unknown processor");
    format!(
        "# Plimsoll and its peers\n\n\
         `cargo run --profile bench -p plimsoll-benches`, {rounds} rounds of {span} ms ({waiting_rounds} of \
         {waiting} s for waiting, {keyed_rounds} of {keyed} ms with keys), fat LTO.\n\
         {model}, {cores} cores, {kernel}, huge pages: {huge_pages}; {rustc}; at commit {commit}.\n\n\
         The machine is virtual and shared, so figures come and go with its neighbours: compare the \
         ratios, which are medians of ratios within a round, not the nanoseconds. The spread is over \
         rounds. Others had {others:.0} % of the machine during this run.\n",
        others = 100.0 * watch.others(),
        rounds = options.rounds.count,
        span = options.span.as_millis(),
        waiting_rounds = options.waiting_rounds.count,
        waiting = options.waiting_span.as_secs_f64(),
        keyed_rounds = options.keyed.rounds.count,
        keyed = options.keyed.span.as_millis(),
        huge_pages = huge_pages(),
        kernel = output_of("uname", &["-sr"]),
        rustc = output_of("rustc", &["--version"]),
        commit = output_of("git", &["rev-parse", "--short", "HEAD"]),
    )
}

/// A table of a million keys is larger than what the processor can translate without them.
fn huge_pages() -> String {
    let setting = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    let chosen = setting.unwrap_or_default();
    let chosen = chosen.split(['[', ']']).nth(1).unwrap_or("unknown");
    chosen.to_owned()
}

fn output_of(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.unwrap_or_default()
}
