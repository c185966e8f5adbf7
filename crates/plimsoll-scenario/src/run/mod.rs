//! Runs a scenario against the real limiter, in virtual time, or a trace through the real algorithm.
//!
//! A step moves the clock first, and the manual clock stops at every instant at which a waiter falls due in
//! between; then the verb runs; then the expectations are checked. A scenario ends at the first step that
//! does not go as expected, since what comes after it would be about a limiter in another state.

mod check;
mod held;
mod limiters;
mod limits;
#[cfg(feature = "redis")]
pub(crate) mod redis;
mod rules;
mod session;
mod trace;

use plimsoll::adaptive::Limit;
use plimsoll::{ManualClock, Moment};

pub(crate) use limiters::queue;
use limiters::{Subject, Unbuilt};
use session::{Session, Stop};

use crate::error::{Problem, Read};
use crate::report::{Failure, Verdict};
use crate::spec::{Algorithm, Body, Gate, Scenario};

/// Runs one scenario. The error is a limiter that refuses its own numbers, so a mistake in the file.
pub(crate) fn run(scenario: &Scenario) -> Read<Verdict> {
    let (verdict, field) = match &scenario.body {
        Body::Gate(gate) => (run_gate(gate), "limiter"),
        Body::Trace(trace) => (trace::run(trace), "limit"),
    };
    match verdict {
        Err(Unbuilt::NotYet(word)) => Ok(Verdict::NotSupported(word)),
        Err(Unbuilt::Invalid(problem)) => Err(problem.under_key(field)),
        Ok(verdict) => Ok(verdict),
    }
}

/// Runs one scenario on a store.
#[cfg(feature = "redis")]
pub(crate) fn run_on(scenario: &Scenario, store: &redis::Place) -> Read<Verdict> {
    match &scenario.body {
        Body::Trace(_) => Ok(Verdict::NotHeld("limit algorithms")),
        Body::Gate(gate) => match redis::run(gate, store) {
            Err(redis::Unbuilt::NotHeld(word)) => Ok(Verdict::NotHeld(word)),
            Err(redis::Unbuilt::Invalid(problem)) => Err(problem.under_key("limiter")),
            Ok(verdict) => Ok(verdict),
        },
    }
}

/// Builds a limit algorithm. See [`limit`](crate::limit).
pub(crate) fn limit(algorithm: &Algorithm) -> Read<Box<dyn Limit>> {
    limits::build(algorithm).map_err(|unbuilt| match unbuilt {
        Unbuilt::Invalid(problem) => problem,
        Unbuilt::NotYet(word) => Problem::new(algorithm.place, format!("there is no `{word}` yet")),
    })
}

fn run_gate(gate: &Gate) -> Result<Verdict, Unbuilt> {
    let clock = ManualClock::starting_at(Moment::from_nanos(gate.start));
    let subject = limiters::build(&gate.limiter, &clock.clock())?;
    Ok(steps(gate, &subject, &clock))
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
