//! `AnyRate` passes on everything that a rate can override: a method that is not passed on would do what the default of
//! the trait does, whatever the rule inside says.

use std::time::Duration;

use plimsoll::{Moment, Quota, Rule, TokenBucket};
use plimsoll_spec::RateRule;

/// The part of a source file from `from` to the first line that is only a brace.
fn block<'t>(text: &'t str, from: &str) -> &'t str {
    let start = text.find(from).expect(from);
    let end = text[start..].find("\n}\n").expect("an end");
    &text[start..start + end]
}

fn methods(block: &str) -> impl Iterator<Item = &str> {
    let lines = block.lines().map(str::trim_start);
    let names = lines.filter_map(|line| line.strip_prefix("fn "));
    names.map(|rest| rest.split(['(', '<']).next().unwrap_or_default())
}

#[test]
fn every_method_of_a_rule_is_passed_on() {
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let read = |path: &str| std::fs::read_to_string(format!("{sources}/{path}")).expect(path);
    let (core, any) = (
        read("plimsoll/src/rule.rs"),
        read("plimsoll-spec/src/any_rate.rs"),
    );
    let wanted: Vec<&str> = methods(block(&core, "pub trait Rule")).collect();
    let passed: Vec<&str> = methods(block(&any, "impl Rule for AnyRate")).collect();
    assert!(wanted.len() > 15, "the trait could not be read: {wanted:?}");
    // Only limits that an algorithm finds learn.
    let missing = wanted.iter().filter(|name| **name != "learning");
    let missing: Vec<_> = missing.filter(|name| !passed.contains(name)).collect();
    assert!(missing.is_empty(), "not passed on: {missing:?}");
}

/// It once was not passed on, so that a bucket in a file corrected costs less exactly than one in Rust.
#[test]
fn costs_are_corrected_as_the_rule_inside_does() {
    let at = |millis: u64| Moment::from_nanos(millis * 1_000_000);
    let second = Duration::from_secs(1);
    for rule in [
        TokenBucket::greedy(Quota::new(3, second)),
        TokenBucket::interval(Quota::new(3, second)),
    ] {
        let any = rule.clone().into_any();
        for (settled, actual) in [(100, 1), (400, 0), (900, 3), (1100, 3), (1300, 1)] {
            let (mut one, mut other) = (rule.fresh(at(0)), any.fresh(at(0)));
            rule.take(&mut one, at(0), 2).expect("full");
            any.take(&mut other, at(0), 2).expect("full");
            rule.settle(&mut one, at(settled), at(0), (2, actual));
            any.settle(&mut other, at(settled), at(0), (2, actual));
            for later in [settled, settled + 200, settled + 700] {
                let expected = rule.available(&one, at(later));
                assert_eq!(
                    any.available(&other, at(later)),
                    expected,
                    "{settled} {actual}"
                );
            }
        }
    }
}
