//! Charts of counts over time, as SVG. Labels are outside of them in HTML, so that charts can have any width.

use std::fmt::Write as _;

use super::page::escape;
use crate::report::Report;
use crate::time::{SECOND, timestamp};
use crate::words::count;

/// Maximum number of limits with a colour of their own.
const COLOURS: usize = 5;

/// The size in which paths are drawn. The chart stretches it.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 100.0;

/// Draws admitted and refused requests over time, and refused requests by limit.
pub(super) fn over_time(report: &Report, page: &mut String) {
    let series = &report.series;
    let per = match series.seconds {
        1 => "a second".to_owned(),
        seconds => format!("in {seconds} s"),
    };
    page.push_str("<section><h2>Over time</h2>");
    let both = [
        ("refused", "var(--refused)", &series.refused),
        ("admitted", "var(--admitted)", &series.admitted),
    ];
    let both: Vec<Layer> = both
        .into_iter()
        .map(|(name, colour, counts)| Layer {
            name: name.to_owned(),
            colour: colour.to_owned(),
            counts: counts.clone(),
        })
        .collect();
    stacked(report, &both, &format!("requests {per}"), page);
    let mut limits: Vec<(&String, &Vec<u64>)> = series.by_limit.iter().collect();
    limits.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.iter().sum::<u64>()));
    if !limits.is_empty() {
        let mut layers: Vec<Layer> = Vec::new();
        for (index, (name, counts)) in limits.into_iter().enumerate() {
            match layers.get_mut(COLOURS) {
                Some(rest) => rest
                    .counts
                    .iter_mut()
                    .zip(counts)
                    .for_each(|(sum, count)| *sum += count),
                None => layers.push(Layer {
                    name: if index == COLOURS {
                        "others".to_owned()
                    } else {
                        name.clone()
                    },
                    colour: format!("var(--l{})", index.min(COLOURS)),
                    counts: counts.clone(),
                }),
            }
        }
        stacked(report, &layers, &format!("refused {per}, by limit"), page);
    }
    page.push_str("</section>");
}

/// One colour of a chart.
struct Layer {
    name: String,
    colour: String,
    counts: Vec<u64>,
}

/// Draws layers on top of each other.
fn stacked(report: &Report, layers: &[Layer], title: &str, page: &mut String) {
    let length = layers.first().map_or(0, |layer| layer.counts.len());
    let sum = |index: usize| {
        layers
            .iter()
            .filter_map(|layer| layer.counts.get(index))
            .sum::<u64>()
    };
    let most = nice((0..length).map(sum).max().unwrap_or(0));
    // Writing to a string never fails.
    let _ = write!(
        page,
        "<h3>{}</h3><figure class=\"chart\"><div class=\"y\"><span>{}</span><span>{}</span><span>0</span></div>\
         <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">",
        escape(title),
        count(most),
        if most > 1 {
            count(most / 2)
        } else {
            String::new()
        },
        escape(title),
    );
    for at in [0.0, HEIGHT / 2.0] {
        let _ = write!(
            page,
            "<path d=\"M0 {at}H{WIDTH}\" stroke=\"var(--line)\" fill=\"none\" vector-effect=\"non-scaling-stroke\"/>"
        );
    }
    let mut below = vec![0_u64; length];
    for layer in layers {
        let above: Vec<u64> = below
            .iter()
            .zip(&layer.counts)
            .map(|(below, count)| below + count)
            .collect();
        let _ = write!(
            page,
            "<path fill=\"{}\" d=\"{}\"/>",
            layer.colour,
            area(&below, &above, most)
        );
        below = above;
    }
    page.push_str("</svg><div class=\"x\">");
    let span = i64::try_from(length).unwrap_or(0) * report.series.seconds;
    for quarter in 0..=4 {
        let text = timestamp((report.series.from_epoch + span * quarter / 4) * SECOND);
        // Over several days, the date is more useful.
        let text = if span > 2 * 86_400 {
            text.get(5..13).map(|it| it.replacen('T', " ", 1))
        } else {
            text.get(11..19).map(str::to_owned)
        };
        let _ = write!(page, "<span>{}</span>", text.unwrap_or_default());
    }
    page.push_str("</div></figure><div class=\"legend\">");
    for layer in layers {
        let _ = write!(
            page,
            "<span><i style=\"background:{}\"></i>{} {}</span>",
            layer.colour,
            escape(&layer.name),
            count(layer.counts.iter().sum())
        );
    }
    page.push_str("</div>");
}

/// The path of the area between two stepped lines.
fn area(below: &[u64], above: &[u64], most: u64) -> String {
    let step = WIDTH / (above.len().max(1)) as f64;
    let y = |count: u64| HEIGHT - count as f64 / most.max(1) as f64 * HEIGHT;
    let mut path = String::new();
    for (index, count) in above.iter().enumerate() {
        let command = if index == 0 { 'M' } else { 'L' };
        let _ = write!(
            path,
            "{command}{:.2} {:.2}H{:.2}",
            index as f64 * step,
            y(*count),
            (index + 1) as f64 * step
        );
    }
    for (index, count) in below.iter().enumerate().rev() {
        let _ = write!(
            path,
            "L{:.2} {:.2}H{:.2}",
            (index + 1) as f64 * step,
            y(*count),
            index as f64 * step
        );
    }
    path.push('Z');
    path
}

/// Rounds up to the next number that is 1, 2 or 5 followed by zeros.
fn nice(number: u64) -> u64 {
    let mut unit = 1_u64;
    loop {
        for factor in [1, 2, 5] {
            if unit.saturating_mul(factor) >= number {
                return unit.saturating_mul(factor);
            }
        }
        unit = unit.saturating_mul(10);
    }
}
