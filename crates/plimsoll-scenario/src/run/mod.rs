//! Runs a scenario against the real limiter, in virtual time, or a trace through the real algorithm.
//!
//! A step first moves the clock, which stops at every moment in between at which a waiter falls due. Then the verb runs, and then
//! the expectations are checked. A scenario ends at the first failed step, since
//! later steps would run against a limiter in another state.

mod by_key;
mod check;
mod held;
mod limiters;
mod machine;
#[cfg(feature = "redis")]
pub(crate) mod redis;
#[cfg(feature = "config")]
mod requests;
mod session;
mod trace;

use std::path::Path;

use plimsoll::{ManualClock, Moment};

use limiters::{Subject, Unbuilt};
use session::{Session, Stop};

use crate::report::{Failure, ScenarioStatus};
use crate::spec::{Body, Gate, Scenario};
use plimsoll_spec::Read;

/// Runs one scenario of the file at `path`. The error is a limiter with invalid numbers, which is a mistake in the file.
pub(crate) fn run(scenario: &Scenario, path: &Path) -> Read<ScenarioStatus> {
    match &scenario.body {
        Body::Gate(gate) => match run_gate(gate) {
            Err(Unbuilt::NotYet(word)) => Ok(ScenarioStatus::NotSupported(word)),
            Err(Unbuilt::Invalid(spec)) => Err(gate.limiter.problem(&spec).under_key("limiter")),
            Ok(status) => Ok(status),
        },
        #[cfg(feature = "config")]
        Body::Requests(requests) => requests::run(requests, path),
        #[cfg(not(feature = "config"))]
        Body::Requests(_) => {
            let _ = path;
            Ok(ScenarioStatus::NotSupported("config"))
        }
        Body::Trace(trace) => {
            trace::run(trace).map_err(|spec| trace.limit.problem(&spec).under_key("limit"))
        }
    }
}

/// Runs one scenario on a store.
#[cfg(feature = "redis")]
pub(crate) fn run_on(scenario: &Scenario, store: &redis::Place) -> Read<ScenarioStatus> {
    match &scenario.body {
        Body::Trace(_) => Ok(ScenarioStatus::NotHeld("limit algorithms")),
        Body::Requests(_) => Ok(ScenarioStatus::NotHeld("config")),
        Body::Gate(gate) => match redis::run(gate, store) {
            Err(redis::Unbuilt::NotHeld(word)) => Ok(ScenarioStatus::NotHeld(word)),
            Err(redis::Unbuilt::Invalid(spec)) => {
                Err(gate.limiter.problem(&spec).under_key("limiter"))
            }
            Ok(status) => Ok(status),
        },
    }
}

fn run_gate(gate: &Gate) -> Result<ScenarioStatus, Unbuilt> {
    let clock = ManualClock::starting_at(Moment::from_nanos(gate.start));
    let subject = limiters::build(&gate.limiter.spec, &clock.clock())?;
    Ok(steps(gate, &subject, &clock))
}

fn steps(gate: &Gate, subject: &Subject, clock: &ManualClock) -> ScenarioStatus {
    let listens = gate.steps.iter().any(|step| step.events.is_some());
    let mut session = Session::new(subject, clock, listens);
    for (index, step) in gate.steps.iter().enumerate() {
        let mismatches = match session.step(step) {
            Ok(mismatches) => mismatches,
            Err(Stop::NotYet(word)) => return ScenarioStatus::NotSupported(word),
            Err(Stop::Impossible(mismatch)) => vec![mismatch],
        };
        if !mismatches.is_empty() {
            return ScenarioStatus::Failed(Failure::new(index + 1, step.place.line, mismatches));
        }
    }
    ScenarioStatus::Passed
}
