//! From a description to the limit algorithm itself: the one place that knows which algorithms exist.
//!
//! An algorithm becomes available by one more arm in [`build_within`]. Its word and its fields are in
//! [`read`](crate::read).

use plimsoll::InvalidLimit;
use plimsoll::adaptive::{
    Aimd, AimdBuilder, Gradient2, Gradient2Builder, LatencyGradient, LatencyGradientBuilder, Limit,
    Vegas, VegasBuilder, Verdict, VerdictBuilder, Windowed, WindowedBuilder,
};

use super::limiters::Unbuilt;
use crate::error::Problem;
use crate::spec::{self, Algorithm, LimitRule, Range};

/// Builds the algorithm that a file describes.
pub(crate) fn build(spec: &Algorithm) -> Result<Box<dyn Limit>, Unbuilt> {
    build_within(spec, spec.range)
}

/// Builds an algorithm with this range, which is its own unless another algorithm stands before it.
fn build_within(spec: &Algorithm, range: Range) -> Result<Box<dyn Limit>, Unbuilt> {
    let invalid = |error: InvalidLimit| invalid(spec, range, &error);
    Ok(match &spec.rule {
        LimitRule::Aimd { backoff, timeout } => {
            let aimd = given(Aimd::builder(), range.min, AimdBuilder::min);
            let aimd = given(aimd, range.initial, AimdBuilder::initial);
            let aimd = given(aimd, range.max, AimdBuilder::max);
            let aimd = given(aimd, *backoff, AimdBuilder::backoff);
            let aimd = given(aimd, *timeout, AimdBuilder::timeout);
            Box::new(aimd.build().map_err(invalid)?)
        }
        LimitRule::Vegas {
            smoothing,
            probe_multiplier,
            probe_jitter,
        } => {
            let vegas = given(Vegas::builder(), range.min, VegasBuilder::min);
            let vegas = given(vegas, range.initial, VegasBuilder::initial);
            let vegas = given(vegas, range.max, VegasBuilder::max);
            let vegas = given(vegas, *smoothing, VegasBuilder::smoothing);
            let vegas = given(vegas, *probe_multiplier, VegasBuilder::probe_multiplier);
            let vegas = given(vegas, probe_jitter.clone(), VegasBuilder::probe_jitter);
            Box::new(vegas.build().map_err(invalid)?)
        }
        LimitRule::Gradient2 {
            smoothing,
            long_window,
            warmup,
            tolerance,
            queue_size,
        } => {
            let gradient = given(Gradient2::builder(), range.min, Gradient2Builder::min);
            let gradient = given(gradient, range.initial, Gradient2Builder::initial);
            let gradient = given(gradient, range.max, Gradient2Builder::max);
            let gradient = given(gradient, *smoothing, Gradient2Builder::smoothing);
            let gradient = given(gradient, *long_window, Gradient2Builder::long_window);
            let gradient = given(gradient, *warmup, Gradient2Builder::warmup);
            let gradient = given(gradient, *tolerance, Gradient2Builder::tolerance);
            let gradient = given(gradient, *queue_size, Gradient2Builder::queue_size);
            Box::new(gradient.build().map_err(invalid)?)
        }
        LimitRule::Windowed {
            delegate,
            min_window,
            max_window,
            window_size,
            min_rtt,
        } => {
            let windowed = Windowed::builder(behind(delegate, range)?);
            let windowed = given(windowed, *min_window, WindowedBuilder::min_window);
            let windowed = given(windowed, *max_window, WindowedBuilder::max_window);
            let windowed = given(windowed, *window_size, WindowedBuilder::window_size);
            let windowed = given(windowed, *min_rtt, WindowedBuilder::min_rtt);
            Box::new(windowed.build().map_err(invalid)?)
        }
        LimitRule::LatencyGradient(options) => Box::new(latency_gradient(spec, range, *options)?),
        LimitRule::Verdict => {
            let verdict = given(Verdict::builder(), range.min, VerdictBuilder::min);
            let verdict = given(verdict, range.initial, VerdictBuilder::initial);
            let verdict = given(verdict, range.max, VerdictBuilder::max);
            Box::new(verdict.build().map_err(invalid)?)
        }
    })
}

/// The algorithm behind the windows of another. The windows have no limit of their own: a range that is said of
/// them is that of what stands behind, as far as that says nothing else.
fn behind(delegate: &Algorithm, outer: Range) -> Result<Box<dyn Limit>, Unbuilt> {
    let range = Range {
        min: delegate.range.min.or(outer.min),
        initial: delegate.range.initial.or(outer.initial),
        max: delegate.range.max.or(outer.max),
    };
    build_within(delegate, range).map_err(|unbuilt| match unbuilt {
        Unbuilt::Invalid(problem) => Unbuilt::Invalid(problem.under_key("delegate")),
        Unbuilt::NotYet(word) => Unbuilt::NotYet(word),
    })
}

/// `latency_gradient` as itself: its traces look deeper into it than a limit shows.
pub(crate) fn latency_gradient(
    spec: &Algorithm,
    range: Range,
    options: spec::LatencyGradient,
) -> Result<LatencyGradient, Unbuilt> {
    type Builder = LatencyGradientBuilder;
    let gradient = given(LatencyGradient::builder(), range.min, Builder::min);
    let gradient = given(gradient, range.initial, Builder::initial);
    let gradient = given(gradient, range.max, Builder::max);
    let gradient = given(gradient, options.tolerance, Builder::tolerance);
    let gradient = given(gradient, options.min_queue, Builder::min_queue);
    let gradient = given(gradient, options.initial_queue, Builder::initial_queue);
    gradient
        .build()
        .map_err(|error| invalid(spec, range, &error))
}

/// Sets an option that was given. The algorithm knows its defaults.
fn given<B, T>(builder: B, value: Option<T>, set: impl FnOnce(B, T) -> B) -> B {
    match value {
        Some(value) => set(builder, value),
        None => builder,
    }
}

/// An algorithm that refuses its numbers, said in the words of the file.
fn invalid(spec: &Algorithm, range: Range, error: &InvalidLimit) -> Unbuilt {
    let (field, rule, value) = (error.field(), error.rule(), error.value());
    let said = spec.said.iter().find(|(name, _)| name == field);
    let from_outside = match field {
        "min" => range.min.is_some(),
        "initial" => range.initial.is_some(),
        "max" => range.max.is_some(),
        _ => false,
    };
    let place = said.map_or(spec.place, |(_, place)| *place);
    let default = if said.is_some() || from_outside {
        ""
    } else {
        ", the default"
    };
    let message = format!("expected {rule}, found {value}{default}");
    Unbuilt::Invalid(Problem::new(place, message).under_key(field))
}
