//! TOML as the same tree that YAML and JSON become.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::place::Place;
use crate::problem::{Problem, Read, label};
use crate::tree::{Entry, Node, Value};

/// The same depth as for the other formats.
const MAX_DEPTH: usize = 64;

/// Reads a document.
pub(crate) fn tree(text: &str) -> Read<Node> {
    let lines = Lines::of(text);
    let table = DeTable::parse(text).map_err(|error| {
        let span = error.span().unwrap_or_default();
        let message = error.message().lines().next().unwrap_or_default();
        let problem = Problem::new(lines.place(span.start), format!("not TOML: {message}"));
        match text.get(span) {
            Some(key) if message == "duplicate key" => problem.under_key(&label(key)),
            _ => problem,
        }
    })?;
    let span = table.span();
    lines.table(table.get_ref(), &span, MAX_DEPTH)
}

/// The starts of the lines of a text.
struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    fn of(text: &'t str) -> Self {
        let ends = text.match_indices('\n').map(|(at, _)| at + 1);
        Self {
            text,
            starts: std::iter::once(0).chain(ends).collect(),
        }
    }

    fn place(&self, at: usize) -> Place {
        let line = self.starts.partition_point(|start| *start <= at).max(1);
        let before = self.text.get(self.starts[line - 1]..at).unwrap_or_default();
        Place::new(line, before.chars().count() + 1)
    }

    fn table(&self, table: &DeTable<'_>, span: &Range<usize>, depth: usize) -> Read<Node> {
        let place = self.place(span.start);
        if depth == 0 {
            return Err(Problem::new(
                place,
                format!("nested more than {MAX_DEPTH} deep"),
            ));
        }
        let mut entries: Vec<_> = table.iter().collect();
        // In the order of the file.
        entries.sort_by_key(|(key, _)| key.span().start);
        let entries = entries
            .into_iter()
            .map(|(key, value)| self.entry(key, value, depth - 1))
            .collect::<Read<Vec<_>>>()?;
        let value = Value::Map(entries);
        Ok(Node::new(place, value))
    }

    fn entry(
        &self,
        key: &Spanned<DeString<'_>>,
        value: &Spanned<DeValue<'_>>,
        depth: usize,
    ) -> Read<Entry> {
        let name = key.get_ref().to_string();
        let value = self.node(value, depth);
        Ok(Entry {
            value: value.map_err(|problem| problem.under_key(&label(&name)))?,
            place: self.place(key.span().start),
            key: name,
        })
    }

    fn node(&self, value: &Spanned<DeValue<'_>>, depth: usize) -> Read<Node> {
        let span = value.span();
        let place = self.place(span.start);
        let value = match value.get_ref() {
            DeValue::Table(table) => return self.table(table, &span, depth),
            DeValue::Array(items) if depth > 0 => {
                let item = |(index, item)| {
                    let node = self.node(item, depth - 1);
                    node.map_err(|problem| problem.under_index(index))
                };
                let items = items.iter().enumerate().map(item);
                Value::List(items.collect::<Read<_>>()?)
            }
            DeValue::Array(_) => {
                let message = format!("nested more than {MAX_DEPTH} deep");
                return Err(Problem::new(place, message));
            }
            DeValue::String(text) => Value::Scalar {
                text: text.to_string(),
                quoted: true,
            },
            DeValue::Integer(number) => {
                let text = number.as_str();
                // Numbers such as `0x10`, in decimal.
                let decimal = u64::from_str_radix(text, number.radix());
                plain(decimal.map_or_else(|_| text.to_owned(), |number| number.to_string()))
            }
            DeValue::Float(number) => plain(number.as_str().to_owned()),
            DeValue::Boolean(flag) => plain(flag.to_string()),
            DeValue::Datetime(time) => plain(time.to_string()),
        };
        Ok(Node::new(place, value))
    }
}

const fn plain(text: String) -> Value {
    Value::Scalar {
        text,
        quoted: false,
    }
}
