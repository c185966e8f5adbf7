//! Where and how the numbers came about.

use std::fs;
use std::process::Command;
use std::thread;

use crate::options::Options;

pub(crate) fn description(options: &Options) -> String {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo
        .lines()
        .find(|line| line.starts_with("model name"))
        .and_then(|line| line.split(": ").nth(1))
        .unwrap_or("unknown processor");
    format!(
        "# Plimsoll and its peers\n\n\
         `cargo run --profile bench -p plimsoll-benches`, {rounds} rounds of {span} ms ({waiting_rounds} of \
         {waiting} s for waiting), fat LTO.\n\
         {model}, {cores} cores, {kernel}; {rustc}; at commit {commit}.\n\n\
         The machine is virtual and shared, so figures come and go with its neighbours: compare the \
         ratios, which are medians of ratios within a round, not the nanoseconds. The spread is over \
         rounds.\n",
        rounds = options.rounds.count,
        span = options.span.as_millis(),
        waiting_rounds = options.waiting_rounds.count,
        waiting = options.waiting_span.as_secs_f64(),
        kernel = output_of("uname", &["-sr"]),
        rustc = output_of("rustc", &["--version"]),
        commit = output_of("git", &["rev-parse", "--short", "HEAD"]),
    )
}

fn output_of(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.unwrap_or_default()
}
