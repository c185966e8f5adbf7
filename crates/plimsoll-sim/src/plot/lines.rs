//! The content of a plot: panels of lines, without positions on the picture.

use plotters::style::{Color, HSLColor, IntoFont, RGBColor};

use super::scale::Scale;
use super::{FONT, WIDTH};
use crate::class::CLASSES;
use crate::second::Second;
use crate::{Compared, Simulation};

/// Colours of all known limits. The first six are distinguishable with any colour vision, after Okabe and Ito.
const COLORS: [RGBColor; 10] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(120, 80, 40),
    RGBColor(90, 60, 160),
    RGBColor(170, 30, 80),
    RGBColor(150, 160, 0),
];
const GREY: RGBColor = RGBColor(150, 150, 150);
const BLACK: RGBColor = RGBColor(40, 40, 40);

const PANEL_HEIGHT: u32 = 230;
const HEAD_HEIGHT: u32 = 100;
/// The top of the legend, and the distance between its rows.
const LEGEND: (i32, i32) = (20, 80);
const LEGEND_ROW: i32 = 24;
/// The width of the sample of a line, with the gap before its name.
pub(super) const SAMPLE: i32 = 44;
const FOOT_HEIGHT: u32 = 40;

pub(super) struct Picture {
    pub(super) title: String,
    pub(super) about: String,
    pub(super) legend: Vec<Key>,
    pub(super) seconds: f64,
    /// The number of seconds of each value.
    pub(super) step: f64,
    /// The name, the start and the end of each phase.
    pub(super) phases: Vec<(String, f64, f64)>,
    pub(super) panels: Vec<Panel>,
}

pub(super) struct Key {
    pub(super) name: String,
    pub(super) pen: Pen,
    /// The start of its line.
    pub(super) at: (i32, i32),
}

pub(super) struct Panel {
    pub(super) title: String,
    pub(super) scale: Scale,
    pub(super) lines: Vec<Line>,
}

#[derive(Clone, Copy)]
pub(super) struct Pen {
    pub(super) color: RGBColor,
    pub(super) width: u32,
    pub(super) dashed: bool,
}

/// A value for each step; where there is none the line is broken.
pub(super) struct Line {
    pub(super) values: Vec<Option<f64>>,
    pub(super) pen: Pen,
}

impl Picture {
    pub(super) fn height(&self) -> u32 {
        let panels = u32::try_from(self.panels.len()).unwrap_or(u32::MAX);
        self.head_height() + FOOT_HEIGHT + panels.saturating_mul(PANEL_HEIGHT)
    }

    /// The height of the title and of all rows of the legend.
    pub(super) fn head_height(&self) -> u32 {
        let last = self.legend.last().map_or(LEGEND.1, |key| key.at.1);
        HEAD_HEIGHT + u32::try_from(last - LEGEND.1).unwrap_or(0)
    }
}

const fn pen(color: RGBColor, width: u32, dashed: bool) -> Pen {
    Pen {
        color,
        width,
        dashed,
    }
}

/// The colour of the limit at `index`. After the table, each colour is the golden angle further around the colour wheel, so that
/// none repeats.
fn color(index: usize) -> RGBColor {
    let turn = || {
        let hue = (index as f64 * 0.618_034).fract();
        let (r, g, b) = HSLColor(hue, 0.65, 0.42).to_backend_color().rgb;
        RGBColor(r, g, b)
    };
    COLORS.get(index).copied().unwrap_or_else(turn)
}

/// Lays out the keys in rows as wide as the picture.
fn legend(keys: impl IntoIterator<Item = (String, Pen)>) -> Vec<Key> {
    let right = i32::try_from(WIDTH).unwrap_or(i32::MAX) - LEGEND.0;
    let (mut x, mut y) = LEGEND;
    let place = |(name, pen): (String, Pen)| {
        // Without a font, which does not happen, the width of average letters.
        let measured = (FONT, 16).into_font().box_size(&name);
        let width = measured.map_or(9 * name.len(), |(width, _)| crate::num::index(width.into()));
        let width = SAMPLE.saturating_add(i32::try_from(width).unwrap_or(i32::MAX));
        if x > LEGEND.0 && x.saturating_add(width) > right {
            (x, y) = (LEGEND.0, y + LEGEND_ROW);
        }
        let at = (x, y);
        x = x.saturating_add(width).saturating_add(30);
        Key { name, pen, at }
    };
    keys.into_iter().map(place).collect()
}

/// Maximum number of points of a line, so that it stays readable.
const MOST_POINTS: usize = 400;

/// The first run of each limit, with its colour.
struct Runs<'c> {
    each: Vec<(&'c str, RGBColor, &'c [Second])>,
    step: usize,
}

impl Runs<'_> {
    /// The mean of each step.
    fn values(
        &self,
        seconds: &[Second],
        what: impl Fn(&Second) -> Option<f64>,
    ) -> Vec<Option<f64>> {
        let mean = |part: &[Second]| {
            let known: Vec<f64> = part.iter().filter_map(&what).collect();
            (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
        };
        seconds.chunks(self.step).map(mean).collect()
    }

    fn lines(&self, width: u32, what: impl Fn(&Second) -> Option<f64>) -> Vec<Line> {
        let each = self.each.iter().map(|(_, color, seconds)| Line {
            values: self.values(seconds, &what),
            pen: pen(*color, width, false),
        });
        each.collect()
    }
}

pub(super) fn picture(simulation: &Simulation, compared: &Compared) -> Picture {
    let runs = compared.limits.iter().enumerate();
    let runs = runs.filter_map(|(index, result)| {
        let run = result.runs.first()?;
        Some((result.limit.as_str(), color(index), run.seconds.as_slice()))
    });
    let step = simulation.seconds().div_ceil(MOST_POINTS).max(1);
    let runs = Runs {
        each: runs.collect(),
        step,
    };
    let mut panels = vec![
        throughput(&runs),
        latency(&runs, crate::num::millis(simulation.deadline as f64)),
        limits(&runs),
        rejections(&runs),
    ];
    if simulation
        .traffic
        .shares
        .iter()
        .filter(|share| share.peak() > 0.0)
        .count()
        > 1
    {
        panels.push(by_class(&runs));
    }
    let name = |phase: &crate::Phase| {
        let (from, to) = phase.span();
        (phase.name().to_owned(), from, to)
    };
    let keys = runs.each.iter();
    let keys = keys.map(|(name, color, _)| ((*name).to_owned(), pen(*color, 3, false)));
    let others = [
        ("offered", pen(GREY, 2, false)),
        ("ideal", pen(BLACK, 2, true)),
    ];
    let others = others.map(|(name, pen)| (name.to_owned(), pen));
    Picture {
        title: simulation.name().to_owned(),
        about: simulation.about().to_owned(),
        legend: legend(keys.chain(others)),
        seconds: simulation.duration().as_secs_f64(),
        step: step as f64,
        phases: simulation.phases().iter().map(name).collect(),
        panels,
    }
}

fn most(lines: &[Line]) -> f64 {
    let values = lines.iter().flat_map(|line| line.values.iter().flatten());
    values.copied().fold(0.0, f64::max)
}

fn least(lines: &[Line]) -> Option<f64> {
    let values = lines.iter().flat_map(|line| line.values.iter().flatten());
    values
        .copied()
        .filter(|value| *value > 0.0)
        .reduce(f64::min)
}

/// Offered, ideal and good requests per second. Offered requests may leave the panel, which ends at twice the largest of the others.
fn throughput(runs: &Runs<'_>) -> Panel {
    let offered = |second: &Second| second.counts().offered as f64;
    let mut lines = Vec::new();
    if let Some((_, _, seconds)) = runs.each.first() {
        lines.push(Line {
            values: runs.values(seconds, |second| Some(offered(second))),
            pen: pen(GREY, 1, false),
        });
        lines.push(Line {
            values: runs.values(seconds, |second| Some(second.ideal)),
            pen: pen(BLACK, 1, true),
        });
    }
    let good = runs.lines(2, |second| Some(second.counts().good as f64));
    let matters = most(&good).max(most(&lines[lines.len().min(1)..]));
    let top = most(&lines).min(2.0 * matters.max(1.0)).max(most(&good));
    let cut = most(&lines) > top;
    lines.extend(good);
    let off = if cut {
        " (what is offered goes off the top)"
    } else {
        ""
    };
    Panel {
        title: format!("answered in time, requests a second{off}"),
        // Space for the names of the phases.
        scale: Scale::linear(top).with_head(),
        lines,
    }
}

fn latency(runs: &Runs<'_>, deadline: f64) -> Panel {
    let mut lines = runs.lines(1, |second| second.p50_ms);
    lines.extend(runs.lines(2, |second| second.p99_ms));
    let top = most(&lines).max(deadline);
    let scale = Scale::log(least(&lines).unwrap_or(1.0), top);
    let points = lines.iter().map(|line| line.values.len()).max();
    lines.push(Line {
        values: vec![Some(deadline); points.unwrap_or(0)],
        pen: pen(GREY, 1, true),
    });
    Panel {
        title: "latency from arrival to answer, ms: median thin, p99 thick, deadline dashed"
            .to_owned(),
        scale,
        lines,
    }
}

fn limits(runs: &Runs<'_>) -> Panel {
    let lines = runs.lines(2, |second| second.limit.map(|limit| limit as f64));
    let (least, most) = (least(&lines).unwrap_or(1.0), most(&lines));
    let wide = most > 20.0 * least;
    Panel {
        title: if wide { "limit (logarithmic)" } else { "limit" }.to_owned(),
        scale: if wide {
            Scale::log(least, most)
        } else {
            Scale::linear(most)
        },
        lines,
    }
}

fn rejections(runs: &Runs<'_>) -> Panel {
    let lines = runs.lines(2, |second| Some(second.counts().rejected as f64));
    Panel {
        title: "refused, requests a second".to_owned(),
        scale: Scale::linear(most(&lines)),
        lines,
    }
}

/// The refused share of each class, over five seconds: one second alone has too few requests of the rare classes.
fn by_class(runs: &Runs<'_>) -> Panel {
    const OVER: usize = 5;
    const PENS: [(u32, bool); CLASSES.len()] = [(3, false), (1, false), (1, true)];
    let mut lines = Vec::new();
    for (_, color, seconds) in &runs.each {
        for (class, (width, dashed)) in PENS.into_iter().enumerate() {
            let share = |at: usize| {
                let part = &seconds[at.saturating_sub(OVER - 1)..=at];
                let sum = |what: fn(&crate::RequestCounts) -> u64| {
                    part.iter()
                        .map(|second| what(&second.classes[class]))
                        .sum::<u64>()
                };
                let offered = sum(|counts| counts.offered);
                (offered > 0).then(|| 100.0 * sum(|counts| counts.rejected) as f64 / offered as f64)
            };
            lines.push(Line {
                values: (0..seconds.len()).step_by(runs.step).map(share).collect(),
                pen: pen(*color, width, dashed),
            });
        }
    }
    Panel {
        title: "refused by class, %: critical thick, normal thin, non-critical dashed".to_owned(),
        scale: Scale::linear(100.0),
        lines,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_limits_have_the_same_colour() {
        let colors: HashSet<_> = (0..40).map(color).map(|it| (it.0, it.1, it.2)).collect();
        assert_eq!(colors.len(), 40);
    }

    #[test]
    fn the_colours_of_all_known_limits_are_far_apart() {
        // The oracle had nearly the blue of the first limit.
        let away = |a: u8, b: u8| u32::from(a.abs_diff(b)).pow(2);
        let known = crate::Contender::all().len();
        for (one, two) in (0..known).flat_map(|one| (0..one).map(move |two| (one, two))) {
            let (a, b) = (color(one), color(two));
            let apart = away(a.0, b.0) + away(a.1, b.1) + away(a.2, b.2);
            assert!(apart > 60 * 60, "{one} and {two}: {a:?} {b:?}");
        }
    }
}
