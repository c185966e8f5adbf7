//! The positions of values on an axis, and its marks.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

use crate::num::whole32;

/// An axis, linear or logarithmic. Values outside its range are drawn at its end.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Scale {
    log: bool,
    range: Range<f64>,
    marks: Vec<f64>,
}

impl Scale {
    /// A linear axis from 0 to a little more than `most`.
    pub(super) fn linear(most: f64) -> Self {
        let most = if most > 0.0 { most } else { 1.0 };
        let step = round_up(most / 5.0);
        let end = most * 1.05;
        let marks = (0..).map(|i| f64::from(i) * step);
        Self {
            log: false,
            range: 0.0..end,
            marks: marks.take_while(|mark| *mark <= end).collect(),
        }
    }

    /// Adds space above the marks.
    pub(super) fn with_head(mut self) -> Self {
        self.range.end *= 1.12;
        self
    }

    /// A logarithmic axis from a little less than `least`, which must be above 0, to a little more than `most`.
    pub(super) fn log(least: f64, most: f64) -> Self {
        let range = least / 1.2..most.max(2.0 * least) * 1.2;
        // One mark in each decade of a long axis, three of a short one.
        let long = range.end / range.start > 300.0;
        let digits: &[f64] = if long { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let decades = (-9..=12).map(|power| 10_f64.powi(power));
        let all = decades.flat_map(|decade| digits.iter().map(move |digit| digit * decade));
        Self {
            log: true,
            marks: all.filter(|mark| range.contains(mark)).collect(),
            range,
        }
    }

    /// The position of a value on the axis, from 0 to 1.
    fn part(&self, value: f64) -> f64 {
        let at = |value: f64| if self.log { value.ln() } else { value };
        let Range { start, end } = self.range;
        (at(value.clamp(start, end)) - at(start)) / (at(end) - at(start))
    }
}

impl Ranged for Scale {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let along = |span: i32| f64::from(span) * self.part(*value);
        let pixels = whole32(along((to - from).abs()).round()).cast_signed();
        from + pixels * (to - from).signum()
    }

    fn key_points<H: KeyPointHint>(&self, hint: H) -> Vec<f64> {
        let most = hint.max_num_points();
        self.marks.iter().copied().take(most).collect()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Scale {
    fn format(value: &f64) -> String {
        label(*value)
    }
}

fn label(value: f64) -> String {
    let (value, unit) = if value >= 10_000.0 {
        (value / 1000.0, "k")
    } else {
        (value, "")
    };
    let text = format!("{value:.2}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Rounds up to the next of 1, 2, 5, 10, 20, 50 and so on.
fn round_up(value: f64) -> f64 {
    let decade = 10_f64.powf(value.log10().floor());
    let digits = [1.0, 2.0, 5.0, 10.0];
    let digit = digits
        .iter()
        .find(|digit| **digit * decade >= value * 0.999);
    digit.copied().unwrap_or(10.0) * decade
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: &Scale) -> Vec<String> {
        scale.marks.iter().map(|mark| label(*mark)).collect()
    }

    #[test]
    fn marks_are_round_numbers() {
        assert_eq!(
            labels(&Scale::linear(800.0)),
            ["0", "200", "400", "600", "800"]
        );
        assert_eq!(
            labels(&Scale::linear(0.0)),
            ["0", "0.2", "0.4", "0.6", "0.8", "1"]
        );
        assert_eq!(
            labels(&Scale::log(40.0, 600.0)),
            ["50", "100", "200", "500"]
        );
        assert_eq!(
            labels(&Scale::log(1.0, 40_000.0)),
            ["1", "10", "100", "1000", "10k"]
        );
    }

    #[test]
    fn what_is_off_the_axis_stands_at_its_end() {
        let scale = Scale::log(12.0, 1000.0 / 1.2);
        let limit = (0, 300);
        assert_eq!(scale.map(&1e9, limit), 300);
        assert_eq!(scale.map(&0.0, limit), 0);
        assert_eq!(scale.map(&100.0, limit), 150);
        assert_eq!(scale.map(&100.0, (300, 0)), 150);
        assert_eq!(Scale::linear(100.0).map(&52.5, limit), 150);
    }
}
