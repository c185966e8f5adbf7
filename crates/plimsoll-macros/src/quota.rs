//! Parses rates: `100/s`, `5000/hour`, `100k/min`, `5/10min`.

use syn::{Error, LitStr, Result};

/// An amount in a number of nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Quota {
    pub(crate) units: u64,
    pub(crate) nanos: u64,
}

const SECOND: u64 = 1_000_000_000;

/// Units of time by their names.
const TIMES: [(&[&str], u64); 5] = [
    (&["ms"], SECOND / 1000),
    (&["s", "sec", "second"], SECOND),
    (&["m", "min", "minute"], 60 * SECOND),
    (&["h", "hour"], 3600 * SECOND),
    (&["d", "day"], 86_400 * SECOND),
];

impl Quota {
    pub(crate) fn parse(word: &str, text: &LitStr) -> Result<Self> {
        read(&text.value()).ok_or_else(|| {
            let message = format!(
                "`{word}`: expected at least 1 in some time, such as \"100/s\", \"5000/hour\", \"100k/min\" or \"5/10min\""
            );
            Error::new(text.span(), message)
        })
    }
}

fn read(text: &str) -> Option<Quota> {
    let (units, time) = text.split_once('/')?;
    let (units, thousands) = number(units.trim())?;
    let factor = match thousands {
        "" => 1,
        "k" => 1000,
        "M" => 1_000_000,
        _ => return None,
    };
    let time = time.trim();
    let (times, unit) = match time.starts_with(|first: char| first.is_ascii_digit()) {
        true => number(time)?,
        false => (1, time),
    };
    let nanos = TIMES
        .iter()
        .find_map(|(names, nanos)| names.contains(&unit).then_some(*nanos))?;
    let quota = Quota {
        units: units.checked_mul(factor)?,
        nanos: times.checked_mul(nanos)?,
    };
    (quota.units > 0 && quota.nanos > 0).then_some(quota)
}

/// Splits a text into its leading number and the rest.
fn number(text: &str) -> Option<(u64, &str)> {
    let is_digit = |c: char| c.is_ascii_digit() || c == '_';
    let (digits, rest) = text.split_at(text.find(|c| !is_digit(c)).unwrap_or(text.len()));
    Some((digits.replace('_', "").parse().ok()?, rest.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::{Quota, SECOND, read};

    #[test]
    fn rates_are_written_as_people_write_them() {
        for (text, units, seconds) in [
            ("100/s", 100, 1),
            ("5000/hour", 5000, 3600),
            ("100k/min", 100_000, 60),
            ("5/10min", 5, 600),
            (" 1_000 / 2 h ", 1000, 7200),
            ("2M/day", 2_000_000, 86_400),
        ] {
            let nanos = seconds * SECOND;
            assert_eq!(read(text), Some(Quota { units, nanos }), "{text}");
        }
        assert_eq!(read("3/250ms").unwrap().nanos, SECOND / 4);
        for text in [
            "",
            "100",
            "/s",
            "100/",
            "0/s",
            "5/0s",
            "1.5/s",
            "-1/s",
            "5/fortnight",
            "5k k/s",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        let large = format!("{}/s", "9".repeat(40));
        assert_eq!(read(&large), None);
        assert_eq!(read("1/99999999999999day"), None);
    }
}
