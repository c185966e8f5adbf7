//! Adaptive algorithms: their fields, their defaults, and the functions that build them.

use plimsoll::adaptive::{Aimd, Gradient2, LatencyGradient, Limit, Vegas, Verdict, Windowed};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::invalid::InvalidSpec;
use crate::path::Step;
use crate::value::{Count, Number, Period, Positive, Span, count, micros, millis, positive};

/// Declares [`Algorithm`]: each variant with its word, the defaults of its bounds (minimum, initial, maximum) and its
/// own parameters. The bounds, and everything else that is common to all, are added here.
macro_rules! algorithms {
    ($(
        $(#[$doc:meta])*
        $name:ident = $word:literal, [$min:literal, $initial:literal, $max:literal] {
            $($(#[$meta:meta])* $field:ident: $type:ty,)*
        }
    )+) => {
        /// The algorithms, each with its own parameters.
        #[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
        #[serde(rename = "algorithm", deny_unknown_fields)]
        #[schemars(rename = "Algorithm", tag = "algorithm")]
        #[non_exhaustive]
        pub enum Algorithm {
            $(
                $(#[$doc])*
                #[serde(rename = $word)]
                $name {
                    #[doc = concat!("The least limit: ", $min, " unless set.")]
                    #[serde(default, skip_serializing_if = "Option::is_none")]
                    min: Option<Positive>,
                    #[doc = concat!("The limit at first: ", $initial, " unless set.")]
                    #[serde(default, skip_serializing_if = "Option::is_none")]
                    initial: Option<Positive>,
                    #[doc = concat!("The most limit: ", $max, " unless set.")]
                    #[serde(default, skip_serializing_if = "Option::is_none")]
                    max: Option<Positive>,
                    $($(#[$meta])* $field: $type,)*
                },
            )+
            /// Aggregates samples in windows for another algorithm.
            #[serde(rename = "windowed")]
            Windowed {
                /// The algorithm behind the windows.
                delegate: Box<Self>,
                /// The minimum limit of that algorithm, unless it sets its own.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                min: Option<Positive>,
                /// The initial limit of that algorithm, unless it sets its own.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                initial: Option<Positive>,
                /// The largest limit of that algorithm, unless it sets its own.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                max: Option<Positive>,
                /// The shortest window.
                #[serde(default = "micros::<1_000_000>")]
                min_window: Span,
                /// The longest window.
                #[serde(default = "micros::<1_000_000>")]
                max_window: Span,
                /// The minimum number of samples in a window. Windows with fewer are discarded.
                #[serde(default = "count::<10>")]
                window_size: Count,
                /// Samples shorter than this are ignored.
                #[serde(default = "micros::<100>")]
                min_rtt: Span,
            },
        }

        impl Algorithm {
            /// Returns the word for this algorithm in files.
            #[must_use]
            pub const fn word(&self) -> &'static str {
                match self {
                    $(Self::$name { .. } => $word,)+
                    Self::Windowed { .. } => "windowed",
                }
            }

            /// Returns the bounds of the limit, for reading and setting: minimum, initial, maximum. For `windowed`
            /// these are the bounds of its delegate.
            #[must_use]
            pub fn bounds(&mut self) -> [&mut Option<Positive>; 3] {
                match self {
                    $(Self::$name { min, initial, max, .. } => [min, initial, max],)+
                    Self::Windowed { delegate, .. } => delegate.bounds(),
                }
            }

            /// The defaults of the bounds; `None` for windows, which have the bounds of their delegate.
            const fn defaults(&self) -> Option<[u64; 3]> {
                match self {
                    $(Self::$name { .. } => Some([$min, $initial, $max]),)+
                    Self::Windowed { .. } => None,
                }
            }
        }
    };
}

algorithms! {
    /// Additive increase for each success, multiplicative decrease for each failure.
    Aimd = "aimd", [20, 20, 200] {
        /// The factor by which a failure multiplies the limit, at least 0.5 and below 1.
        #[serde(default = "nine_tenths")]
        backoff: Number,
        /// The latency from which a request counts as a failure.
        #[serde(default = "millis::<5000>")]
        timeout: Period,
    }
    /// By the length of the server's queue, estimated from latency.
    Vegas = "vegas", [1, 20, 1000] {
        /// The weight of a new sample, at most 1.
        #[serde(default = "one")]
        smoothing: Number,
        /// The factor for the interval at which the latency of an idle server is measured again.
        #[serde(default = "count::<30>")]
        probe_multiplier: Count,
        /// Factors that replace random ones in turn, for tests.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        probe_jitter: Option<Vec<Number>>,
    }
    /// By the ratio of present to long-term latency.
    Gradient2 = "gradient2", [20, 20, 200] {
        /// The weight of a new sample, at most 1.
        #[serde(default = "a_fifth")]
        smoothing: Number,
        /// The number of samples of the long-term average.
        #[serde(default = "count::<600>")]
        long_window: Count,
        /// The number of samples of the initial plain average.
        #[serde(default = "whole::<10>")]
        warmup: u32,
        /// The tolerated ratio of present to long-term latency.
        #[serde(default = "one_and_a_half")]
        tolerance: Number,
        /// The tolerated queue at the server.
        #[serde(default = "amount::<4>")]
        queue_size: u64,
    }
    /// By the ratio of average to minimum latency.
    LatencyGradient = "latency_gradient", [5, 5, 500] {
        /// The tolerated ratio of average to minimum latency.
        #[serde(default = "one_and_a_half")]
        tolerance: Number,
        /// The minimum bound of the queue.
        #[serde(default = "positive::<20>")]
        min_queue: Positive,
        /// The initial bound of the queue.
        #[serde(default = "positive::<20>")]
        initial_queue: Positive,
    }
    /// By the effect of changes of the limit on throughput. The default.
    Verdict = "verdict", [1, 20, 100000] {}
}

impl Algorithm {
    /// Builds the algorithm. Bounds that are not set have the defaults of the algorithm.
    ///
    /// ```
    /// use plimsoll_spec::{Algorithm, Units, document, read_one};
    ///
    /// let root = document("{ algorithm: gradient2, initial: 30, max: 100 }", "an algorithm")?;
    /// let algorithm: Algorithm = read_one(&root, Units::Required)?;
    /// assert_eq!(algorithm.word(), "gradient2");
    /// assert_eq!(algorithm.build().unwrap().limit(), 30);
    /// # Ok::<(), plimsoll_spec::Problem>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error that names the field if the algorithm rejects a value.
    pub fn build(&self) -> Result<Box<dyn Limit>, InvalidSpec> {
        built(&self.filled())
    }

    /// Builds the algorithm with its own type if it is `latency_gradient`, because its traces check state that
    /// [`Limit`] does not expose. `None` for other algorithms.
    #[must_use]
    pub fn latency_gradient(&self) -> Option<Result<LatencyGradient, InvalidSpec>> {
        latency_gradient(&self.filled())
    }

    fn filled(&self) -> Self {
        let mut filled = self.clone();
        filled.fill([None; 3]);
        filled
    }

    /// Fills in the bounds that are not set; `outer` are those of windows around it.
    pub(crate) fn fill(&mut self, outer: [Option<Positive>; 3]) {
        if let Self::Windowed {
            delegate,
            min,
            initial,
            max,
            ..
        } = self
        {
            let own = [min.take(), initial.take(), max.take()];
            let bound = |at: usize| own[at].or(outer[at]);
            return delegate.fill([bound(0), bound(1), bound(2)]);
        }
        let defaults = self.defaults().unwrap_or_default();
        for ((bound, default), outer) in self.bounds().into_iter().zip(defaults).zip(outer) {
            *bound = bound.or(outer).or(Some(Positive(default)));
        }
    }
}

const fn whole<const N: u32>() -> u32 {
    N
}

const fn amount<const N: u64>() -> u64 {
    N
}

const fn nine_tenths() -> Number {
    Number(0.9)
}

const fn one() -> Number {
    Number(1.0)
}

const fn a_fifth() -> Number {
    Number(0.2)
}

const fn one_and_a_half() -> Number {
    Number(1.5)
}

/// Builds an algorithm whose bounds are filled in.
fn built(algorithm: &Algorithm) -> Result<Box<dyn Limit>, InvalidSpec> {
    Ok(match algorithm {
        Algorithm::Aimd {
            min,
            initial,
            max,
            backoff,
            timeout,
        } => {
            let aimd = Aimd::builder().min(bound(*min)).initial(bound(*initial));
            let aimd = aimd.max(bound(*max)).backoff(backoff.0);
            Box::new(aimd.timeout((*timeout).into()).build()?)
        }
        Algorithm::Vegas {
            min,
            initial,
            max,
            smoothing,
            probe_multiplier,
            probe_jitter,
        } => {
            let vegas = Vegas::builder().min(bound(*min)).initial(bound(*initial));
            let vegas = vegas.max(bound(*max)).smoothing(smoothing.0);
            let vegas = vegas.probe_multiplier(probe_multiplier.0);
            let vegas = match probe_jitter {
                Some(jitter) => {
                    vegas.probe_jitter(jitter.iter().map(|it| it.0).collect::<Vec<_>>())
                }
                None => vegas,
            };
            Box::new(vegas.build()?)
        }
        Algorithm::Gradient2 {
            min,
            initial,
            max,
            smoothing,
            long_window,
            warmup,
            tolerance,
            queue_size,
        } => {
            let gradient = Gradient2::builder()
                .min(bound(*min))
                .initial(bound(*initial));
            let gradient = gradient.max(bound(*max)).smoothing(smoothing.0);
            let gradient = gradient.long_window(long_window.0).warmup(*warmup);
            let gradient = gradient.tolerance(tolerance.0).queue_size(*queue_size);
            Box::new(gradient.build()?)
        }
        Algorithm::Windowed {
            delegate,
            min_window,
            max_window,
            window_size,
            min_rtt,
            ..
        } => {
            let delegate = built(delegate);
            let delegate = delegate.map_err(|invalid| invalid.under(Step::Key("delegate")))?;
            let windowed = Windowed::builder(delegate).min_window((*min_window).into());
            let windowed = windowed.max_window((*max_window).into());
            let windowed = windowed.window_size(window_size.0);
            Box::new(windowed.min_rtt((*min_rtt).into()).build()?)
        }
        Algorithm::LatencyGradient { .. } => match latency_gradient(algorithm) {
            Some(gradient) => Box::new(gradient?),
            None => unreachable!("it was matched above"),
        },
        Algorithm::Verdict { min, initial, max } => {
            let verdict = Verdict::builder().min(bound(*min)).initial(bound(*initial));
            Box::new(verdict.max(bound(*max)).build()?)
        }
    })
}

fn latency_gradient(algorithm: &Algorithm) -> Option<Result<LatencyGradient, InvalidSpec>> {
    let Algorithm::LatencyGradient {
        min,
        initial,
        max,
        tolerance,
        min_queue,
        initial_queue,
    } = algorithm
    else {
        return None;
    };
    let gradient = LatencyGradient::builder().min(bound(*min));
    let gradient = gradient.initial(bound(*initial)).max(bound(*max));
    let gradient = gradient.tolerance(tolerance.0).min_queue(min_queue.0);
    let gradient = gradient.initial_queue(initial_queue.0).build();
    Some(gradient.map_err(InvalidSpec::from))
}

/// A bound that has been filled in.
const fn bound(bound: Option<Positive>) -> u64 {
    match bound {
        Some(bound) => bound.0,
        None => 1,
    }
}
