//! Fleets.

use serde_json::{Value, json};

use super::form::{changing, condition, map, moment, number, said, share, span, text, words};
use crate::fleet;

pub(super) fn fleet_file() -> Value {
    let conditions = fleet::WORDS.map(|word| (word, said(condition(), "A condition.")));
    map(
        [
            ("name", text("What the simulation is called.")),
            ("about", text("What it is about, in a sentence.")),
            (
                "duration",
                span("How long it lasts, in virtual time: whole seconds, a day at most."),
            ),
            ("fleet", fleet_body()),
            ("expect", said(map(conditions, &[]), "What must hold.")),
        ],
        &["name", "duration", "fleet"],
    )
}

fn fleet_body() -> Value {
    let whole = |most: u64| json!({ "type": "integer", "minimum": 1, "maximum": most });
    let several = json!({ "type": "array", "items": whole(100_000) });
    let tokens = whole(1_000_000_000);
    let busy = map(
        [
            (
                "part",
                json!({ "description": "The part of the processes.", "type": "number", "exclusiveMinimum": 0, "maximum": 1 }),
            ),
            (
                "share",
                said(share(), "The share of the demand that comes to them."),
            ),
        ],
        &["part", "share"],
    );
    let borrow = map(
        [
            (
                "most",
                said(tokens.clone(), "The most that is borrowed at once."),
            ),
            ("target", span("For how long what is borrowed should last.")),
            ("keep", span("How long it is kept without use.")),
        ],
        &[],
    );
    let partition = map(
        [
            ("from", moment("When it begins: whole seconds.")),
            ("to", moment("When it ends: whole seconds.")),
            (
                "part",
                said(share(), "The part of the processes that is cut off."),
            ),
        ],
        &["from", "to", "part"],
    );
    let common = [
        (
            "processes",
            json!({ "description": "How many, or several numbers to try.", "anyOf": [whole(100_000), several] }),
        ),
        (
            "rate",
            said(whole(1_000_000), "How much all of them may do in a second."),
        ),
        (
            "burst",
            said(tokens, "How much at once; the rate unless set."),
        ),
        (
            "demand",
            changing(
                "What comes, as a multiple of the rate; 1.5 unless set.",
                &number(0.0, Some(1000.0)),
            ),
        ),
        (
            "busy",
            said(
                busy,
                "A part of the processes that gets more than its share.",
            ),
        ),
        ("delay", span("Of a message, one way.")),
        (
            "cuts",
            span("How often a connection breaks, on the average."),
        ),
        (
            "restarts",
            span("How often a process starts again, on the average."),
        ),
        (
            "server_restarts",
            json!({ "description": "When the server starts again.", "type": "array", "items": moment("Whole seconds.") }),
        ),
        (
            "partitions",
            json!({ "description": "Times in which processes do not reach the server.", "type": "array", "items": partition }),
        ),
        ("skew", span("How far clocks are off at most.")),
    ];
    let sharing = |word: &str| {
        (
            "sharing",
            json!({ "description": "How they share it.", "const": word }),
        )
    };
    let borrowed = [
        sharing("borrowed"),
        (
            "borrow",
            said(borrow, "How much is borrowed, and for how long."),
        ),
        (
            "timeout",
            span("How long a process waits for the store; 50ms unless set."),
        ),
        (
            "outage",
            words(
                "What processes do without the store; deny unless set.",
                &["deny", "admit", "local"],
            ),
        ),
        ("loss", said(share(), "The share of messages that is lost.")),
    ];
    let assigned = [
        sharing("assigned"),
        (
            "without",
            words(
                "What proxies do without an assignment; deny unless set.",
                &["deny", "admit"],
            ),
        ),
    ];
    let needed = ["processes", "sharing", "rate"];
    json!({ "description": "Processes that share a limit.", "oneOf": [
        map(common.clone().into_iter().chain(borrowed), &needed),
        map(common.into_iter().chain(assigned), &needed),
    ] })
}
