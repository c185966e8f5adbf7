//! Comma-separated values, with a header that names them.

use std::borrow::Cow;

use crate::duration::DurationUnit;
use crate::fields::Field;
use crate::record::{Record, Why};

/// The error of a line that ends within quotes: its value may continue on the next line.
pub(crate) const OPEN: Why = "its last quote is not closed";

/// The fields of the columns.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    separator: char,
    of: Vec<(String, Option<Field>)>,
    unit: DurationUnit,
}

impl Columns {
    /// Reads the columns of a header. `None` if it names no moment, or no field of a request.
    pub(crate) fn read(header: &str, unit: Option<DurationUnit>) -> Option<Self> {
        let separator = [',', ';', '\t']
            .into_iter()
            .max_by_key(|it| header.matches(*it).count())?;
        let name = |text: Cow<'_, str>| {
            let name = text.trim().to_owned();
            let field = Field::named(&name).or_else(|| Field::named(&name.to_ascii_lowercase()));
            (name, field)
        };
        let of: Vec<_> = Values {
            rest: Some(header),
            separator,
            open: false,
        }
        .map(name)
        .collect();
        let has = |wanted: &[Field]| {
            of.iter()
                .any(|(_, field)| field.is_some_and(|it| wanted.contains(&it)))
        };
        let known =
            has(&[Field::Start, Field::End]) && has(&[Field::Target, Field::Path, Field::Request]);
        let unit = unit.unwrap_or(DurationUnit::Seconds);
        known.then_some(Self {
            separator,
            of,
            unit,
        })
    }

    pub(crate) fn line(&self, line: &str, to: &mut Record) -> Result<(), Why> {
        let mut values = Values {
            rest: Some(line),
            separator: self.separator,
            open: false,
        };
        let mut count = 0;
        for (name, field) in &self.of {
            let Some(value) = values.next() else {
                break;
            };
            count += 1;
            if let Some(field) = field {
                field.set(name, value.trim(), self.unit, to)?;
            }
        }
        if values.open {
            return Err(OPEN);
        }
        if count < self.of.len() || values.next().is_some() {
            return Err("it does not have as many values as the header");
        }
        to.complete()
    }
}

/// The values of a line.
struct Values<'l> {
    rest: Option<&'l str>,
    separator: char,
    /// Whether the last value has no closing quote.
    open: bool,
}

impl<'l> Iterator for Values<'l> {
    type Item = Cow<'l, str>;

    fn next(&mut self) -> Option<Cow<'l, str>> {
        let rest = self.rest?;
        let Some(quoted) = rest.strip_prefix('"') else {
            let (value, rest) = match rest.split_once(self.separator) {
                Some((value, rest)) => (value, Some(rest)),
                None => (rest, None),
            };
            self.rest = rest;
            return Some(Cow::Borrowed(value));
        };
        let (mut from, mut doubled) = (0, false);
        let end = loop {
            let Some(at) = quoted[from..].find('"') else {
                self.open = true;
                break quoted.len();
            };
            if quoted[from + at + 1..].starts_with('"') {
                doubled = true;
                from += at + 2;
            } else {
                break from + at;
            }
        };
        let value = &quoted[..end];
        let rest = quoted.get(end + 1..).unwrap_or_default();
        self.rest = rest.split_once(self.separator).map(|(_, rest)| rest);
        Some(match doubled {
            true => Cow::Owned(value.replace("\"\"", "\"")),
            false => Cow::Borrowed(value),
        })
    }
}
