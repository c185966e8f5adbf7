//! Files of ten limits and of ten thousand: to read, to build, to put in place of another, and to decide by.

use std::fmt::Write;
use std::hint::black_box;
use std::time::Duration;

use http::Request;
use plimsoll::Clock;
use plimsoll_engine::{Ask, Config, Limits};
use plimsoll_tower::Head;

use crate::say;
use crate::timing::{Case, median, processor, rounds};

/// A file of so many limits, and a tenth as many routes. Of every hundred limits one has tiers.
pub(crate) fn file(limits: usize, burst: u64) -> String {
    let mut text = "limits:\n".to_owned();
    for limit in 0..limits {
        let tiers = match limit % 100 {
            99 => ", tiers: { by: header:x-plan, pro: 1000/min }",
            _ => "",
        };
        let _ = writeln!(
            text,
            "  limit_{limit}: {{ rate: 1000/s, burst: {burst}, key: header:x-user{tiers} }}"
        );
    }
    text += "routes:\n";
    for route in 0..limits / 10 {
        let ten = (route * 10..route * 10 + 10).map(|limit| format!("limit_{limit}"));
        let ten = ten.collect::<Vec<_>>().join(", ");
        let _ = writeln!(
            text,
            "  - {{ match: /v1/service_{route}/*, limits: [{ten}] }}"
        );
    }
    text
}

fn read(text: &str) -> Config {
    let format = plimsoll_config::Format::Yaml;
    Config::from_str("limits.yaml", text, format).expect("the file is fine")
}

const SIZES: [usize; 2] = [10, 10_000];

pub(crate) fn report() {
    say("");
    say("| limits | check | load | reload, nothing changed | reload, all changed |");
    say("|--:|--:|--:|--:|--:|");
    for size in SIZES {
        let (text, other) = (file(size, 1_000_000_000), file(size, 2_000_000_000));
        let [mut check, mut load, mut same, mut changed] = [const { Vec::new() }; 4];
        for _ in 0..5 {
            let config = timed(&mut check, || read(&text));
            let (again, other) = (read(&text), read(&other));
            let build = || Limits::new(&config, &Clock::system()).expect("it can be built");
            let limits = timed(&mut load, build);
            timed(&mut same, || {
                limits.replace(&again).expect("it can be changed")
            });
            timed(&mut changed, || {
                limits.replace(&other).expect("it can be changed")
            });
        }
        let line = [check, load, same, changed].map(|times| {
            let time = Duration::from_secs_f64(median(times) / 1e9);
            format!("{time:.1?}")
        });
        say(&format!("| {size} | {} |", line.join(" | ")));
    }
    say("");
    say("| a decision | ns, of 10 limits | ns, of 10,000 |");
    say("|---|--:|--:|");
    let by_name = rounds(SIZES.map(named).into());
    let by_route = rounds(SIZES.map(routed).into());
    for (what, times) in [
        ("one limit by name", by_name),
        ("by route, for each of ten limits", by_route),
    ] {
        let [few, many] = [0, 1].map(|size| median(times[size].clone()));
        say(&format!("| {what} | {few:.1} | {many:.1} |"));
    }
}

/// What is done, and the processor time that it took.
fn timed<T>(times: &mut Vec<f64>, what: impl FnOnce() -> T) -> T {
    let start = processor();
    let done = black_box(what());
    times.push(processor() - start);
    done
}

fn limits(size: usize) -> Limits {
    Limits::new(&read(&file(size, 1_000_000_000)), &Clock::system()).expect("it can be built")
}

/// One limit of the middle, for one user: all that is asked is in the caches, for both sizes.
fn named(size: usize) -> Case {
    let limits = limits(size);
    let name = format!("limit_{}", size / 2);
    Box::new(move |calls| {
        for _ in 0..calls {
            let asks = [Ask::new(black_box(&name)).key("user 7")];
            assert!(limits.try_decide(&asks).is_ok());
        }
    })
}

fn routed(size: usize) -> Case {
    let limits = limits(size);
    let path = format!("/v1/service_{}/orders", size / 20);
    let request = Request::get(path).header("x-user", "user 7");
    let request = request.body(()).expect("a request");
    Box::new(move |calls| {
        for _ in 0..calls / 10 {
            let decide = limits.decide_request(&Head::of(black_box(&request)), 1);
            let decided = decide.and_then(|mut decide| decide.now());
            assert!(decided.is_some_and(|decided| decided.is_ok()));
        }
    })
}
