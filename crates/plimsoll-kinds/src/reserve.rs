use plimsoll::Denied;
use plimsoll::together::Reserved;

use crate::demands::Demands;
use crate::provider::Provider;

impl Provider {
    /// Reserves for all weights, to be used later, or for none.
    ///
    /// Basic limiters are checked for saturation. The others are not: a limiter that is used up can still reserve for
    /// later. See [`Limiter::reserve`](plimsoll::Limiter::reserve) for the reservations of each limiter.
    ///
    /// ```
    /// use plimsoll::{Gate, ManualClock, TokenBucket};
    /// use plimsoll_kinds::{Provider, Weight};
    /// use std::time::Duration;
    ///
    /// let time = ManualClock::new();
    /// let gate = Gate::builder(TokenBucket::per_second(10)).clock(time.clock()).build();
    /// let provider = Provider::builder().limit(Weight::REQUEST_ITEMS, gate).build()?;
    ///
    /// let now = provider.reserve(&[(Weight::REQUEST_ITEMS, 10)])?;
    /// let later = provider.reserve(&[(Weight::REQUEST_ITEMS, 5)])?;
    /// assert!(now.is_ready());
    /// assert_eq!(later.wait(), Some(Duration::from_millis(500)));
    /// drop(later); // cancelled, and refunded
    /// assert_eq!(provider.reserve(&[(Weight::REQUEST_ITEMS, 1)])?.wait(), Some(Duration::from_millis(100)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if a limiter refuses, or its wait would be longer than the demand allows.
    pub fn reserve<'d>(&self, demands: impl Into<Demands<'d>>) -> Result<Reserved<'_>, Denied> {
        let demands = demands.into();
        self.check_basics()?;
        self.request(&demands).reserve()
    }
}
