//! The report as an SVG picture.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use crate::report::{Phase, Report, percent, shown};
use crate::samples::{Run, Sums};
use crate::script::{Class, PATIENCE, Stage};

const WIDTH: f64 = 1000.0;
const MARGIN: f64 = 56.0;
const GAP: f64 = 48.0;
const CHART: f64 = 190.0;
const PLOT: f64 = (WIDTH - 2.0 * MARGIN - GAP) / 2.0;
/// The number of points of a line.
const POINTS: u32 = 60;

/// Colours for light and dark mode.
const STYLE: &str = "
svg { background: #fff; font: 13px system-ui, sans-serif; }
text { fill: #14202e; } .muted { fill: #55647a; } .title { font-size: 20px; font-weight: 650; } .head { font-size: 15px; font-weight: 650; }
.n { text-anchor: end; font-variant-numeric: tabular-nums; }
.grid { stroke: #d9e0e8; } .drop { fill: #b92f1912; } .abuse { fill: #8a5a0010; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; }
.checkout { stroke: #0a63bf; } .browse { stroke: #1a7a45; } .batch { stroke: #6546b8; stroke-dasharray: 6 3; } .abuser { stroke: #b92f19; stroke-dasharray: 2 3; }
@media (prefers-color-scheme: dark) {
svg { background: #0d1319; } text { fill: #e9eef4; } .muted { fill: #a3b3c6; } .grid { stroke: #283545; } .drop { fill: #ff847118; } .abuse { fill: #e6b54a12; }
.checkout { stroke: #62adff; } .browse { stroke: #5fd08f; } .batch { stroke: #bca3ff; } .abuser { stroke: #ff8471; }
}";

struct Svg(String);

impl Svg {
    fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        let text = escaped(text);
        let _ = writeln!(
            self.0,
            r#"<text x="{x:.1}" y="{y:.1}" class="{class}">{text}</text>"#
        );
    }

    fn line(&mut self, class: &str, points: &[(f64, f64)]) {
        let points: Vec<String> = points
            .iter()
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let points = points.join(" ");
        let _ = writeln!(
            self.0,
            r#"<polyline class="line {class}" points="{points}"/>"#
        );
    }

    fn area(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64)) {
        let _ = writeln!(
            self.0,
            r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}"/>"#
        );
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

impl Report {
    /// The report as a self-contained SVG: goodput and latency over time, refusals by class, limit and reason, of both runs.
    #[must_use]
    pub fn to_svg(&self) -> String {
        picture(self)
    }
}

fn picture(report: &Report) -> String {
    let refusals = by_limit(report);
    let height = refusals.iter().fold(820.0, |height, _| height + 20.0);
    let mut svg = Svg(String::new());
    let _ = writeln!(
        svg.0,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="Goodput and latency without limits and with Plimsoll"><style>{STYLE}</style>"#
    );
    svg.text(
        MARGIN,
        36.0,
        "title",
        "The same overload, without limits and with Plimsoll",
    );
    svg.text(
        MARGIN,
        58.0,
        "muted",
        "A server of 16 workers, three kinds of clients, one abuser; 12 workers are lost for a while. Clients give up after a second.",
    );
    legend(&mut svg, 82.0);
    for (column, (phase, run)) in [0.0, 1.0].into_iter().zip(report.runs()) {
        let x = MARGIN + column * (PLOT + GAP);
        svg.text(x, 116.0, "head", phase.as_str());
        chart(
            &mut svg,
            run,
            (x, 140.0),
            "answered in time, a second",
            80.0,
            |sums| Some(sums.goodput),
        );
        #[expect(clippy::cast_precision_loss, reason = "a second")]
        let most = PATIENCE.as_millis() as f64;
        chart(
            &mut svg,
            run,
            (x, 390.0),
            "99th percentile, ms, of what was not refused",
            most,
            |sums| sums.p99.map(|it| it.as_secs_f64() * 1e3),
        );
    }
    table(&mut svg, report, 648.0);
    if !refusals.is_empty() {
        svg.text(
            MARGIN,
            806.0,
            "head",
            "Who was refused, by which limit, and why",
        );
    }
    let mut y = 830.0;
    for ((class, limit), (count, reasons)) in refusals {
        svg.text(MARGIN, y, "", class.as_str());
        svg.text(MARGIN + 160.0, y, "n", &count.to_string());
        let why = format!("{limit}: {}", reasons.join(", "));
        svg.text(MARGIN + 180.0, y, "muted", &why);
        y += 20.0;
    }
    svg.0.push_str("</svg>\n");
    svg.0
}

/// One row for each class and limit, with the most frequent reasons first, so that no limit is left out.
fn by_limit(report: &Report) -> BTreeMap<(Class, String), (u64, Vec<String>)> {
    let mut rows = BTreeMap::new();
    for (class, limit, reason, count) in report.refusals() {
        let (sum, reasons): &mut (u64, Vec<String>) = rows.entry((class, limit)).or_default();
        *sum += count;
        reasons.push(format!("{count} {reason}"));
    }
    rows
}

fn legend(svg: &mut Svg, y: f64) {
    let mut x = MARGIN;
    for class in Class::ALL {
        svg.line(class.as_str(), &[(x, y - 4.0), (x + 24.0, y - 4.0)]);
        let text = match class {
            Class::Abuser => format!("{}, {:.0}/s by one caller", class.as_str(), class.rate()),
            _ => format!(
                "{}, {}, {:.0}/s",
                class.as_str(),
                class.priority(),
                class.rate()
            ),
        };
        svg.text(x + 30.0, y, "", &text);
        x += 215.0;
    }
}

fn chart(
    svg: &mut Svg,
    run: &Run,
    (x, y): (f64, f64),
    title: &str,
    top: f64,
    value: impl Fn(&Sums) -> Option<f64>,
) {
    svg.text(x, y, "muted", title);
    let y = y + 12.0;
    for (stage, class) in [(Stage::Abuse, "abuse"), (Stage::Drop, "drop")] {
        let (from, to) = stage.span();
        svg.area(class, (x + PLOT * from, y), (PLOT * (to - from), CHART));
    }
    for step in [0.0, 0.5, 1.0] {
        let at = y + CHART * (1.0 - step);
        svg.line("grid", &[(x, at), (x + PLOT, at)]);
        svg.text(x - 6.0, at + 4.0, "n muted", &format!("{:.0}", top * step));
    }
    for (stage, text) in [
        (Stage::Quiet, "quiet"),
        (Stage::Abuse, "abuser"),
        (Stage::Drop, "4 of 16 workers"),
        (Stage::Back, "recovery"),
    ] {
        svg.text(
            x + PLOT * stage.span().0 + 4.0,
            y + CHART + 16.0,
            "muted",
            text,
        );
    }
    for class in Class::ALL.into_iter().rev() {
        let at = |point: u32| run.whole * point / POINTS;
        let mut points = Vec::new();
        for point in (0..POINTS).filter(|it| at(it + 1) <= run.length + Duration::from_millis(1)) {
            let sums = run.sums_between(class, at(point), at(point + 1));
            let Some(value) = value(&sums).filter(|_| sums.sent > 0) else {
                continue;
            };
            let across = x + PLOT * (f64::from(point) + 0.5) / f64::from(POINTS);
            points.push((across, y + CHART * (1.0 - (value / top).min(1.0))));
        }
        svg.line(class.as_str(), &points);
    }
}

fn table(svg: &mut Svg, report: &Report, y: f64) {
    svg.text(
        MARGIN,
        y,
        "head",
        &format!("While {}", Stage::Drop.phrase()),
    );
    let column = |phase: Phase| match phase {
        Phase::Without => MARGIN + 320.0,
        Phase::With => MARGIN + 680.0,
    };
    for (phase, _) in report.runs() {
        svg.text(column(phase), y + 22.0, "n head", phase.as_str());
        for (offset, text) in [(0.0, "in time"), (110.0, "p99"), (200.0, "refused")] {
            svg.text(column(phase) + offset, y + 42.0, "n muted", text);
        }
    }
    for (row, class) in [0.0, 1.0, 2.0, 3.0].into_iter().zip(Class::ALL) {
        let y = y + 64.0 + 20.0 * row;
        svg.text(MARGIN, y, "", class.as_str());
        svg.text(
            MARGIN + 170.0,
            y,
            "n muted",
            &format!("{:.0}/s asked", class.rate()),
        );
        for (phase, run) in report.runs() {
            let sums = run.sums(class, Some(Stage::Drop));
            let good = format!("{:.1}/s, {}%", sums.goodput, percent(sums.good, sums.sent));
            svg.text(column(phase), y, "n", &good);
            let p99 = sums.p99.map_or_else(|| "–".to_owned(), shown);
            svg.text(column(phase) + 110.0, y, "n", &p99);
            let refused = format!("{}%", percent(sums.refused, sums.sent));
            svg.text(column(phase) + 200.0, y, "n", &refused);
        }
    }
}
