//! Draws panels on a backend.

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::element::{DashedPathElement, PathElement, Rectangle, Text};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::FONT;
use super::lines::{Line, Panel, Pen, Picture, SAMPLE};
use super::scale::Scale;

const INK: RGBColor = RGBColor(40, 40, 40);
const FAINT: RGBColor = RGBColor(225, 225, 225);
const SHADES: [RGBColor; 2] = [RGBColor(238, 243, 250), RGBColor(250, 246, 235)];
const LABELS: i32 = 13;
/// The space for the labels of the axis.
const LEFT: u32 = 70;
const RIGHT: i32 = 24;

type Drawn<B> = Result<(), DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;
type Chart<'a, B> = ChartContext<'a, B, Cartesian2d<RangedCoordf64, Scale>>;

pub(super) fn paint<B: DrawingBackend>(picture: &Picture, backend: B) -> Drawn<B> {
    let area = backend.into_drawing_area();
    area.fill(&WHITE)?;
    let (head, body) = area.split_vertically(picture.head_height());
    paint_head(picture, &head)?;
    let rows = body.split_evenly((picture.panels.len(), 1));
    let last = rows.len().saturating_sub(1);
    for (index, (panel, row)) in picture.panels.iter().zip(&rows).enumerate() {
        paint_panel(picture, panel, row, index == 0, index == last)?;
    }
    area.present()
}

fn paint_head<B: DrawingBackend>(picture: &Picture, area: &DrawingArea<B, Shift>) -> Drawn<B> {
    let large = (FONT, 24).into_font().color(&INK);
    area.draw(&Text::new(picture.title.as_str(), (20, 12), large))?;
    let plain = (FONT, 16).into_font().color(&INK);
    area.draw(&Text::new(picture.about.as_str(), (20, 44), plain.clone()))?;
    let middle = plain.pos(Pos::new(HPos::Left, VPos::Center));
    for key in &picture.legend {
        let (x, y) = key.at;
        paint_line(area, &[(x, y), (x + SAMPLE - 8, y)], key.pen)?;
        area.draw(&Text::new(
            key.name.as_str(),
            (x + SAMPLE, y),
            middle.clone(),
        ))?;
    }
    Ok(())
}

fn paint_line<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    points: &[(i32, i32)],
    pen: Pen,
) -> Drawn<B> {
    let style = pen.color.stroke_width(pen.width);
    if pen.dashed {
        area.draw(&DashedPathElement::new(points.to_vec(), 6, 4, style))
    } else {
        area.draw(&PathElement::new(points.to_vec(), style))
    }
}

fn paint_panel<B: DrawingBackend>(
    picture: &Picture,
    panel: &Panel,
    area: &DrawingArea<B, Shift>,
    first: bool,
    last: bool,
) -> Drawn<B> {
    let title = (FONT, 14).into_font().color(&INK);
    area.draw(&Text::new(
        panel.title.as_str(),
        (i32::try_from(LEFT).unwrap_or(0), 4),
        title,
    ))?;
    let mut chart: Chart<'_, B> = ChartBuilder::on(area)
        .margin_top(24)
        .margin_right(RIGHT)
        .margin_bottom(4)
        .y_label_area_size(LEFT)
        .x_label_area_size(if last { 40 } else { 8 })
        .build_cartesian_2d(0.0..picture.seconds, panel.scale.clone())?;

    paint_phases(picture, &mut chart, &panel.scale.range(), first)?;
    let label = (FONT, LABELS).into_font().color(&INK);
    chart
        .configure_mesh()
        .bold_line_style(FAINT)
        .light_line_style(TRANSPARENT)
        .axis_style(INK)
        .label_style(label)
        .x_labels(13)
        .x_label_formatter(&|second| {
            if last {
                format!("{second:.0}")
            } else {
                String::new()
            }
        })
        .x_desc(if last { "seconds" } else { "" })
        .draw()?;
    // The first limit is the tested one: it is drawn on top.
    for line in panel.lines.iter().rev() {
        paint_values(line, picture.step, &mut chart)?;
    }
    Ok(())
}

fn paint_phases<B: DrawingBackend>(
    picture: &Picture,
    chart: &mut Chart<'_, B>,
    values: &std::ops::Range<f64>,
    named: bool,
) -> Drawn<B> {
    for ((name, from, to), shade) in picture.phases.iter().zip(SHADES.iter().cycle()) {
        let corners = [(*from, values.start), (*to, values.end)];
        chart.draw_series([Rectangle::new(corners, shade.filled())])?;
        if named {
            let style = (FONT, LABELS).into_font().color(&RGBColor(110, 110, 110));
            let style = style.pos(Pos::new(HPos::Center, VPos::Top));
            let middle = (from + to) / 2.0;
            chart.draw_series([Text::new(name.clone(), (middle, values.end), style)])?;
        }
    }
    Ok(())
}

fn paint_values<B: DrawingBackend>(line: &Line, step: f64, chart: &mut Chart<'_, B>) -> Drawn<B> {
    let style = line.pen.color.stroke_width(line.pen.width);
    let point = |(index, value): (usize, &Option<f64>)| {
        value.map(|value| ((index as f64 + 0.5) * step, value))
    };
    let points: Vec<Option<(f64, f64)>> = line.values.iter().enumerate().map(point).collect();
    for part in points.split(Option::is_none) {
        let part: Vec<(f64, f64)> = part.iter().flatten().copied().collect();
        if part.is_empty() {
            continue;
        }
        if line.pen.dashed {
            chart.draw_series(DashedLineSeries::new(part, 6, 4, style))?;
        } else {
            chart.draw_series(LineSeries::new(part, style))?;
        }
    }
    Ok(())
}
