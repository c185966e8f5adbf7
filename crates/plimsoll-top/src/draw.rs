//! Draws the display.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row as TableRow, Table};

use crate::app::{App, Connection, Point, Section};
use crate::columns::{columns, widths};
use crate::details::details;
use crate::numbers::{count, rate, span};
use crate::sections::{aligned, draw_table, nothing, proxies, reload, upstreams};
use crate::styles::Styles;

/// Draws the display, with colours if `coloured`.
pub fn render(app: &App, coloured: bool, frame: &mut Frame<'_>) {
    let styles = Styles::new(coloured);
    let area = frame.area();
    let [head, tabs, body, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(header(app, styles, head.width), head);
    frame.render_widget(sections(app, styles), tabs);
    match app.section {
        Section::Limits => limits(app, styles, body, frame),
        Section::Upstreams => upstreams(app, styles, body, frame),
        Section::Proxies => proxies(app, styles, body, frame),
        Section::Reload => reload(app, styles, body, frame),
    }
    frame.render_widget(footer(app, styles), foot);
    if app.has_help {
        help(styles, area, frame);
    }
}

fn header(app: &App, styles: Styles, width: u16) -> Line<'static> {
    let (mark, word, style) = match &app.connection {
        Connection::Connecting => ("○", "connecting".to_owned(), styles.dim()),
        Connection::Live => ("●", "live".to_owned(), styles.good()),
        Connection::Paused => ("■", "paused".to_owned(), styles.waiting()),
        Connection::Disconnected(_) => ("×", "away".to_owned(), styles.refused()),
    };
    let mut spans = vec![
        Span::styled("Plimsoll ", styles.title()),
        Span::raw(format!("{} ", app.server)),
        Span::styled(format!("{mark} {word}"), style),
    ];
    let sum = |of: fn(&Point) -> f64| app.rows.iter().map(|row| of(&row.last())).sum::<f64>();
    let waiting: u64 = app.rows.iter().map(|row| row.limit.waiting).sum();
    let refused = sum(|it| it.refused);
    let mut facts = vec![
        (
            format!("granted {}", rate(sum(|it| it.granted))),
            styles.granted(),
        ),
        (
            format!("refused {}", rate(refused)),
            if refused > 0.0 {
                styles.refused()
            } else {
                styles.dim()
            },
        ),
        (
            format!("shadow {}", rate(sum(|it| it.shadow))),
            styles.shadow(),
        ),
        (format!("waiting {}", count(waiting)), styles.waiting()),
    ];
    let tick = &app.tick;
    for (word, value) in [
        ("leases", tick.leases),
        ("in flight", tick.in_flight),
        ("connections", tick.connections),
    ] {
        facts.extend(value.map(|it| (format!("{word} {}", count(it)), Style::new())));
    }
    if !app.tick.version.is_empty() {
        let up = span(Duration::from_millis(app.tick.uptime_ms.unwrap_or(0)));
        facts.push((format!("{} up {up}", app.tick.version), styles.dim()));
    }
    let mut taken: usize = spans.iter().map(Span::width).sum();
    for (fact, style) in facts {
        taken += fact.chars().count() + 3;
        if taken > usize::from(width) {
            break;
        }
        spans.push(Span::styled("   ", Style::new()));
        spans.push(Span::styled(fact, style));
    }
    Line::from(spans)
}

fn sections(app: &App, styles: Styles) -> Line<'static> {
    // An error has a line of its own, so that it is visible on small terminals too.
    if let Connection::Disconnected(why) = &app.connection {
        return Line::styled(format!("away: {why}; trying again"), styles.refused());
    }
    let mut spans = Vec::new();
    for section in Section::ALL {
        let much = match section {
            Section::Limits if app.rows.len() < app.tick.limits_total => {
                format!(" {} of {}", app.rows.len(), app.tick.limits_total)
            }
            Section::Limits => format!(" {}", app.rows.len()),
            Section::Upstreams => format!(" {}", app.tick.upstreams.len()),
            Section::Proxies => format!(" {}", app.tick.quotas.as_ref().map_or(0, |it| it.streams)),
            Section::Reload => match &app.tick.reload {
                Some(reload) if reload.errors.is_some() => " wrong".to_owned(),
                Some(_) => " done".to_owned(),
                None => String::new(),
            },
        };
        let style = match section == app.section {
            true => styles.title().add_modifier(Modifier::REVERSED),
            false => styles.dim(),
        };
        spans.push(Span::styled(format!(" {}{much} ", section.word()), style));
        spans.push(Span::raw(" "));
    }
    Line::from(spans)
}

fn limits(app: &App, styles: Styles, area: Rect, frame: &mut Frame<'_>) {
    let open = app.selected().filter(|_| app.is_open);
    // If there are few rows, the details take them from the table.
    let (table, rest) = match open {
        None => (Some(area), None),
        Some(_) if area.height < 16 => (None, Some(area)),
        Some(_) => {
            let rows = u16::try_from(app.shown().len()).unwrap_or(u16::MAX);
            let table = rows.saturating_add(2).clamp(4, area.height * 2 / 5);
            let [table, rest] =
                Layout::vertical([Constraint::Length(table), Constraint::Min(1)]).areas(area);
            (Some(table), Some(rest))
        }
    };
    if let Some(area) = table {
        limit_table(app, styles, area, frame);
    }
    if let (Some(row), Some(area)) = (open, rest) {
        let keys = app
            .keys
            .as_ref()
            .filter(|(name, _)| *name == row.limit.name);
        details(row, keys.map(|(_, keys)| keys), styles, area, frame);
    }
}

fn limit_table(app: &App, styles: Styles, area: Rect, frame: &mut Frame<'_>) {
    let shown = app.shown();
    if shown.is_empty() {
        let why = match app.connection {
            Connection::Connecting => "waiting for the server".to_owned(),
            _ if app.search.is_empty() => "this server has no limits".to_owned(),
            _ => format!("no limit has a name with {:?}; Esc shows all", app.search),
        };
        return nothing(&why, styles, area, frame);
    }
    let columns = columns(area.width);
    let heads = columns
        .iter()
        .map(|it| Cell::new(aligned(it.title, it.alignment)));
    let head = std::iter::once(Cell::new("limit")).chain(heads);
    let rows = shown.iter().map(|row| {
        let refuses = row.last().refused > 0.0;
        let name = match (refuses, row.limit.is_shadow()) {
            (true, _) => styles.refused(),
            (_, true) => styles.shadow(),
            _ => styles.title(),
        };
        let cells = columns.iter().map(|column| {
            let text = (column.text)(row);
            let style = match column.title {
                "refused" if refuses => styles.refused(),
                "shadow" if row.last().shadow > 0.0 => styles.shadow(),
                "waiting" if row.limit.waiting > 0 => styles.waiting(),
                "granted" => styles.granted(),
                "" if row.limit.saturation >= 1.0 => styles.refused(),
                "" => styles.granted(),
                title if title.starts_with("granted") => styles.granted(),
                _ => Style::new(),
            };
            Cell::new(aligned(text, column.alignment)).style(style)
        });
        // Marked by a sign too, not by colour alone.
        let mark = if refuses { "!" } else { " " };
        let name = Cell::new(format!("{mark}{}", row.limit.name)).style(name);
        TableRow::new(std::iter::once(name).chain(cells))
    });
    draw_table(
        Table::new(rows, widths(&columns)).header(TableRow::new(head).style(styles.dim())),
        app,
        area,
        frame,
    );
}

fn footer(app: &App, styles: Styles) -> Line<'static> {
    if app.is_searching {
        return Line::from(vec![
            Span::styled("search ", styles.title()),
            Span::raw(format!("{}▏", app.search)),
        ]);
    }
    let mut text = format!(
        "? keys   / search   s order: {}   Enter details   q leave",
        app.order.word()
    );
    if !app.search.is_empty() {
        text = format!("only {:?}, Esc shows all   {text}", app.search);
    }
    Line::styled(text, styles.dim())
}

const HELP: [(&str, &str); 10] = [
    ("↑ ↓ j k", "choose a row"),
    ("PgUp PgDn", "ten rows"),
    ("Home End", "first, last"),
    ("Enter", "details, and closes them"),
    ("/", "search names of limits"),
    ("s", "the next order"),
    ("p Space", "pause, and go on"),
    ("Tab", "the next section"),
    ("Esc", "closes details, ends a search"),
    ("q Ctrl-C", "leave"),
];

fn help(styles: Styles, area: Rect, frame: &mut Frame<'_>) {
    let (width, height) = (44.min(area.width), 12.min(area.height));
    let place = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    let lines = HELP.map(|(keys, what)| {
        Line::from(vec![
            Span::styled(format!(" {keys:<11}"), styles.title()),
            Span::raw(what),
        ])
    });
    frame.render_widget(Clear, place);
    let help = Paragraph::new(lines.to_vec()).block(Block::bordered().title(" keys "));
    frame.render_widget(help, place);
}
