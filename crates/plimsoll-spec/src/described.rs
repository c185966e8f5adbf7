//! Adaptive algorithms with their descriptions, so that they can be cloned.

use std::time::Duration;

use plimsoll::adaptive::{Adaptive, Insight, Limit, Load, Sample};

use crate::algorithm::Algorithm;
use crate::invalid::InvalidSpec;

/// An adaptive algorithm with the description that it was built from.
///
/// A clone is built again from the description: it has learned nothing, and learns independently. So every adaptive
/// limit of a file can have a state for each key.
///
/// ```
/// use plimsoll::adaptive::Limit;
/// use plimsoll_spec::{Algorithm, DescribedLimit, Units, document, read_one};
///
/// let root = document("{ algorithm: aimd, min: 1, initial: 10 }", "an algorithm")?;
/// let algorithm: Algorithm = read_one(&root, Units::Required)?;
/// let limit = DescribedLimit::new(&algorithm).unwrap();
/// assert_eq!(limit.clone().limit(), 10);
/// # Ok::<(), plimsoll_spec::Problem>(())
/// ```
#[derive(Debug)]
pub struct DescribedLimit {
    description: Algorithm,
    limit: Box<dyn Limit>,
}

/// The rule of a concurrency limit that an adaptive algorithm finds.
pub type AdaptiveRule = Adaptive<DescribedLimit>;

impl DescribedLimit {
    /// Builds an algorithm.
    ///
    /// # Errors
    ///
    /// Returns an error if the algorithm rejects a parameter.
    pub fn new(description: &Algorithm) -> Result<Self, InvalidSpec> {
        Ok(Self {
            limit: description.build()?,
            description: description.clone(),
        })
    }
}

impl Clone for DescribedLimit {
    fn clone(&self) -> Self {
        match Self::new(&self.description) {
            Ok(another) => another,
            Err(_) => unreachable!("it was built from this description before"),
        }
    }
}

impl Limit for DescribedLimit {
    fn limit(&self) -> u64 {
        self.limit.limit()
    }

    fn sample(&mut self, sample: &Sample) {
        self.limit.sample(sample);
    }

    fn tick_every(&self) -> Option<Duration> {
        self.limit.tick_every()
    }

    fn tick(&mut self, load: Load) {
        self.limit.tick(load);
    }

    fn queue_bound(&self) -> Option<u64> {
        self.limit.queue_bound()
    }

    fn insight(&self) -> Insight {
        self.limit.insight()
    }
}
