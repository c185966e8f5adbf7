//! A report as text that fits a screen of 80 columns and 24 lines.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::report::{AgainstReport, FlipReport, KeyReport, LimitReport, Report, SuggestReport};
use crate::words::{count, cut, many, moment, percent, printable, span};

const COLUMNS: usize = 80;
const LINES: usize = 24;

impl Report {
    /// The report as text for a screen of 80 columns and 24 lines. [`json`](Self::json) and [`html`](Self::html) have the rest.
    #[must_use]
    pub fn text(&self) -> String {
        let mut lines = self.head();
        let more = self.against.is_some() || self.suggestions.is_some();
        lines.push(String::new());
        self.limit_lines(if more { 2 } else { 4 }, &mut lines);
        if !more {
            self.route_lines(3, &mut lines);
            key_lines(
                "most refused",
                self.limits.iter().flat_map(|limit| &limit.top),
                3,
                &mut lines,
            );
        }
        if let Some(against) = &self.against {
            let keys = if self.suggestions.is_some() { 1 } else { 2 };
            against_lines(against, keys, &mut lines);
        }
        if let Some(suggestions) = &self.suggestions {
            suggest_lines(
                suggestions,
                if self.against.is_some() { 1 } else { 2 },
                &mut lines,
            );
        }
        self.note_lines(LINES.saturating_sub(lines.len()), &mut lines);
        let mut text = String::new();
        for line in lines {
            // Writing to a string never fails.
            let _ = writeln!(text, "{}", cut(&printable(line.trim_end()), COLUMNS));
        }
        text
    }

    /// The report as indented JSON, with a line break at its end. It has all fields of the report.
    #[must_use]
    pub fn json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    fn head(&self) -> Vec<String> {
        let files: Vec<&str> = self.logs.iter().map(|log| log.file.as_str()).collect();
        let mut formats: Vec<&str> = self.logs.iter().filter_map(|log| log.format).collect();
        formats.dedup();
        let bad: u64 = self.logs.iter().map(|log| log.bad).sum();
        let until = moment(&self.until);
        let until = if self.from.get(..10) == self.until.get(..10) {
            until[11..].to_owned()
        } else {
            until
        };
        let mut lines = vec![
            format!(
                "{}, {} to {until} UTC ({})",
                many(self.requests, "request"),
                moment(&self.from),
                span(self.seconds)
            ),
            format!(
                "of {} ({}), under {}",
                files.join(", "),
                formats.join(", "),
                self.config
            ),
        ];
        let waits = match self.waits.requests {
            0 => String::new(),
            waited => format!(
                "{} waited: half {}, p99 {}, most {}",
                count(waited),
                span(self.waits.p50),
                span(self.waits.p99),
                span(self.waits.most)
            ),
        };
        let width = count(self.requests).len();
        lines.push(format!(
            "admitted {:>width$}  {:>9}  {waits}",
            count(self.admitted),
            percent(1.0 - self.refused_share)
        ));
        let again = match self.refused_then {
            0 => String::new(),
            then => format!(
                "{} of them had 429 or 503 then, of {} such",
                count(self.refused_again),
                count(then)
            ),
        };
        lines.push(format!(
            "refused  {:>width$}  {:>9}  {again}",
            count(self.refused),
            percent(self.refused_share)
        ));
        if bad > 0 {
            let example = self.bad_lines.first().map_or_else(String::new, |bad| {
                format!(": {}:{}: {}", bad.file, bad.line, bad.why)
            });
            let lines_of = if bad == 1 { "line" } else { "lines" };
            lines.push(format!(
                "unread   {:>width$}  {lines_of}{example}",
                count(bad)
            ));
        }
        lines
    }

    fn limit_lines(&self, most: usize, lines: &mut Vec<String>) {
        let mut limits: Vec<&LimitReport> =
            self.limits.iter().filter(|limit| limit.asked > 0).collect();
        limits.sort_by_key(|limit| std::cmp::Reverse(limit.refused));
        lines.push(format!(
            "{:<16} {:<16} {:>11} {:>10} {:>9} {:>9}",
            "limit", "", "asked", "refused", "share", "alone"
        ));
        for limit in limits.iter().take(most) {
            let is = if limit.shadow {
                format!("shadow, {}", limit.is)
            } else {
                limit.is.clone()
            };
            lines.push(format!(
                "{:<16} {:<16} {:>11} {:>10} {:>9} {:>9}",
                cut(&limit.limit, 16),
                cut(&is, 16),
                count(limit.asked),
                count(limit.refused),
                percent(limit.refused_share),
                percent(limit.alone_share)
            ));
        }
        if limits.len() > most {
            let more = limits.len() - most;
            lines.push(format!("… and {}", many(more as u64, "more limit")));
        }
        let firsts = limits
            .iter()
            .filter_map(|limit| Some((limit, limit.first.as_ref()?)));
        for (limit, first) in firsts.take(most / 2) {
            let keys = match limit.keys {
                0 => String::new(),
                keys => format!(
                    "; {}{} of {} keys",
                    if limit.keys_exact { "" } else { "≈" },
                    count(limit.refused_keys),
                    count(keys)
                ),
            };
            let time = first.at.get(11..19).unwrap_or_default();
            let place = format!("{}:{}", first.file, first.line);
            let begin = format!("  {}: first {time} {place} ", cut(&limit.limit, 16));
            // The number of keys is worth more than the end of a path.
            let taken = begin.chars().count() + keys.chars().count();
            let room = COLUMNS.saturating_sub(taken).min(24);
            lines.push(format!(
                "{begin}{}{keys}",
                cut(&printable(&first.request), room)
            ));
        }
    }

    fn route_lines(&self, most: usize, lines: &mut Vec<String>) {
        let mut routes: Vec<_> = self
            .routes
            .iter()
            .filter(|route| route.refused > 0)
            .collect();
        routes.sort_by_key(|route| std::cmp::Reverse(route.refused));
        if routes.is_empty() {
            return;
        }
        lines.push(format!(
            "{:<33} {:>11} {:>10} {:>9}",
            "route", "requests", "refused", "share"
        ));
        for route in routes.iter().take(most) {
            lines.push(format!(
                "{:<33} {:>11} {:>10} {:>9}  {}",
                cut(&route.route, 33),
                count(route.requests),
                count(route.refused),
                percent(route.refused_share),
                largest(&route.by)
            ));
        }
    }

    /// Adds the notes, as far as there is room.
    fn note_lines(&self, room: usize, lines: &mut Vec<String>) {
        let mut left = room;
        for (index, note) in self.notes.iter().enumerate() {
            let wrapped = wrap(note, COLUMNS - 2);
            let last = index + 1 == self.notes.len();
            if wrapped.len() + usize::from(!last) > left {
                if left > 0 {
                    let more = (self.notes.len() - index) as u64;
                    lines.push(format!(
                        "! and {}: see --json or --html",
                        many(more, "more note")
                    ));
                }
                return;
            }
            left -= wrapped.len();
            for (line, text) in wrapped.iter().enumerate() {
                lines.push(format!("{} {text}", if line == 0 { "!" } else { " " }));
            }
        }
    }
}

/// The name with the largest count.
fn largest(counts: &BTreeMap<String, u64>) -> String {
    let most = counts.iter().max_by_key(|(_, count)| **count);
    most.map_or_else(String::new, |(name, _)| name.clone())
}

fn key_lines<'k>(
    title: &str,
    keys: impl Iterator<Item = &'k KeyReport>,
    most: usize,
    lines: &mut Vec<String>,
) {
    let mut keys: Vec<&KeyReport> = keys.collect();
    keys.sort_by_key(|key| std::cmp::Reverse(key.count));
    for (index, key) in keys.into_iter().take(most).enumerate() {
        let title = if index == 0 { title } else { "" };
        lines.push(format!(
            "{title:<16} {:<16} {:<33} {:>10}",
            cut(&key.limit, 16),
            cut(&key.key, 33),
            count(key.count)
        ));
    }
}

fn against_lines(against: &AgainstReport, keys: usize, lines: &mut Vec<String>) {
    lines.push(format!("against {}", against.config));
    let mut side = |sign: &str, what: &str, flips: &FlipReport| {
        let by = largest(&flips.limits);
        let by = if by.is_empty() {
            by
        } else {
            format!("most by {by}")
        };
        lines.push(format!("{sign} {:>10} {what}  {by}", count(flips.requests)));
        for key in flips.top.iter().take(keys) {
            lines.push(format!(
                "             {:<16} {:<33} {:>10}",
                cut(&key.limit, 16),
                cut(&key.key, 33),
                count(key.count)
            ));
        }
    };
    side("-", "admitted before, refused now", &against.to_refused);
    side("+", "refused before, admitted now", &against.to_admitted);
}

fn suggest_lines(suggestions: &SuggestReport, most: usize, lines: &mut Vec<String>) {
    lines.push(format!(
        "{:<27} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "what each key asks for", "p50", "p90", "p99", "p99.9", "most"
    ));
    for limit in suggestions.limits.iter().take(most) {
        for (index, peaks) in limit.peaks.iter().enumerate() {
            let name = if index == 0 { limit.limit.as_str() } else { "" };
            let spans = match peaks.seconds {
                1 => "1 s",
                10 => "10 s",
                _ => "1 min",
            };
            let [p50, p90, p99, p999, most] =
                [peaks.p50, peaks.p90, peaks.p99, peaks.p999, peaks.most].map(count);
            lines.push(format!(
                "{:<16} in {spans:<7} {p50:>8} {p90:>8} {p99:>8} {p999:>8} {most:>8}",
                cut(name, 16)
            ));
        }
    }
    for limit in suggestions.limits.iter().take(most + 1) {
        let now = format!("{} refuses {}", limit.now, percent(limit.now_share));
        let line = |verb: &str| {
            let found = match (&limit.suggested, limit.suggested_share) {
                (Some(suggested), Some(share)) => format!("{suggested}{verb} {}", percent(share)),
                _ => format!(
                    "none was found that refuses at most {}",
                    percent(suggestions.share)
                ),
            };
            format!("{:<16} {now}; {found}", cut(&limit.limit, 16))
        };
        let (long, short) = (line(" would refuse"), line(":"));
        let fits = long.chars().count() <= COLUMNS;
        lines.push(if fits { long } else { short });
    }
}

/// Wraps a text into lines of at most `most` characters.
fn wrap(text: &str, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.len() - 1;
        let line = &mut lines[last];
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > most {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}
