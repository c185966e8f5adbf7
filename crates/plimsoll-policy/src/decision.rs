use std::error::Error;
use std::fmt;
use std::time::Duration;

use plimsoll::{Denied, Reason};

/// The longest retry time: a signed 32-bit number of milliseconds, about 25 days.
pub(crate) const LONGEST_MS: u32 = i32::MAX.unsigned_abs();

/// The retry time if the time until there is room is unknown.
const UNKNOWN_MS: u32 = 1000;

/// The decision on a packet: whether it may be handled and, if not, the reason and when to retry.
///
/// ```
/// use plimsoll::{ManualClock, Reason};
/// use plimsoll_policy::{Policies, Policy};
/// use std::net::Ipv4Addr;
///
/// let policies = Policies::builder()
///     .handler(1_u32, Policy::per_second(2.0))
///     .clock(ManualClock::new().clock())
///     .build()?;
/// assert!(policies.evaluate(1_u32, Ipv4Addr::LOCALHOST)?.is_allowed());
///
/// let decision = policies.evaluate(1_u32, Ipv4Addr::LOCALHOST)?;
/// assert_eq!(decision.reason(), Some(Reason::SoftThrottle));
/// assert_eq!((decision.retry_after_ms(), decision.credit()), (500, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// | case | reason | retry after | credit |
/// |---|---|---|---|
/// | no policy and no [fallback](crate::PoliciesBuilder::fallback) | none | 0 | 65535 |
/// | declared without limit | none | 0 | 65535 |
/// | declared with a burst of 0 | [`LockedOut`](Reason::LockedOut) | 2147483647 ms | 0 |
/// | the address is not known | [`SoftThrottle`](Reason::SoftThrottle) | 1000 ms | 0 |
/// | no room for another subject, lockouts on | [`LockedOut`](Reason::LockedOut) | the lockout | 0 |
/// | no room for another subject, lockouts off | [`SoftThrottle`](Reason::SoftThrottle) | 1000 ms | 0 |
/// | within the limit | none | 0 | the tokens left |
/// | over the limit | [`SoftThrottle`](Reason::SoftThrottle) | until the next token | the tokens left |
/// | over the limit too often | [`LockedOut`](Reason::LockedOut) | until the lockout ends | the tokens left |
///
/// Milliseconds are rounded up: a subject that asks again after that time, and has not asked meanwhile, is admitted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[must_use = "a decision that is ignored limits nothing"]
pub struct Decision {
    reason: Option<Reason>,
    retry_after_ms: u32,
    credit: u16,
}

impl Decision {
    /// Not limited at all.
    pub(crate) const UNLIMITED: Self = Self {
        reason: None,
        retry_after_ms: 0,
        credit: u16::MAX,
    };
    /// Refused for good.
    pub(crate) const ALWAYS_REFUSED: Self = Self {
        reason: Some(Reason::LockedOut),
        retry_after_ms: LONGEST_MS,
        credit: 0,
    };
    /// Refused for an unknown time.
    pub(crate) const THROTTLED: Self = Self {
        reason: Some(Reason::SoftThrottle),
        retry_after_ms: UNKNOWN_MS,
        credit: 0,
    };

    /// Admitted, with `left` tokens left.
    pub(crate) fn allowed(left: u64) -> Self {
        Self {
            reason: None,
            retry_after_ms: 0,
            credit: u16::try_from(left).unwrap_or(u16::MAX),
        }
    }

    /// Refused by the bucket of a subject, or for lack of room for its state.
    pub(crate) fn refused(denied: &Denied, lockout: Duration) -> Self {
        match denied.reason() {
            reason @ (Reason::SoftThrottle | Reason::LockedOut) => Self {
                reason: Some(reason),
                retry_after_ms: denied.retry_after().map_or(LONGEST_MS, whole_millis),
                credit: u16::try_from(denied.remaining()).unwrap_or(u16::MAX),
            },
            // No room for its state.
            _ if lockout.is_zero() => Self::THROTTLED,
            _ => Self {
                reason: Some(Reason::LockedOut),
                retry_after_ms: whole_millis(lockout),
                credit: 0,
            },
        }
    }

    /// Returns whether the packet may be handled.
    #[must_use]
    pub const fn is_allowed(self) -> bool {
        self.reason.is_none()
    }

    /// Returns the reason of a refusal: [`Reason::SoftThrottle`] or [`Reason::LockedOut`]. `None` if the packet is
    /// allowed.
    #[must_use]
    pub const fn reason(self) -> Option<Reason> {
        self.reason
    }

    /// Returns the milliseconds after which to try again. 0 if the packet is allowed.
    #[must_use]
    pub const fn retry_after_ms(self) -> u32 {
        self.retry_after_ms
    }

    /// Returns the number of further packets that would be admitted now, at most 65535.
    #[must_use]
    pub const fn credit(self) -> u16 {
        self.credit
    }
}

/// In milliseconds, rounded up.
pub(crate) fn whole_millis(span: Duration) -> u32 {
    let millis = span.as_nanos().div_ceil(1_000_000);
    u32::try_from(millis).map_or(LONGEST_MS, |millis| millis.min(LONGEST_MS))
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason {
            None => write!(f, "allowed, {} left", self.credit),
            Some(reason) => {
                let phrase = reason.phrase();
                write!(f, "{phrase}, retry after {} ms", self.retry_after_ms)
            }
        }
    }
}

/// The error of an evaluation after [`Policies::close`](crate::Policies::close).
///
/// ```
/// use plimsoll_policy::{Closed, Policies};
///
/// let policies = Policies::builder().build()?;
/// policies.close();
/// assert_eq!(policies.evaluate(1_u32, std::net::Ipv4Addr::LOCALHOST), Err(Closed));
/// # Ok::<(), plimsoll::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Closed;

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the policies are closed")
    }
}

impl Error for Closed {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_are_rounded_up_and_fit_a_signed_number() {
        let cases = [
            (0, 0),
            (1, 1),
            (1_000_000, 1),
            (1_000_001, 2),
            (u64::MAX, LONGEST_MS),
        ];
        for (nanos, expected) in cases {
            assert_eq!(whole_millis(Duration::from_nanos(nanos)), expected);
        }
        assert_eq!(LONGEST_MS, 2_147_483_647);
    }
}
