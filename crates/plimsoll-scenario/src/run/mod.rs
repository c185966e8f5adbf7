//! Runs a scenario against the real limiter, in virtual time.
//!
//! A step moves the clock first, and the manual clock stops at every instant at which a waiter falls due in
//! between; then the verb runs; then the expectations are checked. A scenario ends at the first step that
//! does not go as expected, since what comes after it would be about a limiter in another state.

mod check;
mod held;
mod limiters;
mod session;

use plimsoll::{ManualClock, Moment};

pub(crate) use limiters::queue;
use limiters::{Subject, Unbuilt};
use session::{Session, Stop};

use crate::error::Read;
use crate::report::{Failure, Verdict};
use crate::spec::{Body, Gate, Scenario};

/// Runs one scenario. The error is a limiter that refuses its own numbers, so a mistake in the file.
pub(crate) fn run(scenario: &Scenario) -> Read<Verdict> {
    let gate = match &scenario.body {
        Body::Gate(gate) => gate,
        Body::Trace(trace) => return Ok(Verdict::NotSupported(trace.limit.rule.word())),
    };
    let clock = ManualClock::starting_at(Moment::from_nanos(gate.start));
    match limiters::build(&gate.limiter, &clock.clock()) {
        Ok(subject) => Ok(steps(gate, &subject, &clock)),
        Err(Unbuilt::NotYet(word)) => Ok(Verdict::NotSupported(word)),
        Err(Unbuilt::Invalid(problem)) => Err(problem.under_key("limiter")),
    }
}

fn steps(gate: &Gate, subject: &Subject, clock: &ManualClock) -> Verdict {
    let mut session = Session::new(subject, clock);
    for (index, step) in gate.steps.iter().enumerate() {
        let mismatches = match session.step(step) {
            Ok(mismatches) => mismatches,
            Err(Stop::NotYet(word)) => return Verdict::NotSupported(word),
            Err(Stop::Impossible(mismatch)) => vec![mismatch],
        };
        if !mismatches.is_empty() {
            return Verdict::Failed(Failure::new(index + 1, step.place.line, mismatches));
        }
    }
    Verdict::Passed
}
