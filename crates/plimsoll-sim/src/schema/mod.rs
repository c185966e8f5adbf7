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

/// The JSON Schema of simulation files: of a server behind limits, and of a fleet that shares one. Limits, queues, priorities and
/// what can be expected are those that the reader knows.
///
/// It checks fields, words, numbers and units. That phases exist, moments are in order and shares sum up to 1 is for the reader to say.
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
        ("name", text("What it is called.")),
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
        ("queue", said(queue.clone(), "Who waits for that limit.")),
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

/// What every simulation of a server has.
fn of_any(limit: &Value, queue: &Value) -> Vec<(&'static str, Value)> {
    let rate = number(0.0, Some(1e6));
    let bursts = map(
        [
            (
                "every",
                span("How long from the beginning of one to that of the next."),
            ),
            ("for", span("How long each lasts; shorter than `every`.")),
            ("rate", said(rate.clone(), "Requests a second meanwhile.")),
        ],
        &["every", "for", "rate"],
    );
    let clients = map(
        [
            (
                "count",
                json!({ "description": "How many.", "type": "integer", "minimum": 1, "maximum": 1_000_000 }),
            ),
            (
                "think",
                said(
                    work(),
                    "How long each waits between an answer and the next request; 1ms or longer.",
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
            ("name", text("What it is called, under `expect` too.")),
            ("from", moment("When it begins: whole seconds.")),
            ("to", moment("When it ends: whole seconds.")),
        ],
        &["name", "from", "to"],
    );
    vec![
        ("name", text("What the simulation is called.")),
        ("about", text("What it is about, in a sentence.")),
        (
            "duration",
            span("How long it lasts, in virtual time: whole seconds, a day at most."),
        ),
        (
            "deadline",
            span("What is answered later is late; 1s unless set."),
        ),
        (
            "rate",
            changing("Requests a second, whatever becomes of them.", &rate),
        ),
        (
            "bursts",
            said(bursts, "Another rate for a while, again and again."),
        ),
        (
            "clients",
            said(
                clients,
                "A closed loop: each asks, waits for its answer, thinks, and asks again.",
            ),
        ),
        (
            "retries",
            said(
                retries(),
                "What clients do who were refused or got an error.",
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
                "How many processes have a limit each before the same server, or the share of the traffic of each.",
            ),
        ),
        (
            "late_outcome",
            words(
                "What a limit hears of an answer after the deadline; overload unless set.",
                &OUTCOMES,
            ),
        ),
        (
            "late_work",
            words(
                "What becomes of work when its client has left, at the deadline: it is done all the same, or dropped; done unless set.",
                &LATE_WORK,
            ),
        ),
        ("queue", said(queue.clone(), "Who waits for the limit.")),
        (
            "phases",
            json!({ "description": "What is summed up on its own; all of it unless set.", "type": "array", "items": phase }),
        ),
        (
            "ideal",
            changing(
                "What a perfect limit would get answered in time, a second; what the server can do unless set.",
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
                json!({ "description": "How often.", "type": "integer", "minimum": 1, "maximum": u32::MAX }),
            ),
            (
                "delay",
                span("How long before the first; 100ms unless set."),
            ),
            (
                "factor",
                said(
                    number(1.0, Some(1000.0)),
                    "By what each delay is longer than the one before; 1 unless set.",
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
                    "How many retries there may be for each request, on the whole.",
                ),
            ),
            (
                "on",
                json!({ "description": "After what they try again; refused unless set.", "anyOf": [cause, causes] }),
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

/// What must hold of each phase.
fn expectations() -> Value {
    let condition = condition();
    let classes = map(
        CLASSES.map(|(class, _)| (class, said(condition.clone(), "What must hold of it."))),
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
    json!({ "description": "What must hold of each phase.", "type": "object", "additionalProperties": of_phase })
}
