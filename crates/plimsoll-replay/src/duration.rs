//! Durations as logs write them, in nanoseconds.

use crate::time::{SECOND, digits, nanos_of_fraction};

/// The unit of durations that a log writes without one, for [`Logs::duration_unit`](crate::Logs::duration_unit).
///
/// ```
/// use plimsoll_replay::DurationUnit;
///
/// assert_eq!(DurationUnit::named("ms"), Some(DurationUnit::Millis));
/// assert_eq!(DurationUnit::named("minutes"), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum DurationUnit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Millis,
    /// Microseconds.
    Micros,
    /// Nanoseconds.
    Nanos,
}

impl DurationUnit {
    /// The unit with this abbreviation: `s`, `ms`, `us` or `µs`, `ns`. `None` for any other.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "s" => Self::Seconds,
            "ms" => Self::Millis,
            "us" | "µs" => Self::Micros,
            "ns" => Self::Nanos,
            _ => return None,
        })
    }

    const fn nanos(self) -> i64 {
        match self {
            Self::Seconds => SECOND,
            Self::Millis => 1_000_000,
            Self::Micros => 1_000,
            Self::Nanos => 1,
        }
    }
}

/// Parses a duration as nanoseconds: `0.123`, `12ms`, `1m2.5s`. `unit` is the unit of a number without one. Durations above a day
/// are rejected.
pub(crate) fn duration(text: &[u8], unit: DurationUnit) -> Option<u64> {
    let text = text.trim_ascii();
    let (mut sum, mut left) = (0_i64, text);
    loop {
        let (number, rest) = left.split_at(prefix(left, u8::is_ascii_digit));
        let (fraction, rest) = match rest.strip_prefix(b".") {
            Some(rest) => {
                let (fraction, rest) = rest.split_at(prefix(rest, u8::is_ascii_digit));
                (nanos_of_fraction(fraction)?, rest)
            }
            None => (0, rest),
        };
        let (name, rest) = rest.split_at(prefix(rest, |byte| !byte.is_ascii_digit()));
        let unit = match name {
            // One of several parts must have a unit.
            b"" if left.len() < text.len() => return None,
            b"" => unit.nanos(),
            b"m" => 60 * SECOND,
            b"h" => 3600 * SECOND,
            name => DurationUnit::named(std::str::from_utf8(name).ok()?)?.nanos(),
        };
        let whole = digits(number)?.checked_mul(unit)?;
        // Both factors are small: less than a second, and at most an hour.
        let fraction = i128::from(fraction) * i128::from(unit) / i128::from(SECOND);
        sum = sum
            .checked_add(whole)?
            .checked_add(i64::try_from(fraction).ok()?)?;
        if rest.is_empty() {
            let nanos = u64::try_from(sum).ok()?;
            return (nanos <= 86_400 * 1_000_000_000).then_some(nanos);
        }
        left = rest;
    }
}

/// The number of bytes at the start of which `is` holds.
fn prefix(text: &[u8], is: impl Fn(&u8) -> bool) -> usize {
    text.iter().take_while(|byte| is(byte)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_with_and_without_units() {
        use DurationUnit::{Micros, Millis, Nanos, Seconds};
        for (text, unit, nanos) in [
            ("0.123", Seconds, 123_000_000),
            ("12", Millis, 12_000_000),
            ("12ms", Seconds, 12_000_000),
            ("1.5", Millis, 1_500_000),
            ("7", Micros, 7000),
            ("929675", Nanos, 929_675),
            ("0.000929675", Seconds, 929_675),
            ("250µs", Seconds, 250_000),
            ("1m2.5s", Seconds, 62_500_000_000),
            ("1h0m0.25s", Millis, 3_600_250_000_000),
            ("1h", Seconds, 3_600_000_000_000),
        ] {
            assert_eq!(duration(text.as_bytes(), unit), Some(nanos), "{text}");
        }
        for text in ["-", "", "1m2", "25h", "99999999", "1.2.3", "-1"] {
            assert_eq!(duration(text.as_bytes(), Seconds), None, "{text}");
        }
    }
}
