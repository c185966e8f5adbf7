//! The sections besides limits: upstreams, proxies, the last reload.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Paragraph, Row as TableRow, Table, TableState, Wrap};

use crate::app::App;
use crate::columns::GAP;
use crate::numbers::{count, millis, number};
use crate::styles::Styles;

pub(crate) fn draw_table(table: Table<'_>, app: &App, area: Rect, frame: &mut Frame<'_>) {
    let table = table
        .column_spacing(GAP)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::new().with_selected(Some(app.selected));
    frame.render_stateful_widget(table, area, &mut state);
}

pub(crate) fn aligned<'a>(text: impl Into<Text<'a>>, alignment: Alignment) -> Text<'a> {
    text.into().alignment(alignment)
}

/// A table of texts and numbers, with numbers aligned to the right.
fn plain_table<const N: usize>(
    app: &App,
    styles: Styles,
    heads: [(&'static str, Constraint); N],
    rows: Vec<[String; N]>,
    area: Rect,
    frame: &mut Frame<'_>,
) {
    let side = |index: usize| match heads[index].1 {
        Constraint::Length(_) => Alignment::Right,
        _ => Alignment::Left,
    };
    let cells = |texts: [String; N]| {
        let cells = texts.into_iter().enumerate();
        TableRow::new(cells.map(|(index, text)| Cell::new(aligned(text, side(index)))))
    };
    let head = cells(heads.map(|(title, _)| title.to_owned())).style(styles.dim());
    let table = Table::new(rows.into_iter().map(cells), heads.map(|(_, width)| width));
    draw_table(table.header(head), app, area, frame);
}

pub(crate) fn nothing(text: &str, styles: Styles, area: Rect, frame: &mut Frame<'_>) {
    let text = Paragraph::new(text).style(styles.dim());
    frame.render_widget(
        text.alignment(Alignment::Center).wrap(Wrap { trim: true }),
        area,
    );
}

pub(crate) fn upstreams(app: &App, styles: Styles, area: Rect, frame: &mut Frame<'_>) {
    if app.tick.upstreams.is_empty() {
        return nothing(
            "no servers are behind this one: it is not a gateway",
            styles,
            area,
            frame,
        );
    }
    let rows = app.tick.upstreams.iter().map(|it| {
        [
            format!("{} {}", it.pool, it.address).trim().to_owned(),
            it.state.clone(),
            count(it.in_flight),
            count(it.answered),
            count(it.failed),
        ]
    });
    let heads = [
        ("upstream", Constraint::Min(32)),
        ("state", Constraint::Max(20)),
        ("in flight", Constraint::Length(9)),
        ("answered", Constraint::Length(8)),
        ("failed", Constraint::Length(6)),
    ];
    plain_table(app, styles, heads, rows.collect(), area, frame);
}

pub(crate) fn proxies(app: &App, styles: Styles, area: Rect, frame: &mut Frame<'_>) {
    let quotas = app.tick.quotas.iter().flat_map(|it| &it.shown);
    let rows = quotas.flat_map(|quota| {
        quota.shares.iter().map(move |it| {
            let key = quota.key.as_deref().unwrap_or_default();
            let has = it.has.as_ref();
            [
                format!("{} {key}", quota.limit).trim().to_owned(),
                match it.stream {
                    Some(stream) if !it.gone => format!("proxy {stream}"),
                    _ => "gone".to_owned(),
                },
                has.map_or("nothing".to_owned(), |it| {
                    format!("{} in {} s", count(it.tokens), it.seconds)
                }),
                it.wants_per_second
                    .map_or("–".to_owned(), |it| format!("{}/s", number(it))),
                it.expires_in.map_or("–".to_owned(), |it| millis(it * 1e3)),
                count(it.allowed),
                count(it.denied),
            ]
        })
    });
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return nothing(
            "no proxy shares a limit of this server (RLQS)",
            styles,
            area,
            frame,
        );
    }
    let heads = [
        ("limit", Constraint::Min(12)),
        ("who", Constraint::Max(9)),
        ("has", Constraint::Length(12)),
        ("wants", Constraint::Length(8)),
        ("runs out in", Constraint::Length(11)),
        ("let through", Constraint::Length(11)),
        ("refused", Constraint::Length(7)),
    ];
    plain_table(app, styles, heads, rows, area, frame);
}

pub(crate) fn reload(app: &App, styles: Styles, area: Rect, frame: &mut Frame<'_>) {
    let Some(reload) = &app.tick.reload else {
        return nothing(
            "the file has not been read again since the start",
            styles,
            area,
            frame,
        );
    };
    let (title, style, lines) = match &reload.errors {
        Some(errors) => (
            "The last file is wrong: the limits before it stay",
            styles.refused(),
            errors.clone(),
        ),
        None if reload.text.is_empty() => ("Nothing changed", styles.good(), Vec::new()),
        None => (
            "The last reload changed",
            styles.good(),
            reload.text.lines().map(str::to_owned).collect(),
        ),
    };
    let title = Line::styled(title, style);
    let text: Vec<Line<'_>> = std::iter::once(title)
        .chain(lines.into_iter().map(|it| Line::raw(format!("  {it}"))))
        .collect();
    frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: false }), area);
}
