//! Fleets.

use serde_json::{Value, json};

use super::form::{changing, condition, map, moment, number, said, share, span, text, words};
use crate::fleet;

pub(super) fn fleet_file() -> Value {
    let conditions = fleet::WORDS.map(|word| (word, said(condition(), "A condition.")));
    map(
        [
            ("name", text("The name of the simulation.")),
            ("about", text("A description, in a sentence.")),
            (
                "duration",
                span("The duration in virtual time: whole seconds, a day at most."),
            ),
            ("fleet", fleet_body()),
            ("expect", said(map(conditions, &[]), "The expectations.")),
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
                "max",
                said(tokens.clone(), "The most that is borrowed at once."),
            ),
            (
                "target",
                span("The time for which a borrowed batch should last."),
            ),
            ("keep", span("The time for which unused tokens are kept.")),
        ],
        &[],
    );
    let partition = map(
        [
            ("from", moment("The start: whole seconds.")),
            ("to", moment("The end: whole seconds.")),
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
            json!({ "description": "The number of processes, or a list of numbers to try.", "anyOf": [whole(100_000), several] }),
        ),
        (
            "rate",
            said(
                whole(1_000_000),
                "The limit of all processes together, in requests per second.",
            ),
        ),
        ("burst", said(tokens, "The burst; the rate unless set.")),
        (
            "demand",
            changing(
                "The demand, as a multiple of the rate; 1.5 unless set.",
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
        ("cuts", span("The mean time until a connection breaks.")),
        (
            "restarts",
            span("The mean time until a process is restarted."),
        ),
        (
            "server_restarts",
            json!({ "description": "The times at which the store or the server is restarted.", "type": "array", "items": moment("Whole seconds.") }),
        ),
        (
            "partitions",
            json!({ "description": "Times in which processes do not reach the server.", "type": "array", "items": partition }),
        ),
        ("skew", span("The largest clock skew.")),
    ];
    let sharing = |word: &str| {
        (
            "sharing",
            json!({ "description": "The way in which the limit is shared.", "const": word }),
        )
    };
    let borrowed = [
        sharing("borrowed"),
        (
            "borrow",
            said(borrow, "The size and the lifetime of borrowed batches."),
        ),
        (
            "timeout",
            span("The time-out of a request to the store; 50ms unless set."),
        ),
        (
            "outage",
            words(
                "The behaviour of processes that cannot reach the store; deny unless set.",
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
                "The behaviour of proxies without an assignment; deny unless set.",
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
