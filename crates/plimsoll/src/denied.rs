use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::Moment;
use crate::metadata::{Metadata, MetadataValue};
use crate::name::Name;
use crate::reason::Reason;
use crate::rule::Refusal;

/// A refusal: the reason, the time after which the demand would be granted, and the numbers of the limit.
///
/// It is the error of all limiters. It owns no heap memory, so creating and dropping it is cheap.
///
/// ```
/// use plimsoll::{Gate, ManualClock, Reason, TokenBucket};
/// use std::time::Duration;
///
/// let time = ManualClock::new();
/// let gate = Gate::builder(TokenBucket::per_second(2)).clock(time.clock()).name("api").build();
/// gate.try_acquire(2)?;
///
/// let denied = gate.try_acquire(1).unwrap_err();
/// assert_eq!(denied.reason(), Reason::Exhausted);
/// assert_eq!(denied.retry_after(), Some(Duration::from_millis(500)));
/// assert_eq!(denied.to_string(), "api: the limit is used up, retry after 500ms");
///
/// time.advance(denied.retry_after().unwrap());
/// assert!(gate.try_acquire(1).is_ok());
/// # Ok::<(), plimsoll::Denied>(())
/// ```
#[derive(Clone, Debug)]
pub struct Denied {
    reason: Reason,
    limit: u64,
    remaining: u64,
    /// Moments, not durations: most refusals are never read, and the durations are computed when a getter is called. If
    /// neither moment is known, `at` is not read.
    at: Moment,
    ready_at: Moment,
    full_at: Moment,
    limiter: Option<Name>,
}

impl Denied {
    /// Creates a refusal with only a reason, for authors of limiters. The `with_` methods add the rest:
    ///
    /// ```
    /// use plimsoll::{Denied, Moment, Reason};
    /// use std::time::Duration;
    ///
    /// let now = Moment::from_nanos(5);
    /// let denied = Denied::new(Reason::Exhausted)
    ///     .with_limit(10, 0)
    ///     .with_ready_at(now, Some(now.plus(Duration::from_secs(1))))
    ///     .with_limiter("disk");
    /// assert_eq!(denied.to_string(), "disk: the limit is used up, retry after 1s");
    /// ```
    #[must_use]
    pub fn new(reason: Reason) -> Self {
        Self {
            reason,
            limit: 0,
            remaining: 0,
            at: Moment::ORIGIN,
            ready_at: Moment::NEVER,
            full_at: Moment::NEVER,
            limiter: None,
        }
    }

    /// The refusal of a gate. All fields at once, because this is on the fast path.
    #[inline(always)]
    pub(crate) fn from_rule(
        refusal: Refusal,
        now: Moment,
        (limit, remaining): (u64, u64),
        limiter: Option<Name>,
    ) -> Self {
        Self {
            reason: refusal.reason,
            limit,
            remaining,
            at: now,
            ready_at: refusal.ready_at,
            full_at: refusal.full_at,
            limiter,
        }
    }

    /// Sets the limit and how much of it remains.
    ///
    /// A limiter that does not know them omits this call: both are then 0, and [`percent_used`](Self::percent_used) is
    /// 100.
    #[must_use]
    pub fn with_limit(mut self, limit: u64, remaining: u64) -> Self {
        self.limit = limit;
        self.remaining = remaining;
        self
    }

    /// Sets the moment at which the same demand would be granted, seen from `now`.
    #[must_use]
    pub fn with_ready_at(mut self, now: Moment, ready_at: Option<Moment>) -> Self {
        self.at = now;
        self.ready_at = ready_at.unwrap_or(Moment::NEVER);
        self
    }

    /// Sets the moment at which the whole limit is available again, seen from `now`.
    #[must_use]
    pub fn with_reset_at(mut self, now: Moment, reset_at: Option<Moment>) -> Self {
        self.at = now;
        self.full_at = reset_at.unwrap_or(Moment::NEVER);
        self
    }

    /// Sets the name of the limiter.
    ///
    /// Each distinct name is interned for the life of the process, so that a refusal need not own it. Pass names of
    /// limiters, never names of callers: their memory is not freed.
    #[must_use]
    pub fn with_limiter(mut self, name: &str) -> Self {
        self.limiter = Name::of(Some(name), self.metadata());
        self
    }

    pub(crate) fn with_name(mut self, name: Option<Name>) -> Self {
        self.limiter = name;
        self
    }

    /// Sets the metadata. Like a name, it is stored once for the life of the process: see [`Metadata`].
    #[must_use]
    pub fn with_metadata(mut self, metadata: &Metadata) -> Self {
        self.limiter = Name::of(self.limiter(), Some(metadata));
        self
    }

    /// The moment at which the same demand would be granted; [`Moment::NEVER`] if that is not known.
    pub(crate) fn ready_at(&self) -> Moment {
        self.ready_at
    }

    pub(crate) fn with_retry_after(mut self, retry_after: Option<Duration>) -> Self {
        self.ready_at = retry_after.map_or(Moment::NEVER, |span| self.at.plus(span));
        self
    }

    /// Returns the reason of the refusal.
    #[must_use]
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// Returns the shortest time after which the same demand would be granted if no other demand arrives before it.
    ///
    /// It is exact: the demand is granted after this time, and refused one nanosecond earlier. Demands that already
    /// wait in a fifo queue are taken into account. It is `None` where the time cannot be known: if permits have to be
    /// returned first, if the cost is above the limit, and behind waiters in a lifo queue.
    ///
    /// Readings of [`Clock::system`](crate::Clock::system) may be late; on that clock the time may be too long by the
    /// lateness of the reading, and is never too short.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.ready_at
            .is_known()
            .then(|| self.ready_at.since(self.at))
    }

    /// Returns the limit: the most that can be granted at once.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the remainder of the limit when the demand was refused.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Returns the time after which the whole limit is available again if no other demand is granted.
    #[must_use]
    pub fn reset(&self) -> Option<Duration> {
        self.full_at.is_known().then(|| self.full_at.since(self.at))
    }

    /// Returns the part of the limit that is in use, in percent: 100 if the limit is not known.
    ///
    /// ```
    /// use plimsoll::{Concurrency, Gate};
    ///
    /// let gate = Gate::new(Concurrency::new(4));
    /// let _permit = gate.try_acquire(3)?;
    /// assert_eq!(gate.try_acquire(2).unwrap_err().percent_used(), 75.0);
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    #[must_use]
    pub fn percent_used(&self) -> f64 {
        if self.limit == 0 {
            return 100.0;
        }
        100.0 * (self.limit - self.remaining.min(self.limit)) as f64 / self.limit as f64
    }

    /// Returns the name of the limiter that refused, if it has one.
    #[must_use]
    pub fn limiter(&self) -> Option<&str> {
        self.limiter.and_then(Name::as_str)
    }

    /// Returns the metadata of the limiter that refused, if it has any.
    #[must_use]
    pub fn metadata(&self) -> Option<&'static Metadata> {
        self.limiter.and_then(Name::metadata)
    }

    /// Returns a message for users: the phrase of the limiter, or else that of the [reason](Reason::phrase).
    #[must_use]
    pub fn phrase(&self) -> &'static str {
        match self.metadata().and_then(Metadata::own_phrase) {
            Some(phrase) => phrase,
            None => self.reason.phrase(),
        }
    }

    /// Returns the value with this name: [`Metadata::RETRY_AFTER`], [`Metadata::REASON_PHRASE`], [`Metadata::CODE`], or
    /// a pair of the limiter's metadata.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<MetadataValue<'static>> {
        match name {
            Metadata::RETRY_AFTER => self.retry_after().map(MetadataValue::Time),
            Metadata::REASON_PHRASE => Some(MetadataValue::Text(self.phrase())),
            _ => self.metadata()?.get(name),
        }
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.limiter() {
            write!(f, "{name}: ")?;
        }
        f.write_str(self.phrase())?;
        if let Some(after) = self.retry_after() {
            write!(f, ", retry after {after:?}")?;
        }
        Ok(())
    }
}

/// Two refusals are equal if their getters return the same.
impl PartialEq for Denied {
    fn eq(&self, other: &Self) -> bool {
        let fields = |denied: &Self| {
            (
                denied.reason,
                denied.limit,
                denied.remaining,
                denied.limiter,
            )
        };
        fields(self) == fields(other)
            && (self.retry_after(), self.reset()) == (other.retry_after(), other.reset())
    }
}

impl Eq for Denied {}

impl Error for Denied {}

/// Serializes the values of the getters. There is no `Deserialize`: a refusal holds its limiter by a name that lives as
/// long as the process, so names from outside would never be freed.
#[cfg(feature = "serde")]
impl serde::Serialize for Denied {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;

        let metadata = self.metadata();
        let length = 6 + usize::from(metadata.is_some());
        let mut fields = serializer.serialize_struct("Denied", length)?;
        fields.serialize_field("reason", &self.reason)?;
        fields.serialize_field("limit", &self.limit)?;
        fields.serialize_field("remaining", &self.remaining)?;
        fields.serialize_field("retry_after", &self.retry_after())?;
        fields.serialize_field("reset", &self.reset())?;
        fields.serialize_field("limiter", &self.limiter())?;
        if let Some(metadata) = metadata {
            fields.serialize_field("metadata", metadata)?;
        }
        fields.end()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::mem::{align_of_val, size_of, size_of_val};

    use super::{Denied, Reason};

    /// Regression test: padding bytes were copied one by one with every refusal, and waited for adjacent writes.
    #[test]
    fn a_refusal_has_no_free_bytes() {
        let denied = Denied::new(Reason::Exhausted);
        let Denied {
            reason,
            limit,
            remaining,
            at,
            ready_at,
            full_at,
            limiter,
        } = &denied;
        let numbers = size_of_val(limit) + size_of_val(remaining);
        let moments = size_of_val(at) + size_of_val(ready_at) + size_of_val(full_at);
        let used = size_of_val(reason) + numbers + moments + size_of_val(limiter);
        assert_eq!(used, size_of::<Denied>(), "align {}", align_of_val(&denied));
    }
}
