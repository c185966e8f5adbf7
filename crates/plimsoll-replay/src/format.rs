//! The formats of logs, and their detection.

use crate::common::{self, Common};
use crate::csv::Columns;
use crate::duration::DurationUnit;
use crate::json;
use crate::record::{Record, Why};
use crate::wanted::Wanted;

/// The format of the lines of a log. Without [`Logs::format`](crate::Logs::format) it is detected: the format in which most of the first
/// lines can be read.
///
/// ```
/// use plimsoll_replay::LogFormat;
///
/// assert_eq!(LogFormat::named("json"), Some(LogFormat::Json));
/// assert_eq!(LogFormat::ALL.map(LogFormat::as_str), ["json", "envoy", "combined", "csv", "times"]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum LogFormat {
    /// The common or the combined format, with fields that servers append: nginx' `$request_time`, `X-Forwarded-For`, Traefik's
    /// `12ms`.
    Combined,
    /// A JSON object on each line, as Caddy, Traefik and Envoy write them, or one with the names of nginx variables.
    Json,
    /// Comma-separated values with a header line that names the columns: at least a moment (`time`, `start`) and a path (`path`, `uri`,
    /// `request`).
    Csv,
    /// Envoy's default text format.
    Envoy,
    /// Lines that begin with a moment. Their requests have no path, method or client.
    Times,
}

impl LogFormat {
    /// All formats, in the order in which they are tried.
    pub const ALL: [Self; 5] = [
        Self::Json,
        Self::Envoy,
        Self::Combined,
        Self::Csv,
        Self::Times,
    ];

    /// The name of the format: `combined`, `json`, `csv`, `envoy`, `times`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Combined => "combined",
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Envoy => "envoy",
            Self::Times => "times",
        }
    }

    /// The format with this name. `None` if there is none.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.as_str() == name)
    }
}

impl std::fmt::Display for LogFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// Settings for reading a log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hints {
    pub(crate) format: Option<LogFormat>,
    pub(crate) unit: Option<DurationUnit>,
    /// The header fields that are needed.
    pub(crate) wanted: Wanted,
}

/// Reads the lines of one log.
#[derive(Clone, Debug)]
pub(crate) struct Parser {
    pub(crate) format: LogFormat,
    unit: Option<DurationUnit>,
    wanted: Wanted,
    common: Common,
    columns: Option<Columns>,
}

/// The content of a line.
pub(crate) enum Parsed {
    Request,
    /// A header or a comment.
    Nothing,
}

impl Parser {
    pub(crate) fn new(format: LogFormat, hints: &Hints) -> Self {
        let unit = hints.unit;
        let mut wanted = hints.wanted.clone();
        let named = wanted.header("referer") || wanted.header("user-agent");
        Self {
            format,
            unit,
            wanted,
            common: Common::new(unit, named),
            columns: None,
        }
    }

    /// Detects the format of a log that begins with these lines: the one in which most of them can be read. `None` if none of
    /// them can be read.
    pub(crate) fn detect<'l>(
        lines: &(impl Iterator<Item = &'l str> + Clone),
        hints: &Hints,
    ) -> Option<Self> {
        let tried = LogFormat::ALL.into_iter().map(|format| {
            let mut parser = Self::new(format, hints);
            let mut record = Record::default();
            let reads = |line: &&str| {
                record.clear();
                matches!(parser.parse(line, &mut record), Ok(Parsed::Request))
            };
            let count = lines.clone().filter(reads).count();
            // Lines of any text may begin with a digit, so at least half of the lines must be moments.
            let is = format != LogFormat::Times || count * 2 >= lines.clone().count();
            (if is { count } else { 0 }, format)
        });
        // If several formats read equally many lines, the first one.
        let best = tried.rev().max_by_key(|(count, _)| *count)?;
        (best.0 > 0).then(|| Self::new(best.1, hints))
    }

    /// Reads a line into a cleared record.
    pub(crate) fn parse(&mut self, line: &str, to: &mut Record) -> Result<Parsed, Why> {
        if line.is_empty() || line.starts_with('#') {
            return Ok(Parsed::Nothing);
        }
        let read = match self.format {
            LogFormat::Combined => self.common.read(line, to),
            LogFormat::Json => json::read(line, self.unit, &mut self.wanted, to),
            LogFormat::Envoy => common::envoy(line, to),
            LogFormat::Times => common::times(line, to),
            LogFormat::Csv => match &self.columns {
                Some(columns) => columns.line(line, to),
                None => {
                    self.columns = Columns::read(line, self.unit);
                    return match self.columns {
                        Some(_) => Ok(Parsed::Nothing),
                        None => Err(
                            "it is no header with a moment (time, start) and a path (path, uri, request)",
                        ),
                    };
                }
            },
        };
        read.map(|()| Parsed::Request)
    }
}
