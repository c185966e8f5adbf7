//! Remarks on how far the figures of a report can be trusted.

use plimsoll_config::Config;
use plimsoll_config::uses::{CostPart, CostSpec, KeyPart};
use serde_json::Value;

use crate::described::document;
use crate::done::Done;
use crate::log::LogSummary;
use crate::report::LimitReport;
use crate::words::many;

/// Remarks on how far the figures can be trusted.
pub(crate) fn notes(config: &Config, done: &Done, limits: &[LimitReport]) -> Vec<String> {
    let mut notes = Vec::new();
    let logs = done.read.summaries();
    for log in &logs {
        if let Some(why) = &log.cut_short {
            notes.push(format!("{} could not be read to its end: {why}.", log.file));
        }
    }
    if done.tally.refused > 0 {
        notes.push("Refused clients might have come again: the log does not show that.".to_owned());
    }
    let sum = |of: fn(&LogSummary) -> u64| logs.iter().map(of).sum::<u64>();
    if sum(|log| log.whole_seconds) > 0 {
        notes.push(
            "Moments are whole seconds: requests of a second were spread over it evenly."
                .to_owned(),
        );
    }
    let document = document(config);
    let kind = |name: &str| {
        document["limits"][name]["kind"]
            .as_str()
            .unwrap_or_default()
    };
    let asked = || {
        limits
            .iter()
            .filter(|limit| limit.asked > 0)
            .map(|limit| limit.limit.as_str())
    };
    let is_held = |name: &&str| ["concurrency", "adaptive"].contains(&kind(name));
    let held: Vec<&str> = asked().filter(is_held).collect();
    if !held.is_empty() && sum(|log| log.with_duration) < sum(|log| log.requests) {
        notes.push(format!("Requests without a duration in the log count as ended at once: {} cannot be judged by them.", held.join(", ")));
    }
    if asked().any(|name| kind(name) == "adaptive") {
        notes.push("Adaptive limits see the durations of the log, which their refusals would have changed.".to_owned());
    }
    if asked().any(|name| ["memory", "cpu"].contains(&kind(name))) {
        notes.push(
            "Limits on memory and processor time are not in a log: they refuse nothing here."
                .to_owned(),
        );
    }
    if document
        .get("stores")
        .and_then(Value::as_object)
        .is_some_and(|stores| !stores.is_empty())
    {
        notes.push(
            "Limits in stores were replayed in memory, as one process would share them.".to_owned(),
        );
    }
    for limit in limits.iter().filter(|limit| limit.without_key > 0) {
        let key = config.use_of(&limit.limit).and_then(|it| it.key.as_ref());
        let parts = key.map_or(&[][..], |key| &key.0);
        let parts: Vec<String> = parts
            .iter()
            .filter(|part| **part != KeyPart::Client)
            .map(ToString::to_string)
            .collect();
        let what = match parts.is_empty() {
            true => "client".to_owned(),
            false => parts.join(", "),
        };
        notes.push(format!(
            "{} does not apply to {}: their lines have no {what}.",
            limit.limit,
            many(limit.without_key, "request")
        ));
    }
    for name in asked() {
        if config.use_of(name).is_some_and(|it| !is_logged(&it.cost)) {
            notes.push(format!(
                "What a request costs of {name} is not in a log: what is taken beforehand counts."
            ));
        }
    }
    if done.read.late() > 0 {
        let lines = many(done.read.late(), "line");
        notes.push(format!(
            "Out of order by more than the window: {lines}. A larger --window puts them in place."
        ));
    }
    if done.bad_targets > 0 {
        let requests = many(done.bad_targets, "request");
        notes.push(format!(
            "Left out, because the target is not a path: {requests}."
        ));
    }
    if done.without_route > 0 {
        let requests = many(done.without_route, "request");
        notes.push(format!(
            "Not limited, because no route matches: {requests}."
        ));
    }
    let forgotten = done
        .tally
        .peaks
        .iter()
        .flatten()
        .map(|peaks| peaks.forgotten);
    if forgotten.sum::<u64>() > 0 {
        notes.push(
            "There were too many keys to count the peaks of all to the end: those that came again later count as others."
                .to_owned(),
        );
    }
    notes
}

/// Whether a log may have the cost of a request.
fn is_logged(cost: &CostSpec) -> bool {
    let part = |part: &CostPart| {
        !matches!(
            part,
            CostPart::Usage
                | CostPart::ResponseHeader(_)
                | CostPart::ResponseJson(_)
                | CostPart::Json(_)
        )
    };
    match cost {
        CostSpec::Measured(cost) => part(cost),
        CostSpec::Estimated {
            estimate, actual, ..
        } => part(estimate) && actual.as_ref().is_none_or(part),
        _ => true,
    }
}
