//! Files of many limits and routes. What they cost is counted, not timed: a file of ten times as many limits costs about ten
//! times as much to read, to build and to read again, and a decision costs the same.

use std::fmt::Write;
use std::sync::Arc;

use http::Request;
use plimsoll::Clock;
use plimsoll_config::{Config, Format};
use plimsoll_engine::{Ask, Limits};
use plimsoll_tower::Head;

use crate::counting::allocations;
use crate::limits;

/// A file of so many limits, and a tenth as many routes. `other` is the rate of the third.
fn file(limits: usize, other: u64) -> String {
    let mut text = "limits:\n".to_owned();
    for limit in 0..limits {
        let rate = if limit == 3 { other } else { 1000 };
        let _ = writeln!(
            text,
            "  limit_{limit}: {{ rate: {rate}/s, burst: 1000000, key: header:x-user }}"
        );
    }
    text += "routes:\n";
    for route in 0..limits / 10 {
        let two = format!("limit_{}, limit_{}", route * 10, route * 10 + 9);
        let _ = writeln!(
            text,
            "  - {{ match: /v1/service_{route}/*, limits: [{two}] }}"
        );
    }
    text
}

fn read(text: &str) -> Config {
    Config::from_str("limits.yaml", text, Format::Yaml).unwrap_or_else(|error| panic!("{error}"))
}

fn request(limits: usize) -> Request<()> {
    let path = format!("/v1/service_{}/orders", limits / 20);
    let request = Request::get(path).header("x-user", "anna");
    request.body(()).expect("a request")
}

/// How often it allocates to check, to load, to load again, and to decide.
fn costs(size: usize) -> [u64; 4] {
    let text = file(size, 1000);
    let check = allocations(|| drop(read(&text)));
    let config = read(&text);
    let mut limits = None;
    let load = allocations(|| limits = Limits::new(&config, &Clock::system()).ok());
    let limits = limits.expect("it can be built");
    let reload = allocations(|| drop(limits.replace(&config).expect("it can be changed")));
    let request = request(size);
    let decide = || {
        let decide = limits.decide_request(&Head::of(&request), 1);
        let decided = decide.and_then(|mut decide| decide.now());
        assert!(decided.is_some_and(|decided| decided.is_ok()));
    };
    (0..20).for_each(|_| decide());
    let decide = allocations(|| (0..100).for_each(|_| decide()));
    [check, load, reload, decide]
}

#[test]
fn ten_times_as_many_limits_cost_ten_times_as_much_and_a_decision_the_same() {
    let (few, many) = (costs(100), costs(1000));
    for (what, (few, many)) in ["check", "load", "reload"]
        .iter()
        .zip(few.into_iter().zip(many))
    {
        assert!(many < 13 * few, "{what}: {few} and {many} allocations");
    }
    assert_eq!((few[3], many[3]), (0, 0), "a decision");
}

#[test]
fn a_reload_rebuilds_only_what_changed() {
    let (limits, _time) = limits(&file(1000, 1000));
    let keyed = |number: usize| {
        let keyed = limits.limiters().keyed(&format!("limit_{number}"));
        keyed.expect("it has keys")
    };
    let before: Vec<_> = (0..1000).map(keyed).collect();
    for number in [2, 3] {
        let name = format!("limit_{number}");
        let asks = [Ask::new(&name).key("anna").cost(7)];
        drop(limits.try_decide(&asks).expect("there is room"));
    }
    let changes = limits
        .replace(&read(&file(1000, 2000)))
        .expect("it can be changed");
    assert_eq!(changes.changed, ["limit_3"]);
    assert!(changes.added.is_empty() && changes.removed.is_empty());
    for (number, before) in before.iter().enumerate() {
        assert!(
            Arc::ptr_eq(before.shared(), keyed(number).shared()),
            "{number} was built anew"
        );
    }
    for number in [2, 3] {
        let seen = keyed(number).snapshot_of("anna").expect("it is known");
        assert!(seen.available() < 1_000_000, "what was used stays used");
    }
}
