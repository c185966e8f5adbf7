//! The JSON Schema of scenario files, for editors.

use std::borrow::Cow;

use plimsoll_spec::{Algorithm, Limiter, Memory, schema_of};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use crate::read::words;
use crate::spec::Gauge;

/// The JSON Schema of scenario files, for editors.
///
/// It is made from the tables of verbs, gauges, events and reasons that the reader uses; limiters are described as in
/// configuration files, without stores and short forms.
///
/// The schema checks fields, words, numbers and units. Only [`run_file`](crate::run_file) checks that names exist and fit their verbs.
#[must_use]
pub fn schema() -> String {
    let mut root: Value = serde_json::from_str(&schema_of::<File>()).unwrap_or_default();
    let definitions = &mut root["definitions"];
    // In scenarios, a number without a unit is nanoseconds.
    for name in ["Duration", "Period"] {
        let least = i32::from(name == "Period");
        let strict = definitions[name].take();
        let description = strict["description"].clone();
        let number = json!({ "type": "integer", "minimum": least });
        definitions[name] = json!({ "description": description, "anyOf": [strict, number] });
    }
    let kinds = definitions["Limiter"]["oneOf"].as_array_mut();
    if let Some(kinds) = kinds {
        kinds.retain(|kind| !kind["properties"]["kind"].is_null());
        for kind in kinds {
            if let Some(fields) = kind["properties"].as_object_mut() {
                fields.retain(|name, _| !words::OF_STORES.contains(&name.as_str()));
            }
        }
    }
    let mut text = serde_json::to_string_pretty(&root).unwrap_or_default();
    text.push('\n');
    text
}

/// A scenario file.
struct File;

impl JsonSchema for File {
    fn schema_name() -> Cow<'static, str> {
        "Scenarios".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let scenarios = json!({ "description": "The scenarios.", "type": "array", "items": generator.subschema_for::<OneScenario>().to_value() });
        let about = text("What the file is about.");
        let map = map(
            [("about", about), ("scenarios", scenarios.clone())],
            &["scenarios"],
        );
        json_schema!({ "title": "Plimsoll scenarios", "anyOf": [scenarios, map] })
    }
}

/// One scenario.
struct OneScenario;

impl JsonSchema for OneScenario {
    fn schema_name() -> Cow<'static, str> {
        "Scenario".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let any = scenario(generator);
        json_schema!({ "description": "What is asked, and what must be answered.", "oneOf": any })
    }
}

/// The kinds of scenarios.
fn scenario(generator: &mut SchemaGenerator) -> Value {
    let name = || ("name", text("What is shown."));
    let start = || ("start", span("When it begins; 0 unless set."));
    let steps = |each: Value| {
        let steps =
            json!({ "description": "What happens, in order.", "type": "array", "items": each });
        ("steps", steps)
    };
    let limiter = described(
        generator.subschema_for::<Limiter>(),
        "The limiter that is asked.",
    );
    let limit = described(
        generator.subschema_for::<Algorithm>(),
        "The algorithm that is fed.",
    );
    let config = text("The configuration file whose limits are asked, seen from this one.");
    let columns = words_of("What the numbers of a row are.", &words::COLUMNS);
    let columns = json!({ "description": "What the numbers of a row are.", "type": "array", "items": columns });
    let samples = json!({ "description": "Rows.", "type": "array", "items": { "type": "array" } });
    let sample = described(
        generator.subschema_for::<Memory>(),
        "What the machine shows.",
    );
    json!([
        map(
            [name(), start(), ("limiter", limiter), steps(step(&sample))],
            &["name", "limiter", "steps"]
        ),
        map(
            [name(), start(), ("config", config), steps(request_step())],
            &["name", "config", "steps"]
        ),
        map(
            [
                name(),
                ("limit", limit),
                ("columns", columns),
                ("samples", samples)
            ],
            &["name", "limit", "samples"]
        ),
    ])
}

/// A step of a scenario about one limiter: a closed map for each verb, and one for a step that only looks.
fn step(sample: &Value) -> Value {
    let result = words_of(
        "What becomes of it.",
        &["granted", "denied", "pending", "cancelled"],
    );
    let settled = map(
        [("result", result.clone()), ("reason", reason())],
        &["result"],
    );
    let events = json!({
        "description": "The events since the last step that has this; `none` for none.",
        "anyOf": [{ "const": "none" }, { "type": "array", "items": { "enum": words::EVENTS } }]
    });
    let mut common = vec![
        (
            "at",
            span("When it happens; as the step before unless set."),
        ),
        ("key", text("The key, for a limiter with keys.")),
        (
            "saturation",
            json!({ "description": "What is in use, from 0 to 1.", "type": "number" }),
        ),
        (
            "settled",
            each_of(
                "What has become of earlier steps, by their names.",
                &json!({ "anyOf": [result, settled] }),
            ),
        ),
        ("events", events),
    ];
    common.extend(
        Gauge::EVERY
            .iter()
            .map(|(word, _)| (*word, number("What the limiter says of itself then."))),
    );
    let mut branches = vec![map(common.clone(), &[])];
    for (verb, modifiers) in words::VERBS {
        let fields = modifiers.iter().map(|name| (*name, modifier(name)));
        let fields = common.iter().cloned().chain(fields);
        branches.push(map(fields.chain([(verb, value_of(verb, sample))]), &[verb]));
    }
    json!({ "oneOf": branches })
}

/// The value of a verb.
fn value_of(verb: &str, sample: &Value) -> Value {
    let yes = |what: &str| json!({ "description": what, "const": true });
    match verb {
        "try" => number("Takes so much now, or is refused."),
        "acquire" => number("Takes so much, and may wait."),
        "reserve" => number("Takes so much, to be used later."),
        "estimate" => number("Whether so much would be granted."),
        "take_up_to" => number("Takes what there is, at most so much."),
        "release" => text("Returns the permit of the step with this name."),
        "split" => {
            let fields = [
                ("name", text("The permit.")),
                ("cost", number("How much of it.")),
                ("as", text("The name of the part.")),
            ];
            described_value(map(fields, &["name", "cost", "as"]), "Splits a permit.")
        }
        "merge" => {
            json!({ "description": "Joins two permits.", "type": "array", "items": { "type": "string" } })
        }
        "forget_permit" => text("Loses the permit of the step with this name."),
        "cancel" => text("Gives up the step with this name, which waits."),
        "add" => number("Adds so many tokens."),
        "reset" => yes("Begins anew."),
        "set_rate" => json!({ "description": "Another rate, per second.", "type": "number" }),
        "resize" => number("Another limit."),
        "set_queue_bound" => number("Another bound of the queue."),
        "replace" => json!({ "description": "Other bandwidths.", "type": "array" }),
        "forget" => text("Forgets a key."),
        "sample" => sample.clone(),
        _ => yes("Closes the limiter."),
    }
}

/// A field that changes a verb.
fn modifier(name: &str) -> Value {
    match name {
        "as" => text("The name of the step, for later ones."),
        "priority" => words_of(
            "How much it matters.",
            &["critical", "normal", "non-critical"],
        ),
        "timeout" => span("How long it waits at most."),
        "max_wait" => span("How long a wait is accepted."),
        "carry" => words_of(
            "What becomes of what was used.",
            &["as_is", "proportional", "reset"],
        ),
        _ => expectation(),
    }
}

fn expectation() -> Value {
    let result = words_of("The answer.", &["granted", "denied", "pending"]);
    let fields = words::EXPECTED.map(|name| {
        let value = match name {
            "result" => result.clone(),
            "reason" => reason(),
            "retry_after" => retry_after(),
            "wait" => span("When what is reserved may be used."),
            "taken" => number("How much was taken."),
            "credit" => number("What is left of a penalty bucket."),
            "refused_by" => text("The name of the limiter that refuses."),
            "within" => span("How far a time may be off."),
            _ => json!({ "description": "Whether `retry_after` is as late as is needed.", "type": "boolean" }),
        };
        (name, value)
    });
    json!({ "description": "What is expected.", "anyOf": [result, map(fields, &[])] })
}

/// A step that is a request to the limits of a configuration, or asks one of them by name.
fn request_step() -> Value {
    let fields = |names: &[&'static str]| -> Vec<(&'static str, Value)> {
        names
            .iter()
            .map(|name| (*name, request_field(name)))
            .collect()
    };
    let asks = ["as", "times", "expect", "remaining"];
    let always = ["at", "settled"];
    let branch = |parts: &[&[&'static str]], verb: Option<&'static str>| {
        let needed: Vec<&str> = verb.into_iter().collect();
        map(parts.iter().flat_map(|names| fields(names)), &needed)
    };
    json!({ "oneOf": [
        branch(&[&always], None),
        branch(&[&always, &asks, &words::OF_REQUEST, &["request"]], Some("request")),
        branch(&[&always, &asks, &words::OF_ASK, &["ask"]], Some("ask")),
        branch(&[&always, &["finish"]], Some("finish")),
    ]})
}

fn request_field(name: &str) -> Value {
    let texts = |what: &str| each_of(what, &scalar());
    let body = |what: &str| {
        let length = json!({ "type": "integer", "minimum": 0 });
        json!({ "description": what, "anyOf": [{ "type": "string" }, length] })
    };
    match name {
        "at" => span("When it happens; as the step before unless set."),
        "request" => json!({
            "description": "A request such as GET /login from 10.0.0.7.",
            "type": "string", "pattern": "^[A-Z-]+ +/[^ ]*( +from +[^ ]+)?$"
        }),
        "ask" => text("The name of a limit."),
        "finish" => text("Ends the request of the step with this name."),
        "as" => text("The name of the step, for later ones."),
        "times" => json!({ "description": "How often.", "type": "integer", "minimum": 1 }),
        "from" => text("The address of the client."),
        "headers" => texts("Its headers."),
        "claims" => texts("What the program knows of who asks."),
        "descriptors" => texts("The entries of its descriptor."),
        "answer_headers" => texts("The headers of the answer."),
        "body" => body("Its body; a number alone is so many bytes."),
        "answer" => body("The body of the answer; a number alone is so many bytes."),
        "status" => status(),
        "usage" => number("What the handler says was used."),
        "key" => described_value(scalar(), "The key."),
        "tier" => described_value(scalar(), "The tier."),
        "cost" => number("How much."),
        "remaining" => {
            let each = each_of("What is left, by limit.", &number("How much."));
            json!({ "description": "What is left afterwards.", "anyOf": [number("Of the limit that is asked."), each] })
        }
        "settled" => each_of(
            "What has become of earlier steps, by their names.",
            &answered(),
        ),
        _ => answered(),
    }
}

fn answered() -> Value {
    let result = words_of("The answer.", &["allowed", "refused", "pending"]);
    let by = json!({ "description": "The limit that refuses.", "type": "string", "pattern": "^refused by .+$" });
    let fields = words::ANSWERED.map(|name| {
        let value = match name {
            "result" => result.clone(),
            "refused_by" => text("The name of the limit that refuses."),
            "reason" => reason(),
            "retry_after" => retry_after(),
            "status" => status(),
            _ => span("How far a time may be off."),
        };
        (name, value)
    });
    json!({ "description": "What is expected.", "anyOf": [result, by, map(fields, &[])] })
}

fn reason() -> Value {
    let known: Vec<&str> = words::REASONS
        .into_iter()
        .chain(words::MORE_REASONS)
        .collect();
    let mut known: Vec<&str> = known.into_iter().collect();
    known.sort_unstable();
    known.dedup();
    words_of("Why it is refused.", &known)
}

fn retry_after() -> Value {
    let never = json!({ "const": "none" });
    json!({ "description": "When it would be granted; `none` if that is not known.", "anyOf": [never, span("After this time.")] })
}

fn status() -> Value {
    json!({ "description": "The status of the answer.", "type": "integer", "minimum": 200, "maximum": 599 })
}

/// A moment or a time: a number alone is nanoseconds.
fn span(what: &str) -> Value {
    let unit = json!({ "type": "string", "pattern": "^[0-9]+(ns|us|ms|s|m|h|d)$" });
    json!({ "description": what, "anyOf": [unit, { "type": "integer", "minimum": 0 }] })
}

fn text(what: &str) -> Value {
    json!({ "description": what, "type": "string" })
}

/// A scalar that is read as text.
fn scalar() -> Value {
    json!({ "anyOf": [{ "type": "string" }, { "type": "number" }, { "type": "boolean" }] })
}

fn number(what: &str) -> Value {
    json!({ "description": what, "type": "integer", "minimum": 0 })
}

fn words_of(what: &str, words: &[&str]) -> Value {
    json!({ "description": what, "enum": words })
}

fn each_of(what: &str, value: &Value) -> Value {
    json!({ "description": what, "type": "object", "additionalProperties": value })
}

fn described(schema: Schema, what: &str) -> Value {
    json!({ "description": what, "allOf": [schema.to_value()] })
}

fn described_value(mut schema: Value, what: &str) -> Value {
    schema["description"] = what.into();
    schema
}

/// A map with these fields and no others.
fn map(fields: impl IntoIterator<Item = (&'static str, Value)>, needed: &[&str]) -> Value {
    let fields = fields
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value));
    let fields: Map<String, Value> = fields.collect();
    json!({ "type": "object", "properties": fields, "required": needed, "additionalProperties": false })
}
