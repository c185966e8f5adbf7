//! The columns of the table of limits. If they do not all fit, the more important ones are shown.

use ratatui::layout::{Alignment, Constraint};

use crate::app::Row;
use crate::numbers::{count, number, percent, rate, spark};

/// A column.
pub(crate) struct Column {
    pub(crate) title: &'static str,
    pub(crate) width: u16,
    pub(crate) alignment: Alignment,
    /// The rank: if there is not room for all columns, those with the lowest ranks are shown.
    rank: u8,
    pub(crate) text: fn(&Row) -> String,
}

const fn number_column(
    title: &'static str,
    width: u16,
    rank: u8,
    text: fn(&Row) -> String,
) -> Column {
    Column {
        title,
        width,
        alignment: Alignment::Right,
        rank,
        text,
    }
}

const fn word_column(
    title: &'static str,
    width: u16,
    rank: u8,
    text: fn(&Row) -> String,
) -> Column {
    Column {
        alignment: Alignment::Left,
        ..number_column(title, width, rank, text)
    }
}

/// The least width of the name, which also gets the remaining space.
pub(crate) const NAME: u16 = 12;
/// The gap between columns.
pub(crate) const GAP: u16 = 2;
const BAR: u16 = 10;
const SPARK: u16 = 30;

const COLUMNS: [Column; 12] = [
    word_column("kind", 11, 7, |row| row.limit.word().to_owned()),
    word_column("mode", 7, 8, |row| row.limit.mode.clone()),
    number_column("keys", 6, 10, |row| {
        row.limit.keys.map_or_else(String::new, count)
    }),
    number_column("in use", 7, 1, |row| count(row.limit.in_use)),
    number_column("limit", 9, 2, |row| count(row.limit.limit)),
    number_column("full", 4, 4, |row| match row.limit.keyed {
        true => String::new(),
        false => percent(row.limit.saturation),
    }),
    word_column("", BAR, 11, bar),
    number_column("waiting", 11, 6, queue),
    number_column("granted", 8, 3, |row| rate(row.last().granted)),
    number_column("refused", 8, 0, |row| rate(row.last().refused)),
    number_column("shadow", 8, 5, |row| rate(row.last().shadow)),
    number_column("all refused", 11, 9, |row| count(row.limit.refused_total())),
];

const HISTORY: Column = word_column("granted, last seconds", SPARK, 12, |row| {
    spark(row.history.iter().map(|it| it.granted), SPARK.into())
});

/// The columns that fit beside the name.
pub(crate) fn columns(width: u16) -> Vec<&'static Column> {
    let mut left = width.saturating_sub(NAME);
    let mut ranked: Vec<&Column> = COLUMNS.iter().chain([&HISTORY]).collect();
    ranked.sort_by_key(|it| it.rank);
    // Stops at the first column that does not fit, so that no less important one is shown in its place.
    let fit = ranked.iter().take_while(|it| {
        let room = left.checked_sub(it.width + GAP);
        left = room.unwrap_or(0);
        room.is_some()
    });
    let lowest = fit.last().map_or(0, |it| it.rank + 1);
    COLUMNS
        .iter()
        .chain([&HISTORY])
        .filter(|it| it.rank < lowest)
        .collect()
}

pub(crate) fn widths(columns: &[&Column]) -> Vec<Constraint> {
    let name = Constraint::Min(NAME);
    let others = columns.iter().map(|it| Constraint::Length(it.width));
    std::iter::once(name).chain(others).collect()
}

/// The saturation of a limit; none for a limit with keys, because each key has its own.
fn bar(row: &Row) -> String {
    if row.limit.keyed {
        return String::new();
    }
    let share = row.limit.saturation.clamp(0.0, 1.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "0 to 10"
    )]
    let full = (share * f64::from(BAR)).round() as usize;
    format!(
        "{}{}",
        "█".repeat(full),
        "░".repeat(usize::from(BAR) - full)
    )
}

#[expect(clippy::cast_precision_loss, reason = "to be shown")]
fn queue(row: &Row) -> String {
    let (waiting, bound) = (row.limit.waiting, row.limit.queue_bound);
    match (waiting, bound) {
        (0, 0) => "·".to_owned(),
        (_, bound) if bound as f64 >= 1e15 => count(waiting),
        _ => format!("{} of {}", count(waiting), number(bound as f64)),
    }
}
