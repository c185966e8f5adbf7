//! Moments as logs write them, in nanoseconds since the epoch.

use std::fmt::Write as _;

/// Nanoseconds of a second.
pub(crate) const SECOND: i64 = 1_000_000_000;

/// A moment that was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stamp {
    pub(crate) nanos: i64,
    /// Whether it is known only to the second.
    pub(crate) rough: bool,
}

/// Days since the epoch of a date, by the algorithm of Howard Hinnant. `None` if there is no such date.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    // Years whose nanoseconds since the epoch fit 64 bits.
    if !(1..=length).contains(&day) || !(1970..=2200).contains(&year) {
        return None;
    }
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

fn clock(hour: i64, minute: i64, second: i64) -> Option<i64> {
    // A leap second repeats the second before it.
    let fits = hour < 24 && minute < 60 && second <= 60;
    fits.then(|| hour * 3600 + minute * 60 + second.min(59))
}

/// Parses a number that consists only of digits.
fn digits(text: &[u8]) -> Option<i64> {
    let digit = |sum: i64, byte: &u8| {
        byte.is_ascii_digit()
            .then(|| sum * 10 + i64::from(byte - b'0'))
    };
    if text.is_empty() || text.len() > 18 {
        return None;
    }
    text.iter().try_fold(0, digit)
}

/// Parses the offset of a zone, in seconds: `+0100`, `+01:00`, `Z`.
fn offset(text: &[u8]) -> Option<i64> {
    let (sign, hours, minutes) = match text {
        [b'Z' | b'z'] => return Some(0),
        [sign, h1, h2, b':', m1, m2] | [sign, h1, h2, m1, m2] => (sign, [*h1, *h2], [*m1, *m2]),
        _ => return None,
    };
    let (hours, minutes) = (digits(&hours)?, digits(&minutes)?);
    let seconds = (hours <= 14 && minutes < 60).then_some(hours * 3600 + minutes * 60)?;
    match sign {
        b'+' => Some(seconds),
        b'-' => Some(-seconds),
        _ => None,
    }
}

const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// Parses `15/Nov/2026:12:00:01 +0000`, the form of common logs; `.250` may follow the seconds.
pub(crate) fn common(text: &[u8]) -> Option<Stamp> {
    let (head, rest) = text.split_at_checked(20)?;
    let [
        d1,
        d2,
        b'/',
        m1,
        m2,
        m3,
        b'/',
        y1,
        y2,
        y3,
        y4,
        b':',
        h1,
        h2,
        b':',
        n1,
        n2,
        b':',
        s1,
        s2,
    ] = *head
    else {
        return None;
    };
    let month = MONTHS.iter().position(|month| **month == [m1, m2, m3])?;
    let day = days(
        digits(&[y1, y2, y3, y4])?,
        i64::try_from(month).ok()? + 1,
        digits(&[d1, d2])?,
    )?;
    let time = clock(digits(&[h1, h2])?, digits(&[n1, n2])?, digits(&[s1, s2])?)?;
    let (fraction, rest) = fraction(rest)?;
    let zone = offset(rest.strip_prefix(b" ")?)?;
    Some(Stamp {
        nanos: (day * 86_400 + time - zone) * SECOND + fraction.unwrap_or(0),
        rough: fraction.is_none(),
    })
}

/// Parses `2026-11-15T12:00:01.25Z` or `2026-11-15 12:00:01+01:00`. Without a zone it is UTC.
pub(crate) fn rfc_3339(text: &[u8]) -> Option<Stamp> {
    let (head, rest) = text.split_at_checked(19)?;
    let [
        y1,
        y2,
        y3,
        y4,
        b'-',
        m1,
        m2,
        b'-',
        d1,
        d2,
        b'T' | b't' | b' ',
        h1,
        h2,
        b':',
        n1,
        n2,
        b':',
        s1,
        s2,
    ] = *head
    else {
        return None;
    };
    let day = days(
        digits(&[y1, y2, y3, y4])?,
        digits(&[m1, m2])?,
        digits(&[d1, d2])?,
    )?;
    let time = clock(digits(&[h1, h2])?, digits(&[n1, n2])?, digits(&[s1, s2])?)?;
    let (fraction, rest) = fraction(rest)?;
    let zone = if rest.is_empty() { 0 } else { offset(rest)? };
    Some(Stamp {
        nanos: (day * 86_400 + time - zone) * SECOND + fraction.unwrap_or(0),
        rough: fraction.is_none(),
    })
}

/// Parses the nanoseconds of `.25…` at the start, if there is a fraction. Returns them and the rest.
fn fraction(text: &[u8]) -> Option<(Option<i64>, &[u8])> {
    let Some(text) = text.strip_prefix(b".").or_else(|| text.strip_prefix(b",")) else {
        return Some((None, text));
    };
    let end = text
        .iter()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(text.len());
    Some((Some(nanos_of_fraction(&text[..end])?), &text[end..]))
}

/// Parses the digits after a point as nanoseconds. Digits after the ninth are ignored.
fn nanos_of_fraction(text: &[u8]) -> Option<i64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let nine = &text[..text.len().min(9)];
    let sum = nine
        .iter()
        .fold(0, |sum, byte| sum * 10 + i64::from(byte - b'0'));
    Some((nine.len()..9).fold(sum, |sum, _| sum * 10))
}

/// Parses seconds since the epoch, with or without a fraction: `1795089601.250`. Longer numbers are milliseconds, microseconds or
/// nanoseconds, by their length.
pub(crate) fn epoch(text: &[u8]) -> Option<Stamp> {
    let point = memchr::memchr(b'.', text).unwrap_or(text.len());
    let whole = digits(&text[..point]).or_else(|| {
        // Nineteen digits are nanoseconds of this century.
        std::str::from_utf8(&text[..point]).ok()?.parse().ok()
    })?;
    let unit = match whole.checked_ilog10().unwrap_or(0) {
        0..=10 => SECOND,
        11..=13 => 1_000_000,
        14..=16 => 1_000,
        _ => 1,
    };
    let rough = unit == SECOND && point == text.len();
    let fraction = match text.get(point + 1..) {
        Some(fraction) => nanos_of_fraction(fraction)? / (SECOND / unit),
        None => 0,
    };
    let nanos = whole.checked_mul(unit)?.checked_add(fraction)?;
    // The same range as that of dates.
    (0..7_300_000_000 * SECOND)
        .contains(&nanos)
        .then_some(Stamp { nanos, rough })
}

/// Parses a moment in any of these formats.
pub(crate) fn any(text: &[u8]) -> Option<Stamp> {
    let text = text.trim_ascii();
    rfc_3339(text)
        .or_else(|| common(text))
        .or_else(|| epoch(text))
}

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

/// Parses a duration as nanoseconds: `0.123`, `12ms`, `1.5`. `unit` is the unit of a number without one. Durations above a day
/// are rejected.
pub(crate) fn duration(text: &[u8], unit: DurationUnit) -> Option<u64> {
    let text = text.trim_ascii();
    let digits_of = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = text.split_at(digits_of(text));
    let (fraction, name) = match rest.split_first() {
        Some((b'.', rest)) => {
            let (fraction, name) = rest.split_at(digits_of(rest));
            (nanos_of_fraction(fraction)?, name)
        }
        _ => (0, rest),
    };
    let unit = match name {
        b"" => unit,
        name => DurationUnit::named(std::str::from_utf8(name).ok()?)?,
    };
    let whole = digits(number)?.checked_mul(unit.nanos())?;
    let fraction = fraction / (SECOND / unit.nanos());
    let nanos = u64::try_from(whole.checked_add(fraction)?).ok()?;
    (nanos <= 86_400 * 1_000_000_000).then_some(nanos)
}

/// The year, month, day, hour, minute and second.
pub(crate) fn civil(nanos: i64) -> [i64; 6] {
    let seconds = nanos.div_euclid(SECOND);
    let (day, time) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = (shifted_month + 2) % 12 + 1;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    [year, month, day, time / 3600, time / 60 % 60, time % 60]
}

/// Formats a moment as `2026-11-15T12:00:01.250Z`.
pub(crate) fn timestamp(nanos: i64) -> String {
    let [year, month, day, hour, minute, second] = civil(nanos);
    let millis = nanos.rem_euclid(SECOND) / 1_000_000;
    let mut text = String::new();
    // Writing to a string never fails.
    let _ = write!(
        text,
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_in_all_spellings_and_zones() {
        let is = 1_794_744_001_250_000_000;
        let whole = Stamp {
            nanos: is - 250_000_000,
            rough: true,
        };
        let exact = Stamp {
            nanos: is,
            rough: false,
        };
        for text in [
            "2026-11-15T12:00:01Z",
            "2026-11-15 13:00:01+01:00",
            "15/Nov/2026:12:00:01 +0000",
            "15/Nov/2026:07:30:01 -0430",
            "1794744001",
        ] {
            assert_eq!(any(text.as_bytes()), Some(whole), "{text}");
        }
        for text in [
            "2026-11-15T12:00:01.25Z",
            "2026-11-15T12:00:01.250000000000+0000",
            "1794744001.25",
            "1794744001250",
            "1794744001250000",
            "1794744001250000000",
            "15/Nov/2026:12:00:01.250 +0000",
        ] {
            assert_eq!(any(text.as_bytes()), Some(exact), "{text}");
        }
        assert_eq!(timestamp(is), "2026-11-15T12:00:01.250Z");
        for text in [
            "",
            "-",
            "31/Feb/2026:12:00:01 +0000",
            "15/Nov/2026:25:00:01 +0000",
            "15/Nov/2026:12:00:01",
            "99999999999999999999",
            "1.2.3",
            "2026-13-01T00:00:00Z",
            "2300-01-01T00:00:00Z",
        ] {
            assert_eq!(any(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn days_and_dates_agree() {
        for day in 0..80_000 {
            let [year, month, date, ..] = civil(day * 86_400 * SECOND);
            assert_eq!(days(year, month, date), Some(day));
        }
    }

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
        ] {
            assert_eq!(duration(text.as_bytes(), unit), Some(nanos), "{text}");
        }
        for text in ["-", "", "1h", "99999999", "1.2.3", "-1"] {
            assert_eq!(duration(text.as_bytes(), Seconds), None, "{text}");
        }
    }
}
