//! Servers and their parts.

use serde_json::{Value, json};

use super::form::{changing, map, number, period, said, share, span, words};
use crate::class::CLASSES;

pub(super) const OUTCOMES: [&str; 3] = ["overload", "ignore", "success"];
pub(super) const LATE_WORK: [&str; 2] = ["done", "dropped"];

/// What describes a server, or a station of one.
pub(super) fn of_a_station() -> Vec<(&'static str, Value)> {
    let workers = number(0.0, Some(1e6));
    let weighted = map(
        [
            (
                "weight",
                changing("How often, beside the other kinds.", &number(0.0, None)),
            ),
            ("service", said(work(), "How long it takes.")),
        ],
        &["weight", "service"],
    );
    let mix =
        json!({ "description": "Several kinds of work.", "type": "array", "items": weighted });
    let service = json!({
        "description": "How long a worker takes for a request.",
        "anyOf": [work(), map([("mix", mix)], &["mix"])],
    });
    let contention = map(
        [
            (
                "factor",
                said(
                    number(0.0, None),
                    "How much slower, for each time that number more.",
                ),
            ),
            ("above", said(workers.clone(), "From how many at once on.")),
        ],
        &["factor", "above"],
    );
    let pauses = map(
        [
            (
                "every",
                span("How long from the beginning of one to that of the next."),
            ),
            ("for", span("How long each lasts; shorter than `every`.")),
        ],
        &["every", "for"],
    );
    let failures = map(
        [
            ("share", changing("How many of the requests.", &share())),
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
                    "What a limit hears of them; overload unless set.",
                    &OUTCOMES,
                ),
            ),
            (
                "after",
                said(
                    work(),
                    "How soon they fail; after their service unless set.",
                ),
            ),
        ],
        &["share"],
    );
    let several = json!({ "type": "array", "items": failures });
    vec![
        (
            "workers",
            changing("How many requests are worked on at once.", &workers),
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
            json!({ "description": "How much slower work gets by more of it at once.", "anyOf": [number(0.0, None), contention] }),
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

/// How long something takes.
pub(super) fn work() -> Value {
    let one = |name, fields: Value| map([(name, fields)], &[name]);
    let mean = || ("mean", span("The mean."));
    json!({ "anyOf": [
        period(),
        one("constant", span("Always the same.")),
        one("exponential", said(map([mean()], &["mean"]), "As between events that know nothing of each other.")),
        one("lognormal", said(map(
            [mean(), ("sigma", said(number(0.0, Some(5.0)), "How wide it is."))],
            &["mean", "sigma"],
        ), "The usual shape of latencies.")),
        one("bimodal", said(map(
            [("fast", span("The one.")), ("slow", span("The other.")), ("share", said(share(), "The share of the slow."))],
            &["fast", "slow", "share"],
        ), "One of two.")),
        one("pareto", said(map(
            [("least", span("The shortest.")), ("alpha", json!({ "description": "How quickly longer ones get rarer.", "type": "number", "exclusiveMinimum": 0 }))],
            &["least", "alpha"],
        ), "A heavy tail.")),
    ] })
}
