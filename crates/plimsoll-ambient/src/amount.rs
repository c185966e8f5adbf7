use std::fmt;

use plimsoll::InvalidLimit;

/// An amount of memory, in bytes or as a percentage of the total.
///
/// It sets the [hard limit](crate::MemoryLimiter::builder) and the [spike](crate::MemoryLimiterBuilder::spike) of a
/// memory limiter. Percentages are computed with each sample, so they follow a limit of the cgroup that changes. A
/// percentage above 100, and a hard limit of 0, are refused when the limiter is built.
///
/// ```
/// use plimsoll_ambient::Amount;
///
/// assert_eq!(Amount::mib(512), Amount::Bytes(512 * 1024 * 1024));
/// assert_eq!(Amount::Percent(80).to_string(), "80%");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Amount {
    /// A number of bytes.
    Bytes(u64),
    /// A percentage of the total that the source reports. By default that is the limit of the cgroup or, without one,
    /// the memory of the machine. A source without a total cannot be used with percentages.
    Percent(u8),
}

impl Amount {
    /// Creates an amount of `mib` × 1024 × 1024 bytes.
    #[must_use]
    pub const fn mib(mib: u64) -> Self {
        Self::Bytes(mib.saturating_mul(1 << 20))
    }

    /// In bytes, of a `total` that need only be known for percentages.
    pub(crate) fn of(self, total: Option<u64>) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Percent(percent) => {
                let part = u128::from(total?) * u128::from(percent) / 100;
                Some(u64::try_from(part).unwrap_or(u64::MAX))
            }
        }
    }

    /// Checks what can be checked without knowing the total.
    pub(crate) fn check(self, option: &'static str, least: u8) -> Result<(), InvalidLimit> {
        let rule = match self {
            Self::Bytes(bytes) if bytes < u64::from(least) => "at least 1 byte",
            Self::Percent(percent) if percent > 100 || percent < least => {
                if least == 0 {
                    "at most 100%"
                } else {
                    "1% to 100%"
                }
            }
            _ => return Ok(()),
        };
        Err(InvalidLimit::new(option, self, rule))
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{bytes} bytes"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}
