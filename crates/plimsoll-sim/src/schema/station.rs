//! Servers and their parts.

use serde_json::{Value, json};

use super::form::{changing, map, number, period, said, share, span, words};
use crate::class::CLASSES;

pub(super) const OUTCOMES: [&str; 3] = ["overload", "ignore", "success"];
pub(super) const LATE_WORK: [&str; 2] = ["done", "dropped"];

/// The fields of a server, or of a station of one.
pub(super) fn of_a_station() -> Vec<(&'static str, Value)> {
    let workers = number(0.0, Some(1e6));
    let weighted = map(
        [
            (
                "weight",
                changing(
                    "The weight of the kind, relative to the other kinds.",
                    &number(0.0, None),
                ),
            ),
            ("service", said(work(), "The service time.")),
        ],
        &["weight", "service"],
    );
    let mix =
        json!({ "description": "Several kinds of work.", "type": "array", "items": weighted });
    let service = json!({
        "description": "The time a worker takes for a request.",
        "anyOf": [work(), map([("mix", mix)], &["mix"])],
    });
    let contention = map(
        [
            (
                "factor",
                said(
                    number(0.0, None),
                    "The slowdown for each multiple of that number above it.",
                ),
            ),
            (
                "above",
                said(
                    workers.clone(),
                    "The number of requests at once from which on service slows down.",
                ),
            ),
        ],
        &["factor", "above"],
    );
    let pauses = map(
        [
            (
                "every",
                span("The time from the start of one to the start of the next."),
            ),
            ("for", span("The length of each; shorter than `every`.")),
        ],
        &["every", "for"],
    );
    let failures = map(
        [
            ("share", changing("The share of the requests.", &share())),
            (
                "priority",
                words(
                    "Only those of this priority.",
                    &CLASSES.map(|(class, _)| class),
                ),
            ),
            (
                "outcome",
                words(
                    "The outcome that a limit sees; overload unless set.",
                    &OUTCOMES,
                ),
            ),
            (
                "after",
                said(
                    work(),
                    "The time until they fail; their service time unless set.",
                ),
            ),
        ],
        &["share"],
    );
    let several = json!({ "type": "array", "items": failures });
    vec![
        (
            "workers",
            changing("The number of requests that are served at once.", &workers),
        ),
        ("service", service),
        (
            "slow_down",
            changing(
                "A factor by which all work takes longer.",
                &json!({ "type": "number", "exclusiveMinimum": 0 }),
            ),
        ),
        (
            "contention",
            json!({ "description": "The slowdown of requests that are served at once.", "anyOf": [number(0.0, None), contention] }),
        ),
        (
            "pauses",
            said(
                pauses,
                "Times in which nothing happens, such as those of a garbage collector.",
            ),
        ),
        (
            "failures",
            json!({ "description": "Requests that fail, whatever the limit.", "anyOf": [failures, several] }),
        ),
    ]
}

/// A distribution of durations.
pub(super) fn work() -> Value {
    let one = |name, fields: Value| map([(name, fields)], &[name]);
    let mean = || ("mean", span("The mean."));
    json!({ "anyOf": [
        period(),
        one("constant", span("Always the same.")),
        one("exponential", said(map([mean()], &["mean"]), "The exponential distribution, as between independent events.")),
        one("lognormal", said(map(
            [mean(), ("sigma", said(number(0.0, Some(5.0)), "The standard deviation of the logarithm."))],
            &["mean", "sigma"],
        ), "The usual shape of latencies.")),
        one("bimodal", said(map(
            [("fast", span("The one.")), ("slow", span("The other.")), ("share", said(share(), "The share of the slow."))],
            &["fast", "slow", "share"],
        ), "One of two.")),
        one("pareto", said(map(
            [("least", span("The shortest.")), ("alpha", json!({ "description": "The exponent: the larger, the rarer long times are.", "type": "number", "exclusiveMinimum": 0 }))],
            &["least", "alpha"],
        ), "A heavy tail.")),
    ] })
}
