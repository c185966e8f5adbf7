#![doc = include_str!("../README.md")]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program that reports"
)]

mod asking;
mod calls;
mod contender;
mod counting;
mod floors;
mod handoff;
mod instant;
mod keyed;
mod limiters;
mod machine;
mod options;
mod permits;
mod redis;
mod report;
mod sizes;
mod targets;
mod tower;
mod waiting;

use std::process::ExitCode;
use std::{env, fs};

use options::Options;

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    if args
        .first()
        .is_some_and(|first| first == keyed::child::CHILD)
    {
        return match keyed::child::answer(&args[1..]) {
            Some(answer) => {
                println!("{answer}");
                ExitCode::SUCCESS
            }
            None => ExitCode::FAILURE,
        };
    }
    if let [first, name] = args.as_slice()
        && first == tower::wrk::SERVE
    {
        return match tower::wrk::serve(name, |address| println!("{address}")) {
            Some(()) => ExitCode::SUCCESS,
            None => ExitCode::FAILURE,
        };
    }
    let options = match Options::parse(args.into_iter()) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("{message}\n\n{}", options::USAGE);
            return ExitCode::FAILURE;
        }
    };
    let text = run(&options);
    print!("{text}");
    match options.markdown.map(|path| fs::write(path, text)) {
        Some(Err(error)) => {
            eprintln!("could not write the results: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

fn run(options: &Options) -> String {
    let watch = machine::Watch::start();
    let wanted = |case: &str| options.wants(case);
    let sizes = wanted("sizes").then(sizes::measure);
    let mut cases = instant::run(&options.rounds, options.span, wanted);
    cases.extend(handoff::run(&options.rounds, options.turns, wanted));
    let waits = if wanted("waiting") {
        waiting::run(&options.waiting_rounds, options.waiting_span)
    } else {
        Vec::new()
    };
    let keyed = keyed::run(&options.keyed, wanted);
    let tower = tower::run(&options.tower, wanted);
    let redis = redis::run(&options.redis, wanted);

    let mut parts = vec![
        machine::description(options, &watch),
        format!(
            "## Targets\n\n{}",
            targets::markdown(&cases, &waits, sizes.as_ref(), &keyed, &tower, &redis)
        ),
        "## Cases\n".to_owned(),
    ];
    parts.extend(cases.iter().map(report::Case::markdown));
    parts.extend(
        waits
            .iter()
            .map(|(rate, series)| waiting::markdown(*rate, series)),
    );
    parts.extend(keyed.markdown());
    parts.extend(tower.markdown());
    parts.extend(redis.markdown());
    parts.extend(sizes.iter().map(sizes::Sizes::markdown));
    let mut text = parts.join("\n");
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}
