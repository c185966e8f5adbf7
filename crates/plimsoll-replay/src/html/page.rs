//! The parts of a page.

use crate::report::KeyReport;
use crate::words::{count, is_control};

/// The text of a page.
pub(super) struct Page(pub(super) String);

impl Page {
    pub(super) fn add(&mut self, text: &str) {
        self.0.push_str(text);
    }

    pub(super) fn section(&mut self, title: &str) {
        self.add(&format!("<section><h2>{title}</h2>"));
    }

    /// Begins a table. Columns of numbers are marked with `n:`.
    pub(super) fn head(&mut self, columns: &[&str]) {
        self.add("<div class=\"scroll\"><table><thead><tr>");
        for column in columns {
            match column.strip_prefix("n:") {
                Some(column) => self.add(&format!("<th class=\"n\">{column}</th>")),
                None => self.add(&format!("<th>{column}</th>")),
            }
        }
        self.add("</tr></thead><tbody>");
    }

    /// Writes a row. Cells with numbers are made by [`n`].
    pub(super) fn row(&mut self, cells: &[&str]) {
        self.add("<tr>");
        for cell in cells {
            match cell.strip_prefix(NUMBER) {
                Some(cell) => self.add(&format!("<td class=\"n\">{cell}</td>")),
                None => self.add(&format!("<td>{cell}</td>")),
            }
        }
        self.add("</tr>");
    }

    pub(super) fn end_table(&mut self) {
        self.add("</tbody></table></div>");
    }

    pub(super) fn keys<'k>(&mut self, keys: impl Iterator<Item = &'k KeyReport>) {
        self.head(&["limit", "key", "n:times"]);
        for key in keys {
            let error = if key.error > 0 {
                format!(" <span class=\"muted\">− {}</span>", count(key.error))
            } else {
                String::new()
            };
            self.row(&[
                &escape(&key.limit),
                &format!("<span class=\"key\">{}</span>", escape(&key.key)),
                &n(count(key.count) + &error),
            ]);
        }
        self.end_table();
    }
}

const NUMBER: char = '\u{1}';

/// A cell with a number.
pub(super) fn n(mut text: String) -> String {
    text.insert(0, NUMBER);
    text
}

pub(super) fn bar(share: f64, largest: f64) -> String {
    let width = if largest > 0.0 {
        share / largest * 100.0
    } else {
        0.0
    };
    format!("<span class=\"bar\"><i style=\"width:{width:.1}%\"></i></span>")
}

/// Escapes a text for HTML.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            letter if is_control(letter) => escaped.extend(letter.escape_default()),
            letter => escaped.push(letter),
        }
    }
    escaped
}
