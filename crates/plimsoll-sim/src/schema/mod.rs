//! The JSON Schema of simulation files, for editors.

mod fleet;
mod form;
mod station;

use std::borrow::Cow;

use plimsoll_spec::{Algorithm, Queue, schema_of};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::class::CLASSES;
use crate::contender::Contender;
use crate::expect::METRICS;
use fleet::fleet_file;
use form::{changing, condition, map, moment, number, said, share, span, text, words};
use station::{LATE_WORK, OUTCOMES, of_a_station, work};

/// The JSON Schema of simulation files, for editors: of a server behind limits, and of a fleet that shares one. It is made from the
/// tables of limits, queues, priorities and metrics that the reader uses.
///
/// The schema checks fields, words, numbers and units. Only [`Described::from_file`](crate::Described::from_file) checks that phases
/// exist, moments are in order and shares sum up to 1.
#[must_use]
pub fn schema() -> String {
    schema_of::<File>()
}

/// A simulation file.
struct File;

impl JsonSchema for File {
    fn schema_name() -> Cow<'static, str> {
        "Simulation".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let limit = limit(generator);
        let queue = generator.subschema_for::<Queue>().to_value();
        json_schema!({
            "title": "Plimsoll simulation",
            "oneOf": [server(&limit, &queue), parted(&limit, &queue), fleet_file()],
        })
    }
}

/// A server of one part.
fn server(limit: &Value, queue: &Value) -> Value {
    map(
        of_any(limit, queue).into_iter().chain(of_a_station()),
        &["name", "duration", "workers", "service"],
    )
}

/// A server of several parts.
fn parted(limit: &Value, queue: &Value) -> Value {
    let own = [
        ("name", text("The name.")),
        (
            "share",
            changing(
                "The share of the requests that need it; all unless set.",
                &share(),
            ),
        ),
        (
            "holds",
            json!({ "description": "Whether its worker is held until the request is answered.", "type": "boolean" }),
        ),
        (
            "limit",
            said(limit.clone(), "A limit of its own before it."),
        ),
        ("queue", said(queue.clone(), "The queue of that limit.")),
    ];
    let station = map(own.into_iter().chain(of_a_station()), &["name", "service"]);
    let stations = json!({
        "description": "The parts of the server, in the order in which a request passes them.",
        "type": "array", "items": station,
    });
    map(
        of_any(limit, queue)
            .into_iter()
            .chain([("stations", stations)]),
        &["name", "duration", "stations"],
    )
}

/// The fields of every simulation of a server.
fn of_any(limit: &Value, queue: &Value) -> Vec<(&'static str, Value)> {
    let rate = number(0.0, Some(1e6));
    let bursts = map(
        [
            (
                "every",
                span("The time from the start of one to the start of the next."),
            ),
            ("for", span("The length of each; shorter than `every`.")),
            (
                "rate",
                said(rate.clone(), "Requests per second during a burst."),
            ),
        ],
        &["every", "for", "rate"],
    );
    let clients = map(
        [
            (
                "count",
                json!({ "description": "The number of clients.", "type": "integer", "minimum": 1, "maximum": 1_000_000 }),
            ),
            (
                "think",
                said(
                    work(),
                    "The time between an answer and the next request; 1ms or longer.",
                ),
            ),
        ],
        &["count", "think"],
    );
    let shares = json!({ "type": "array", "items": share() });
    let processes =
        json!({ "anyOf": [{ "type": "integer", "minimum": 1, "maximum": 100 }, shares] });
    let priorities = map(
        CLASSES.map(|(class, _)| (class, changing("Its share of the requests.", &share()))),
        &[],
    );
    let phase = map(
        [
            ("name", text("The name, used under `expect` too.")),
            ("from", moment("The start: whole seconds.")),
            ("to", moment("The end: whole seconds.")),
        ],
        &["name", "from", "to"],
    );
    vec![
        ("name", text("The name of the simulation.")),
        ("about", text("A description, in a sentence.")),
        (
            "duration",
            span("The duration in virtual time: whole seconds, a day at most."),
        ),
        (
            "deadline",
            span("The deadline of a request: later answers are late; 1s unless set."),
        ),
        (
            "rate",
            changing("Requests per second of the open loop.", &rate),
        ),
        (
            "bursts",
            said(bursts, "Bursts: another rate, periodically."),
        ),
        (
            "clients",
            said(
                clients,
                "A closed loop: each client sends a request, waits for its answer, thinks, and sends the next.",
            ),
        ),
        (
            "retries",
            said(
                retries(),
                "Retries of clients that were refused or got an error.",
            ),
        ),
        (
            "priorities",
            said(priorities, "The share of each priority; together 1."),
        ),
        (
            "processes",
            said(
                processes,
                "The number of processes with a limit each before the same server, or the share of the traffic of each.",
            ),
        ),
        (
            "late_outcome",
            words(
                "The outcome that a limit sees for an answer after the deadline; overload unless set.",
                &OUTCOMES,
            ),
        ),
        (
            "late_work",
            words(
                "Whether work is dropped or done when its client leaves, at the deadline; done unless set.",
                &LATE_WORK,
            ),
        ),
        ("queue", said(queue.clone(), "The queue of the limit.")),
        (
            "phases",
            json!({ "description": "Parts with a summary of their own; one over the whole duration unless set.", "type": "array", "items": phase }),
        ),
        (
            "ideal",
            changing(
                "The goodput per second of a perfect limit; the capacity of the server unless set.",
                &number(0.0, None),
            ),
        ),
        (
            "limit",
            said(
                limit.clone(),
                "The limit that is tried; verdict unless set.",
            ),
        ),
        ("expect", expectations()),
    ]
}

fn retries() -> Value {
    let cause = json!({ "enum": ["refused", "failed"] });
    let causes = json!({ "type": "array", "items": cause });
    map(
        [
            (
                "times",
                json!({ "description": "The number of retries.", "type": "integer", "minimum": 1, "maximum": u32::MAX }),
            ),
            (
                "delay",
                span("The delay before the first retry; 100ms unless set."),
            ),
            (
                "factor",
                said(
                    number(1.0, Some(1000.0)),
                    "The factor from one delay to the next; 1 unless set.",
                ),
            ),
            ("max_delay", span("The longest delay.")),
            (
                "jitter",
                said(
                    share(),
                    "The part of a delay by which it is longer or shorter by chance; 0.5 unless set.",
                ),
            ),
            (
                "budget",
                said(
                    share(),
                    "The largest ratio of retries to requests, overall.",
                ),
            ),
            (
                "on",
                json!({ "description": "The causes of retries; refused unless set.", "anyOf": [cause, causes] }),
            ),
        ],
        &["times"],
    )
}

/// The name of a limit, or an algorithm with its parameters.
fn limit(generator: &mut SchemaGenerator) -> Value {
    let all = Contender::all();
    let names: Vec<&str> = all.iter().map(Contender::name).collect();
    let fixed = json!({ "type": "string", "pattern": "^fixed=0*[1-9][0-9]*$" });
    let algorithm = generator.subschema_for::<Algorithm>().to_value();
    json!({ "anyOf": [{ "enum": names }, fixed, algorithm] })
}

/// The expectations of each phase.
fn expectations() -> Value {
    let condition = condition();
    let classes = map(
        CLASSES.map(|(class, _)| {
            (
                class,
                said(condition.clone(), "The expectation of the class."),
            )
        }),
        &[],
    );
    let metric = |(word, _): &(&'static str, _)| {
        let value = match *word {
            "rejected" => json!({ "anyOf": [condition, classes] }),
            _ => condition.clone(),
        };
        (*word, said(value, "A condition."))
    };
    let good = said(
        classes.clone(),
        "The share of each priority that was answered in time.",
    );
    let of_phase = map(METRICS.iter().map(metric).chain([("good", good)]), &[]);
    json!({ "description": "The expectations of each phase.", "type": "object", "additionalProperties": of_phase })
}
