//! Formats numbers, shares and spans of time for people.

use std::borrow::Cow;

/// Formats a number as `1,234,567`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number with a noun: `1 line`, `2 lines`.
pub(crate) fn many(number: u64, what: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {what}{ending}", count(number))
}

/// Formats a share as `1.23 %`, or with two significant digits if it is smaller.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        0.0 => "0 %".to_owned(),
        0.1.. => format!("{percent:.2} %"),
        0.001.. => format!("{percent:.4} %"),
        _ => "< 0.001 %".to_owned(),
    }
}

/// Formats a span as `240 ms`, `1.2 s` or `4 h 40 min`.
pub(crate) fn span(seconds: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "spans of logs, in seconds"
    )]
    let whole = seconds.round() as u64;
    match seconds {
        ..0.001 => format!("{:.0} µs", seconds * 1e6),
        ..1.0 => format!("{:.0} ms", seconds * 1e3),
        ..60.0 => format!("{seconds:.1} s"),
        ..3600.0 => format!("{} min {} s", whole / 60, whole % 60),
        ..172_800.0 => format!("{} h {} min", whole / 3600, whole / 60 % 60),
        _ => format!("{} days {} h", whole / 86_400, whole / 3600 % 24),
    }
}

/// The date and the time of a timestamp, without its milliseconds and zone: `2026-11-15 12:00:01`.
pub(crate) fn moment(timestamp: &str) -> String {
    timestamp
        .get(..19)
        .unwrap_or(timestamp)
        .replacen('T', " ", 1)
}

/// Whether a character changes how others are shown: it controls a terminal, or the direction of the text around it.
pub(crate) fn is_control(letter: char) -> bool {
    let turns = [
        '\u{200e}'..='\u{200f}',
        '\u{202a}'..='\u{202e}',
        '\u{2066}'..='\u{2069}',
    ];
    letter.is_control() || turns.iter().any(|turns| turns.contains(&letter))
}

/// A text from a log with its control characters escaped.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    let letters = text.chars().map(|letter| match is_control(letter) {
        true => letter.escape_default().to_string(),
        false => letter.to_string(),
    });
    Cow::Owned(letters.collect())
}

/// The first `most` characters.
pub(crate) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(most.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(count),
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(
            [0.0, 0.012_34, 0.000_12, 0.000_000_1].map(percent),
            ["0 %", "1.23 %", "0.0120 %", "< 0.001 %"]
        );
        assert_eq!(
            [0.000_25, 0.24, 1.25, 90.0, 16_812.0, 260_000.0].map(span),
            [
                "250 µs",
                "240 ms",
                "1.2 s",
                "1 min 30 s",
                "4 h 40 min",
                "3 days 0 h"
            ]
        );
        assert_eq!(moment("2026-11-15T12:00:01.250Z"), "2026-11-15 12:00:01");
        assert_eq!(
            (cut("short", 5), cut("longer", 5)),
            ("short".to_owned(), "long…".to_owned())
        );
    }
}
