use std::time::Duration;

use super::{Bandwidths, FixedWindow, SlidingCounter, SlidingLog, SlidingWindow, TokenBucket};
use crate::{Concurrency, InvalidLimit, Quota, Rule};

/// A rule that can be divided among processes, so that each enforces a share of the limit by itself.
///
/// With `n` processes, a share of 1/n each adds up to the whole limit if the load is spread evenly. A share of less
/// than one unit becomes one unit in a longer period: a quarter of two in a minute is one in two minutes.
///
/// ```
/// use plimsoll::rate::Share;
/// use plimsoll::{FixedWindow, Quota};
/// use std::time::Duration;
///
/// let part = FixedWindow::new(Quota::per_minute(100)).share(0.25)?;
/// assert_eq!(part.quota(), Quota::per_minute(25));
///
/// let part = FixedWindow::new(Quota::per_minute(2)).share(0.25)?;
/// assert_eq!(part.quota(), Quota::new(1, Duration::from_secs(120)));
/// # Ok::<(), plimsoll::InvalidLimit>(())
/// ```
pub trait Share: Rule + Sized {
    /// Returns the rule with this share of the limit of `self`. The units become fewer, rounded down, in the same
    /// period; if less than one would be left, one unit gets a longer period.
    ///
    /// ```
    /// use plimsoll::rate::Share;
    /// use plimsoll::{Concurrency, Rule, TokenBucket};
    ///
    /// let part = TokenBucket::per_second(100).burst(50).share(0.1)?;
    /// assert_eq!((part.limit(), part.refill()), (5, TokenBucket::per_second(10).refill()));
    /// assert_eq!(Concurrency::new(3).share(0.1)?.limit(), 1, "at least one");
    /// assert!(TokenBucket::per_second(1).share(1.5).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if `share` is not above 0 and at most 1, or one unit would take longer than the longest period
    /// of a [`Quota`].
    fn share(&self, share: f64) -> Result<Self, InvalidLimit>;
}

impl Share for FixedWindow {
    fn share(&self, share: f64) -> Result<Self, InvalidLimit> {
        let part = Self::new(part_of(self.quota(), share)?);
        Ok(if self.is_aligned_to_epoch() {
            part.aligned_to_epoch()
        } else {
            part
        })
    }
}

impl Share for SlidingWindow {
    fn share(&self, share: f64) -> Result<Self, InvalidLimit> {
        Self::try_new(part_of(self.quota(), share)?, self.segments())
    }
}

impl Share for SlidingCounter {
    fn share(&self, share: f64) -> Result<Self, InvalidLimit> {
        part_of(self.quota(), share).map(Self::new)
    }
}

/// The gap stays as it is.
impl Share for SlidingLog {
    fn share(&self, share: f64) -> Result<Self, InvalidLimit> {
        let part = Self::new(part_of(self.quota(), share)?).try_min_gap(self.gap())?;
        Ok(if self.counts_refusals() {
            part.counting_refusals()
        } else {
            part
        })
    }
}

impl Share for TokenBucket {
    fn share(&self, share: f64) -> Result<Self, InvalidLimit> {
        check(share)?;
        let refill = self.refill();
        let part = if self.is_greedy() {
            // Exactly the share: the same, in more time.
            let period = longer(refill.period(), share);
            Self::greedy(Quota::try_new(refill.units(), period)?)
        } else {
            Self::interval(part_of(refill, share)?)
        };
        part.try_burst(whole_part(self.limit(), share).max(1))?
            .try_initial(whole_part(self.initial_tokens(), share))
    }
}

impl Share for Bandwidths {
    fn share(&self, share: f64) -> Result<Self, InvalidLimit> {
        self.try_map(|bucket| bucket.share(share))
    }
}

/// At least 1.
impl Share for Concurrency {
    fn share(&self, share: f64) -> Result<Self, InvalidLimit> {
        check(share)?;
        Self::try_new(whole_part(self.limit(), share).max(1))
    }
}

fn check(share: f64) -> Result<(), InvalidLimit> {
    if share > 0.0 && share <= 1.0 {
        return Ok(());
    }
    Err(InvalidLimit::new("share", share, "above 0 and at most 1"))
}

/// The whole units of the share; if it is less than one, one unit in a longer period.
fn part_of(quota: Quota, share: f64) -> Result<Quota, InvalidLimit> {
    check(share)?;
    match whole_part(quota.units(), share) {
        0 => Quota::try_new(1, longer(quota.period(), quota.units() as f64 * share)),
        units => Quota::try_new(units, quota.period()),
    }
}

fn longer(period: Duration, share: f64) -> Duration {
    Duration::try_from_secs_f64(period.as_secs_f64() / share).unwrap_or(Duration::MAX)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a number is between 0 and the number"
)]
fn whole_part(number: u64, share: f64) -> u64 {
    ((number as f64 * share) as u64).min(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_less_than_one_takes_more_time_instead() {
        let bucket = TokenBucket::per_second(10).share(0.25).expect("a share");
        let refill = Quota::new(1, Duration::from_millis(400));
        assert_eq!(
            (bucket.refill(), bucket.limit()),
            (refill, 2),
            "2.5 a second"
        );
        let log = SlidingLog::new(Quota::per_minute(2)).counting_refusals();
        let log = log.min_gap(Duration::from_secs(3)).share(0.25);
        let log = log.expect("a share");
        assert_eq!(log.quota(), Quota::new(1, Duration::from_secs(120)));
        assert_eq!(
            (log.gap(), log.counts_refusals()),
            (Duration::from_secs(3), true)
        );
    }

    #[test]
    fn a_share_keeps_the_ids_of_bandwidths() {
        let both = [Some("a"), None].map(|id| (id, TokenBucket::per_second(8)));
        let both = Bandwidths::try_named(both).expect("two buckets");
        let half = both.share(0.5).expect("a share");
        assert_eq!(half.limit(), 4);
        assert_eq!(format!("{half:?}").matches("Some(\"a\")").count(), 1);
    }

    #[test]
    fn only_a_share_is_a_share() {
        for share in [0.0, -1.0, 1.1, f64::NAN, f64::INFINITY] {
            let invalid = Concurrency::new(2).share(share).expect_err("no share");
            assert_eq!(invalid.field(), "share");
            assert!(TokenBucket::per_second(1).share(share).is_err());
        }
        let long = FixedWindow::new(Quota::new(1, Duration::from_secs(1 << 32)));
        assert!(long.share(1e-9).is_err());
    }
}
