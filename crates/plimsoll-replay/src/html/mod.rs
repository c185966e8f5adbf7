//! A report as one self-contained page, without scripts and without requests to a network.

mod chart;
mod page;

use self::page::{Page, bar, escape, n};
use crate::report::{AgainstReport, FlipReport, KeyReport, LimitReport, Report, SuggestReport};
use crate::words::{count, moment, percent, span};

const STYLE: &str = include_str!("style.css");

impl Report {
    /// The report as a self-contained HTML page with charts, without scripts and without requests to a network. It has a light and a dark
    /// theme, and styles for narrow screens and for paper.
    #[must_use]
    pub fn html(&self) -> String {
        let mut page = Page(String::new());
        page.add("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
        page.add("<title>plimsoll replay</title><style>");
        page.add(STYLE);
        page.add("</style></head><body><main>");
        self.page_head(&mut page);
        chart::over_time(self, &mut page.0);
        if let Some(against) = &self.against {
            against_section(against, &mut page);
        }
        self.limits_section(&mut page);
        if let Some(suggestions) = &self.suggestions {
            suggest_section(suggestions, &mut page);
        }
        self.routes_section(&mut page);
        self.keys_section(&mut page);
        self.notes_section(&mut page);
        page.add("</main></body></html>\n");
        page.0
    }

    fn page_head(&self, page: &mut Page) {
        let files: Vec<String> = self.logs.iter().map(|log| escape(&log.file)).collect();
        page.add(&format!(
            "<h1>{} under {}</h1>",
            files.join(", "),
            escape(&self.config)
        ));
        page.add(&format!(
            "<p class=\"muted\">{} to {} UTC, {}</p><section class=\"tiles\">",
            moment(&self.from),
            moment(&self.until),
            span(self.seconds)
        ));
        let mut tile = |class: &str, figure: String, what: String| {
            page.add(&format!(
                "<div class=\"{class}\"><b>{figure}</b><span>{what}</span></div>"
            ));
        };
        tile("", count(self.requests), "requests".to_owned());
        tile(
            "",
            percent(1.0 - self.refused_share),
            format!("admitted: {}", count(self.admitted)),
        );
        let class = if self.refused > 0 { "bad" } else { "" };
        tile(
            class,
            percent(self.refused_share),
            format!("refused: {}", count(self.refused)),
        );
        if self.waits.requests > 0 {
            let waits = &self.waits;
            tile(
                "",
                count(waits.requests),
                format!(
                    "waited: half {}, p99 {}, most {}",
                    span(waits.p50),
                    span(waits.p99),
                    span(waits.most)
                ),
            );
        }
        if self.refused_then > 0 {
            tile(
                "",
                count(self.refused_then),
                format!(
                    "had 429 or 503 then; {} of them are refused here",
                    count(self.refused_again)
                ),
            );
        }
        let bad: u64 = self.logs.iter().map(|log| log.bad).sum();
        if bad > 0 {
            tile("", count(bad), "lines could not be read".to_owned());
        }
        page.add("</section>");
    }

    fn limits_section(&self, page: &mut Page) {
        page.section("Limits");
        page.head(&[
            "limit",
            "",
            "n:asked",
            "n:refused",
            "n:share",
            "n:alone",
            "n:keys refused",
            "first refusal",
        ]);
        let largest = self
            .limits
            .iter()
            .map(|limit| limit.refused_share.max(limit.alone_share))
            .fold(0.0, f64::max);
        for limit in &self.limits {
            let shadow = if limit.shadow {
                " <span class=\"muted\">shadow</span>"
            } else {
                ""
            };
            let keys = match limit.keys {
                0 => String::new(),
                keys => format!(
                    "{}{} of {}",
                    if limit.keys_exact { "" } else { "≈ " },
                    count(limit.refused_keys),
                    count(keys)
                ),
            };
            page.row(&[
                &format!("<b>{}</b>{shadow}", escape(&limit.limit)),
                &format!("<span class=\"muted is\">{}</span>", escape(&limit.is)),
                &n(count(limit.asked)),
                &n(count(limit.refused)),
                &n(percent(limit.refused_share) + &bar(limit.refused_share, largest)),
                &n(percent(limit.alone_share) + &bar(limit.alone_share, largest)),
                &n(keys),
                &first(limit),
            ]);
        }
        page.end_table();
        page.add("<p class=\"muted\">Share: the refused fraction of the requests to which the limit applies. Alone: the same without the other limits.</p></section>");
    }

    fn routes_section(&self, page: &mut Page) {
        page.section("Routes");
        page.head(&["route", "n:requests", "n:refused", "n:share", "refused by"]);
        for route in &self.routes {
            let by: Vec<String> = route
                .by
                .iter()
                .map(|(limit, times)| format!("{} {}", escape(limit), count(*times)))
                .collect();
            page.row(&[
                &format!("<code>{}</code>", escape(&route.route)),
                &n(count(route.requests)),
                &n(count(route.refused)),
                &n(percent(route.refused_share)),
                &by.join(", "),
            ]);
        }
        if self.without_route > 0 {
            let none = "<span class=\"muted\">no route: not limited</span>";
            page.row(&[
                none,
                &n(count(self.without_route)),
                &n("0".to_owned()),
                &n("0 %".to_owned()),
                "",
            ]);
        }
        page.end_table();
        page.add("</section>");
    }

    fn keys_section(&self, page: &mut Page) {
        let keys: Vec<&KeyReport> = self.limits.iter().flat_map(|limit| &limit.top).collect();
        if keys.is_empty() {
            return;
        }
        page.section("Keys that are refused most");
        page.keys(keys.into_iter());
        page.add("</section>");
    }

    fn notes_section(&self, page: &mut Page) {
        page.section("To be known");
        page.add("<ul>");
        for note in &self.notes {
            page.add(&format!("<li>{}</li>", escape(note)));
        }
        for log in &self.logs {
            let format = log.format.unwrap_or("empty");
            page.add(&format!(
                "<li class=\"muted\">{}: {format}, {} lines, {} requests, {} unread</li>",
                escape(&log.file),
                count(log.lines),
                count(log.requests),
                count(log.bad)
            ));
        }
        page.add("</ul>");
        if !self.bad_lines.is_empty() {
            page.add("<h3>Lines that could not be read, for example</h3><ul>");
            for bad in &self.bad_lines {
                page.add(&format!(
                    "<li>{}:{}: {} <code>{}</code></li>",
                    escape(&bad.file),
                    bad.line,
                    escape(&bad.why),
                    escape(&bad.begins)
                ));
            }
            page.add("</ul>");
        }
        page.add("</section>");
    }
}

fn first(limit: &LimitReport) -> String {
    let Some(first) = &limit.first else {
        return "<span class=\"muted\">none</span>".to_owned();
    };
    format!(
        "<span class=\"first\">{} <span class=\"muted\">{}:{}</span><br><code>{}</code> <span class=\"muted\">{} then</span></span>",
        moment(&first.at),
        escape(&first.file),
        first.line,
        escape(&first.request),
        first.status
    )
}

fn against_section(against: &AgainstReport, page: &mut Page) {
    page.section(&format!("Against {}", escape(&against.config)));
    page.add(&format!(
        "<p>{} admitted by both, {} refused by both.</p><div class=\"cols\">",
        count(against.both_admitted),
        count(against.both_refused)
    ));
    let mut side = |title: &str, flips: &FlipReport| {
        page.add(&format!("<div><h3>{}: {title}</h3>", count(flips.requests)));
        let of = |counts: &std::collections::BTreeMap<String, u64>| {
            let words: Vec<String> = counts
                .iter()
                .map(|(name, times)| format!("{} {}", escape(name), count(*times)))
                .collect();
            words.join(", ")
        };
        if flips.requests > 0 {
            page.add(&format!(
                "<p class=\"muted\">by {}; on {}</p>",
                of(&flips.limits),
                of(&flips.routes)
            ));
            page.keys(flips.top.iter());
        }
        page.add("</div>");
    };
    side("admitted before, refused now", &against.to_refused);
    side("refused before, admitted now", &against.to_admitted);
    page.add("</div></section>");
}

fn suggest_section(suggestions: &SuggestReport, page: &mut Page) {
    page.section(&format!(
        "The smallest limits that refuse at most {}",
        percent(suggestions.share)
    ));
    page.head(&["limit", "now", "n:refuses", "suggested", "n:would refuse"]);
    for limit in &suggestions.limits {
        let suggested = limit
            .suggested
            .as_ref()
            .map_or_else(|| "none was found".to_owned(), |it| escape(it));
        let refused = limit.suggested_share.map_or_else(String::new, percent);
        page.row(&[
            &format!("<b>{}</b>", escape(&limit.limit)),
            &escape(&limit.now),
            &n(percent(limit.now_share)),
            &format!("<b>{suggested}</b>"),
            &n(refused),
        ]);
    }
    page.end_table();
    page.add("<h3>What keys ask for in their busiest second, ten seconds and minute</h3>");
    page.head(&[
        "limit", "n:span", "n:p50", "n:p90", "n:p99", "n:p99.9", "n:most",
    ]);
    for limit in &suggestions.limits {
        for (index, peaks) in limit.peaks.iter().enumerate() {
            let name = match index {
                0 => format!("<b>{}</b>", escape(&limit.limit)),
                _ => String::new(),
            };
            let figures =
                [peaks.p50, peaks.p90, peaks.p99, peaks.p999, peaks.most].map(|it| n(count(it)));
            let [p50, p90, p99, p999, most] = &figures;
            page.row(&[
                &name,
                &n(format!("{} s", peaks.seconds)),
                p50,
                p90,
                p99,
                p999,
                most,
            ]);
        }
    }
    page.end_table();
    page.add("</section>");
}
