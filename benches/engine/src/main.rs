//! What decisions of the engine cost, beside what typed limits cost in the same rounds; how it takes large files; and what
//! decisions about four limits cost in Redis.

mod cases;
mod large;
mod redis;
mod timing;

use std::process::Command;

use timing::{Case, median, rounds};

/// What valgrind counts the instructions of.
const COUNTED: u64 = 1000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["--counted", name] => count_case(name),
        ["--large"] => large::report(),
        ["--redis"] => redis::report(),
        ["--only", name] => report(&[name]),
        [] => {
            report(&cases::NAMES);
            large::report();
            redis::report();
        }
        _ => eprintln!("usage: plimsoll-benches-engine [--only CASE | --large | --redis]"),
    }
}

/// Runs a case under valgrind.
fn count_case(name: &str) {
    let mut case = cases::case(name);
    case(COUNTED);
    counted(&mut case);
}

/// What valgrind counts.
#[inline(never)]
fn counted(case: &mut Case) {
    case(COUNTED);
}

fn report(names: &[&str]) {
    let times = rounds(names.iter().map(|name| cases::case(name)).collect());
    say("| case | ns | instructions |");
    say("|---|--:|--:|");
    for (name, times) in names.iter().zip(&times) {
        let counted = instructions(name).map_or("–".to_owned(), |it| it.to_string());
        say(&format!(
            "| {name} | {:.1} | {counted} |",
            median(times.clone())
        ));
    }
    let ratio = |of: &[&str], to: &[&str]| -> Option<f64> {
        let place = |name: &str| names.iter().position(|it| *it == name);
        let (of, to): (Vec<usize>, Vec<usize>) = (
            of.iter().map(|it| place(it)).collect::<Option<_>>()?,
            to.iter().map(|it| place(it)).collect::<Option<_>>()?,
        );
        let less = |round: usize, it: &[usize]| {
            let base = it.get(1).map_or(0.0, |base| times[*base][round]);
            times[it[0]][round] - base
        };
        let ratios = (0..times[0].len()).map(|round| less(round, &of) / less(round, &to));
        Some(median(ratios.collect()))
    };
    say("");
    for (what, of, to) in cases::RATIOS {
        if let Some(ratio) = ratio(of, to) {
            say(&format!("- {what}: {ratio:.2}"));
        }
    }
}

/// The instructions of one call, where valgrind is installed.
fn instructions(name: &str) -> Option<u64> {
    let program = std::env::current_exe().ok()?;
    let mut command = Command::new("valgrind");
    command.args([
        "--tool=callgrind",
        "--callgrind-out-file=/dev/null",
        "--toggle-collect=plimsoll_benches_engine::counted",
    ]);
    let said = command
        .arg(program)
        .args(["--counted", name])
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&said.stderr);
    let all = said
        .lines()
        .find_map(|line| line.split("Collected : ").nth(1))?;
    let all: u64 = all.trim().parse().ok()?;
    Some(all / COUNTED)
}

#[expect(clippy::print_stdout, reason = "a report")]
fn say(line: &str) {
    println!("{line}");
}
