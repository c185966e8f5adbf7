//! Formats numbers for people, in the same way as the live page.

use std::time::Duration;

/// The number from which on a bound means "unbounded".
const UNLIMITED: f64 = 1e15;

/// A number in a few characters: `999`, `1.5`, `12.4k`, `3M`.
pub(crate) fn number(value: f64) -> String {
    if value >= UNLIMITED {
        return "unlimited".to_owned();
    }
    let (unit, by) = match value {
        it if it >= 1e9 => ("G", 1e9),
        it if it >= 1e6 => ("M", 1e6),
        it if it >= 1e4 => ("k", 1e3),
        _ => ("", 1.0),
    };
    let shown = value / by;
    let text = match shown < 10.0 && (by > 1.0 || shown.fract() != 0.0) {
        true => format!("{shown:.1}"),
        false => format!("{shown:.0}"),
    };
    format!("{}{unit}", text.strip_suffix(".0").unwrap_or(&text))
}

/// A whole number in the same way.
#[expect(clippy::cast_precision_loss, reason = "to be shown")]
pub(crate) fn count(value: u64) -> String {
    number(value as f64)
}

/// A rate; empty if it is 0.
pub(crate) fn rate(value: f64) -> String {
    match value > 0.0 {
        true => format!("{}/s", number(value)),
        false => "·".to_owned(),
    }
}

/// A time in milliseconds.
pub(crate) fn millis(ms: f64) -> String {
    match ms {
        it if it < 1e3 => format!("{} ms", number(it)),
        it if it < 120e3 => format!("{} s", number(it / 1e3)),
        it if it < 7200e3 => format!("{} min", number(it / 60e3)),
        it => format!("{} h", number(it / 3600e3)),
    }
}

/// A time.
pub(crate) fn span(span: Duration) -> String {
    millis(span.as_secs_f64() * 1e3)
}

/// A share of one, in percent.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.0}%", share.clamp(0.0, 1.0) * 100.0)
}

/// A keyword of the server, made readable.
pub(crate) fn words(name: &str) -> String {
    name.replace('_', " ")
}

/// The last values as blocks of different heights, the newest at the right end.
pub(crate) fn spark(values: impl DoubleEndedIterator<Item = f64> + Clone, width: usize) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let last = values.rev().take(width);
    let most = last.clone().fold(0.0, f64::max);
    let block = |value: f64| match value > 0.0 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "0 to 7"
        )]
        true => BLOCKS[((value / most * 7.0).round() as usize).min(7)],
        false => ' ',
    };
    let drawn: Vec<char> = last.map(block).collect();
    let drawn: String = drawn.into_iter().rev().collect();
    format!("{drawn:>width$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_keep_what_matters() {
        for (value, text) in [
            (0.0, "0"),
            (0.25, "0.2"),
            (7.0, "7"),
            (9.96, "10"),
            (999.4, "999"),
            (9_999.0, "9999"),
            (12_400.0, "12k"),
            (1_250_000.0, "1.2M"),
            (3e9, "3G"),
            (1e18, "unlimited"),
        ] {
            assert_eq!(number(value), text, "{value}");
        }
        assert_eq!(millis(1.5), "1.5 ms");
        assert_eq!(millis(90_000.0), "90 s");
        assert_eq!(span(Duration::from_secs(600)), "10 min");
        assert_eq!(span(Duration::from_secs(86_400)), "24 h");
        assert_eq!(percent(1.7), "100%");
    }

    #[test]
    fn sparks_are_as_wide_as_they_should_be() {
        assert_eq!(spark([1.0, 0.0, 8.0].into_iter(), 5), "  ▂ █");
        assert_eq!(spark([9.0, 1.0, 8.0].into_iter(), 2), "▂█");
        assert_eq!(spark(std::iter::empty(), 3), "   ");
    }
}
