//! Classification of the results of calls, for adaptive limits.

use plimsoll::Outcome;

/// Classifies the result of a call for adaptive limits. Implemented by closures:
///
/// ```
/// use plimsoll::Outcome;
/// use plimsoll_tower::classify::Classify;
///
/// let overloaded = |result: Result<&u16, &std::io::Error>| match result {
///     Ok(503) => Outcome::Overload,
///     Ok(_) => Outcome::Success,
///     Err(_) => Outcome::Ignore,
/// };
/// assert_eq!(overloaded.classify(Ok(&503)), Outcome::Overload);
/// ```
pub trait Classify<Response, Error> {
    /// Returns the outcome of a call with this result.
    fn classify(&self, result: Result<&Response, &Error>) -> Outcome;
}

/// The default classification: a response is a [success](Outcome::Success), an error is [ignored](Outcome::Ignore).
#[derive(Clone, Copy, Default, Debug)]
pub struct ByResult;

impl<Response, Error> Classify<Response, Error> for ByResult {
    #[inline]
    fn classify(&self, result: Result<&Response, &Error>) -> Outcome {
        match result {
            Ok(_) => Outcome::Success,
            Err(_) => Outcome::Ignore,
        }
    }
}

impl<Response, Error, F> Classify<Response, Error> for F
where
    F: Fn(Result<&Response, &Error>) -> Outcome,
{
    #[inline]
    fn classify(&self, result: Result<&Response, &Error>) -> Outcome {
        self(result)
    }
}
