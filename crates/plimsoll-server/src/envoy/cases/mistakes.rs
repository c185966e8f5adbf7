//! Errors in configurations of the reference server: the message, its position and its advice.

use std::path::PathBuf;

use super::tree;
use crate::envoy::load::load;

/// Files, whether they are merged, and the expected message.
type Wrong<'a> = (&'a [&'a str], bool, &'a str);

#[test]
fn what_is_wrong_is_said_with_its_place_and_what_to_do() {
    let limit = "rate_limit: { unit: minute, requests_per_unit: 1 }";
    let own = format!("{{ domain: d, descriptors: [{{ key: a, {limit} }}] }}");
    let twice =
        format!("{{ domain: d, descriptors: [{{ key: a, {limit} }}, {{ key: a, {limit} }}] }}");
    let unit = |unit: &str| {
        format!("{{ domain: d, descriptors: [{{ key: a, rate_limit: {{ {unit} }} }}] }}")
    };
    let (bad_unit, no_unit) = (
        unit("unit: fortnight, requests_per_unit: 1"),
        unit("requests_per_unit: 1"),
    );
    let both = unit("unlimited: true, unit: minute");
    let itself = unit("unit: day, requests_per_unit: 1, name: x, replaces: [{ name: x }]");
    let empty = unit("unit: day, requests_per_unit: 1, replaces: [{ name: '' }]");
    let negative = unit("unit: day, requests_per_unit: -1");
    let fraction = unit("unit: day, requests_per_unit: 1.5");
    let zero = unit("unit: day, requests_per_unit: 1, unit_multiplier: 0");
    let cases: &[Wrong<'_>] = &[
        (
            &["descriptors: []"],
            false,
            "0.yaml:1:1: domain: the domain is missing",
        ),
        (&["domain: ''"], false, "domain: the domain is missing"),
        (
            &[""],
            false,
            "expected `domain` and `descriptors`, found nothing",
        ),
        (
            &[&own, &own],
            false,
            "1.yaml:1:11: domain: the domain \"d\" is described by another file already",
        ),
        (
            &[&own, &own],
            true,
            "1.yaml:1:28: descriptors[0]: \"d.a\" is described twice",
        ),
        (
            &[&twice],
            false,
            "descriptors[1]: \"d.a\" is described twice",
        ),
        (
            &["{ domain: d, descriptors: [{ value: b }] }"],
            false,
            "descriptors[0].key: the key is missing",
        ),
        (
            &["{ domain: d, descriptors: [{ key: '' }] }"],
            false,
            "descriptors[0].key: the key is missing",
        ),
        (
            &[&bad_unit],
            false,
            "descriptors[0].rate_limit.unit: expected one of second, minute, hour, day, week, month, year, found \"fortnight\"",
        ),
        (
            &[&no_unit],
            false,
            "rate_limit.unit: expected one of second, minute, hour, day, week, month, year, found nothing",
        ),
        (
            &[&both],
            false,
            "rate_limit.unit: what is unlimited has no unit",
        ),
        (
            &[&itself],
            false,
            "rate_limit.replaces[0].name: a limit does not replace itself",
        ),
        (
            &[&empty],
            false,
            "rate_limit.replaces[0].name: expected the name of another limit",
        ),
        (
            &["{ domain: d, descriptors: [{ key: a, value: b, share_threshold: true }] }"],
            false,
            "descriptors[0].share_threshold: only values that a pattern fits",
        ),
        (
            &["{ domain: d, descriptors: [{ key: a, ratelimit: {} }] }"],
            false,
            "descriptors[0].ratelimit: unknown field, did you mean `rate_limit`?",
        ),
        (&["{ domain: d, 1: x }"], false, "unknown field"),
        (
            &["{ domain: d, descriptors: [a, b] }"],
            false,
            "descriptors[0]: expected a map, found \"a\"",
        ),
        (
            &["{ domain: d, descriptors: { key: a } }"],
            false,
            "descriptors: expected a list of maps, found a map",
        ),
        (&["{ domain: d, descriptors: [ }"], false, "0.yaml:1:"),
        (
            &["{ domain: d, descriptors: [{ key: 1.5 }] }"],
            false,
            "descriptors[0].key: expected a text, found the number \"1.5\"",
        ),
        (
            &[&negative],
            false,
            "requests_per_unit: expected a whole number from 0 to 4294967295, found \"-1\"",
        ),
        (
            &[&fraction],
            false,
            "requests_per_unit: expected a whole number",
        ),
        (
            &[&zero],
            false,
            "unit_multiplier: expected a multiplier of 1 or more",
        ),
        (
            &["{ domain: d, descriptors: [{ key: a, shadow_mode: maybe }] }"],
            false,
            "shadow_mode: expected true or false, found \"maybe\"",
        ),
        (
            &["{ domain: d, descriptors: [{ key: a, metadata: [1] }] }"],
            false,
            "metadata: expected a map, found a list",
        ),
    ];
    for (files, merge, expected) in cases {
        let files: Vec<(PathBuf, String)> = files
            .iter()
            .enumerate()
            .map(|(at, text)| (PathBuf::from(format!("{at}.yaml")), (*text).to_owned()))
            .collect();
        let error = load(&files, *merge).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}\n{expected}");
    }
}

#[test]
fn all_mistakes_are_told_at_once_and_what_is_known_elsewhere_is_none() {
    let files = [
        "{ domain: d, descriptors: [{ kye: a }, { key: b, x: 1 }] }",
        "domain: ''",
    ];
    let files: Vec<(PathBuf, String)> = files
        .iter()
        .map(|text| (PathBuf::from("f"), (*text).to_owned()))
        .collect();
    let error = load(&files, false).expect_err("all of it is wrong");
    assert_eq!(error.lines().count(), 4, "{error}");
    // The reference server checks only the names of fields, in any place, and nothing below `metadata`.
    tree(
        "{ domain: d, unit: x, descriptors: [{ key: 1, value: true, metadata: { anything: [1.5] } }] }",
    );
    tree("{ domain: d, descriptors: }");
}
