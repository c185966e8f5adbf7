//! What came of a request, for limits that learn from it.

use plimsoll::Outcome;

/// What the result of any service says about the load.
pub trait Classify<Response, Error> {
    /// What this result says.
    fn classify(&self, result: Result<&Response, &Error>) -> Outcome;
}

/// A response is a success, an error says nothing.
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
