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
pub(crate) fn digits(text: &[u8]) -> Option<i64> {
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

/// Parses `2026-11-15T12:00:01.25Z`, `2026-11-15 12:00:01 +0100` or `2026/11/15 12:00:01`. Without a zone it is UTC.
pub(crate) fn rfc_3339(text: &[u8]) -> Option<Stamp> {
    let (head, rest) = text.split_at_checked(19)?;
    let [
        y1,
        y2,
        y3,
        y4,
        b'-' | b'/',
        m1,
        m2,
        b'-' | b'/',
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
    let zone = match rest.strip_prefix(b" ").unwrap_or(rest) {
        b"" => 0,
        zone => offset(zone)?,
    };
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
pub(crate) fn nanos_of_fraction(text: &[u8]) -> Option<i64> {
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
}
