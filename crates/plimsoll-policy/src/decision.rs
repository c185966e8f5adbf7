use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::{Denied, Reason};

/// The longest hint: what a signed 32-bit number of milliseconds holds, some 25 days.
pub(super) const LONGEST_MS: u32 = i32::MAX.unsigned_abs();

/// The hint where nobody can know better.
const UNKNOWN_MS: u32 = 1000;

/// Whether a packet may be handled; if not, why, and when to ask again.
///
/// | case | reason | retry after | credit |
/// |---|---|---|---|
/// | no policy, and no [fallback](super::PoliciesBuilder::fallback) | none | 0 | 65535 |
/// | declared without limit | none | 0 | 65535 |
/// | declared with no burst | [`LockedOut`](Reason::LockedOut) | 2147483647 ms | 0 |
/// | the address is not known | [`SoftThrottle`](Reason::SoftThrottle) | 1000 ms | 0 |
/// | no room for another subject, lockouts on | [`LockedOut`](Reason::LockedOut) | the lockout | 0 |
/// | no room for another subject, lockouts off | [`SoftThrottle`](Reason::SoftThrottle) | 1000 ms | 0 |
/// | within the limit | none | 0 | what is left |
/// | over the limit | [`SoftThrottle`](Reason::SoftThrottle) | until the next token | what is left |
/// | over the limit too often | [`LockedOut`](Reason::LockedOut) | until the lockout ends | what is left |
///
/// Milliseconds are rounded up: who comes back then, and alone, is admitted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[must_use = "a decision that nobody looks at limits nothing"]
pub struct Decision {
    reason: Option<Reason>,
    retry_after_ms: u32,
    credit: u16,
}

impl Decision {
    /// Not limited at all.
    pub(super) const UNLIMITED: Self = Self {
        reason: None,
        retry_after_ms: 0,
        credit: u16::MAX,
    };
    /// Refused, today and tomorrow.
    pub(super) const NEVER: Self = Self {
        reason: Some(Reason::LockedOut),
        retry_after_ms: LONGEST_MS,
        credit: 0,
    };
    /// Refused because it cannot be told who asks.
    pub(super) const NOT_NOW: Self = Self {
        reason: Some(Reason::SoftThrottle),
        retry_after_ms: UNKNOWN_MS,
        credit: 0,
    };

    /// Admitted; so much is left.
    pub(super) fn allowed(left: u64) -> Self {
        Self {
            reason: None,
            retry_after_ms: 0,
            credit: u16::try_from(left).unwrap_or(u16::MAX),
        }
    }

    /// Refused by the limit of a subject.
    pub(super) fn refused(denied: &Denied, lockout: Duration) -> Self {
        match denied.reason() {
            reason @ (Reason::SoftThrottle | Reason::LockedOut) => Self {
                reason: Some(reason),
                retry_after_ms: denied.retry_after().map_or(LONGEST_MS, whole_millis),
                credit: u16::try_from(denied.remaining()).unwrap_or(u16::MAX),
            },
            // There is no room for its state.
            _ if lockout.is_zero() => Self::NOT_NOW,
            _ => Self {
                reason: Some(Reason::LockedOut),
                retry_after_ms: whole_millis(lockout),
                credit: 0,
            },
        }
    }

    /// Whether the packet may be handled.
    #[must_use]
    pub const fn is_allowed(self) -> bool {
        self.reason.is_none()
    }

    /// Why not: [`Reason::SoftThrottle`] or [`Reason::LockedOut`]; none if it may.
    #[must_use]
    pub const fn reason(self) -> Option<Reason> {
        self.reason
    }

    /// After how many milliseconds it is worth asking again; 0 if it was admitted.
    #[must_use]
    pub const fn retry_after_ms(self) -> u32 {
        self.retry_after_ms
    }

    /// How many more would be admitted at once.
    #[must_use]
    pub const fn credit(self) -> u16 {
        self.credit
    }
}

/// In milliseconds, rounded up.
pub(super) fn whole_millis(span: Duration) -> u32 {
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

/// The policies were [closed](super::Policies::close): there is nobody left to decide.
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
