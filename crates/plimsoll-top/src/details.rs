//! The details of one limit: charts of its history, refusals by reason, tiers, keys, learned values.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{
    Axis, Block, Borders, Chart, Dataset, GraphType, LegendPosition, Paragraph, Wrap,
};

use crate::app::{HISTORY, Point, Row};
use crate::numbers::{count, millis, number, words};
use crate::styles::Styles;
use crate::tick::{Key, Keys};

/// The width from which text and charts are shown side by side.
const WIDE: u16 = 90;
/// The height of a chart.
const CHART: u16 = 6;

pub(crate) fn details(
    row: &Row,
    keys: Option<&Keys>,
    styles: Styles,
    area: Rect,
    frame: &mut Frame<'_>,
) {
    let title = format!(" {}: {} ", row.limit.name, row.limit.word());
    let block = Block::new().borders(Borders::TOP).title(title);
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let text = text(row, keys, styles);
    let lines = u16::try_from(text.len()).unwrap_or(u16::MAX);
    let (words, charts) = match inside.width >= WIDE {
        true => {
            let [words, charts] = Layout::horizontal([Constraint::Length(40), Constraint::Min(20)])
                .spacing(2)
                .areas(inside);
            (words, charts)
        }
        false => {
            let [words, charts] =
                Layout::vertical([Constraint::Max(lines), Constraint::Min(0)]).areas(inside);
            (words, charts)
        }
    };
    frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: false }), words);
    let all = charts_of(row, styles);
    let room = usize::from(charts.height / CHART).min(all.len());
    let places = Layout::vertical(vec![Constraint::Max(14); room]).split(charts);
    for (chart, place) in all.into_iter().zip(places.iter()) {
        chart.draw(row, styles, *place, frame);
    }
}

fn text(row: &Row, keys: Option<&Keys>, styles: Styles) -> Vec<Line<'static>> {
    let limit = &row.limit;
    let fact = |word: &str, value: String, style: Style| {
        Line::from(vec![
            Span::styled(format!("{word:<26}"), styles.dim()),
            Span::styled(format!("{value:>12}"), style),
        ])
    };
    let mut lines = Vec::new();
    if let Some(learned) = &limit.learned {
        let ms = |it: Option<f64>| it.map_or("–".to_owned(), millis);
        lines.push(fact("limit", count(limit.limit), styles.title()));
        lines.push(fact("latency", ms(learned.latency_ms), styles.waiting()));
        lines.push(fact(
            "without a queue",
            ms(learned.baseline_ms),
            Style::new(),
        ));
        lines.push(Line::from(vec![
            Span::styled("last decision: ", styles.dim()),
            Span::raw(learned.decision.clone()),
        ]));
    }
    if let Some(keys) = limit.keys {
        lines.push(fact("keys", count(keys), Style::new()));
    }
    lines.push(fact(
        "granted",
        count(limit.granted_total),
        styles.granted(),
    ));
    for (reason, refused) in &limit.refused {
        lines.push(fact(
            &format!("refused, {}", words(reason)),
            count(*refused),
            styles.refused(),
        ));
    }
    if limit.is_shadow() || limit.would_refuse > 0 {
        lines.push(fact(
            "in shadow, not enforced",
            count(limit.would_refuse),
            styles.shadow(),
        ));
    }
    for (name, tier) in &limit.tiers {
        let use_of = format!("{} of {}", count(tier.in_use), count(tier.limit));
        lines.push(fact(&format!("tier {name}, in use"), use_of, Style::new()));
        if tier.denied_total > 0 {
            lines.push(fact(
                &format!("tier {name}, refused"),
                count(tier.denied_total),
                styles.refused(),
            ));
        }
    }
    for (title, keys) in keys.into_iter().flat_map(|it| {
        [
            ("keys that use most, masked", &it.used),
            ("keys refused most, masked", &it.refused),
        ]
    }) {
        if keys.is_empty() {
            continue;
        }
        lines.push(Line::styled(title, styles.title()));
        lines.extend(
            keys.iter()
                .map(|it| fact(&shown(it), about(it), Style::new())),
        );
    }
    lines
}

fn shown(key: &Key) -> String {
    let short: String = key.key.chars().take(24).collect();
    format!(" {short}")
}

fn about(key: &Key) -> String {
    match key.error {
        0 => count(key.count),
        _ => format!("≤ {}", count(key.count)),
    }
}

type Line1 = (&'static str, fn(&Point) -> Option<f64>, Style);

/// The lines of a chart.
struct Lines {
    title: &'static str,
    unit: &'static str,
    lines: Vec<Line1>,
}

fn charts_of(row: &Row, styles: Styles) -> Vec<Lines> {
    let mut decisions: Vec<Line1> = vec![
        ("granted", |it| Some(it.granted), styles.granted()),
        ("refused", |it| Some(it.refused), styles.refused()),
    ];
    if row.limit.is_shadow() {
        decisions.push(("shadow", |it| Some(it.shadow), styles.shadow()));
    }
    let mut charts = vec![Lines {
        title: "decisions a second",
        unit: "/s",
        lines: decisions,
    }];
    if row.limit.learned.is_some() {
        charts.push(Lines {
            title: "limit and use",
            unit: "",
            lines: vec![
                ("in use", |it| Some(it.in_use), styles.granted()),
                ("limit", |it| Some(it.limit), styles.title()),
            ],
        });
        charts.push(Lines {
            title: "latency, and without a queue",
            unit: " ms",
            lines: vec![
                ("latency", |it| it.latency, styles.waiting()),
                ("without a queue", |it| it.baseline, styles.dim()),
            ],
        });
    }
    charts
}

impl Lines {
    #[expect(clippy::cast_precision_loss, reason = "a place in a chart")]
    fn draw(&self, row: &Row, styles: Styles, area: Rect, frame: &mut Frame<'_>) {
        let start = HISTORY - row.history.len();
        let points = |of: fn(&Point) -> Option<f64>| -> Vec<(f64, f64)> {
            let points = row.history.iter().enumerate();
            points
                .filter_map(|(index, point)| Some(((start + index) as f64, of(point)?)))
                .filter(|(_, value)| *value < 1e15)
                .collect()
        };
        let all: Vec<Vec<(f64, f64)>> = self.lines.iter().map(|line| points(line.1)).collect();
        let most = all
            .iter()
            .flatten()
            .fold(0.0_f64, |most, it| most.max(it.1));
        let top = nice(most);
        let lines = self.lines.iter().zip(&all);
        let sets = lines.map(|((name, _, style), data)| {
            Dataset::default()
                .name(*name)
                .marker(Marker::Braille)
                .graph_type(GraphType::Line)
                .style(*style)
                .data(data)
        });
        let last = (HISTORY - 1) as f64;
        let chart = Chart::new(sets.collect())
            .block(Block::new().title(Line::styled(self.title, styles.dim())))
            .legend_position(Some(LegendPosition::TopLeft))
            .hidden_legend_constraints((Constraint::Percentage(60), Constraint::Percentage(80)))
            .x_axis(Axis::default().style(styles.dim()).bounds([0.0, last]))
            .y_axis(
                Axis::default()
                    .style(styles.dim())
                    .bounds([0.0, top])
                    .labels(["0".to_owned(), format!("{}{}", number(top), self.unit)]),
            );
        frame.render_widget(chart, area);
    }
}

/// The next round number.
fn nice(value: f64) -> f64 {
    if value <= 1.0 {
        return 1.0;
    }
    let step = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|it| it * step);
    steps.into_iter().find(|it| *it >= value).unwrap_or(value)
}
