//! The types of a scenario file.
//!
//! Limiters are described as in all files, by [`plimsoll_spec`]. A verb is added here and in [`read`](crate::read) when the
//! format gains it, and in [`run`](crate::run) when a limiter can do it.

mod limiter;
mod requests;
mod step;
mod trace;

pub(crate) use limiter::{AlgorithmSpec, LimiterSpec, members};
pub(crate) use requests::{
    Act, Admission, Answered, Remaining, Reply, RequestSpec, RequestStep, Requests,
};
pub(crate) use step::{Ask, Expect, Gauge, Hint, Outcome, Settled, Step, Verb};
pub(crate) use trace::{Finished, Sample, Samples, Tick, Trace};

use plimsoll_spec::Place;

/// One scenario of a file.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(crate) body: Body,
}

/// The three kinds of scenario.
#[derive(Debug)]
pub(crate) enum Body {
    /// Steps taken against a limiter.
    Gate(Box<Gate>),
    /// Samples for a limit algorithm.
    Trace(Trace),
    /// Requests to the limits of a configuration.
    Requests(
        #[cfg_attr(
            not(feature = "config"),
            expect(dead_code, reason = "only the feature runs requests")
        )]
        Requests,
    ),
}

/// A limiter and its steps.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) limiter: LimiterSpec,
    /// Virtual time, in nanoseconds, at which the limiter is built.
    pub(crate) start: u64,
    pub(crate) steps: Vec<Step>,
}
