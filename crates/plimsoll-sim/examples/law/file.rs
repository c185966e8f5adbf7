//! Builds the text of a simulation file.

use std::fmt::Write as _;

use crate::draw::Draw;

/// The approximate maximum number of requests in a simulation. A higher rate makes it shorter.
pub(crate) const REQUESTS: f64 = 100_000.0;

pub(crate) fn time(millis: f64) -> String {
    format!("{:.0}us", millis * 1000.0)
}

/// The text of a simulation file: a server with a number of workers, a service time in milliseconds, and a load.
pub(crate) struct File {
    text: String,
    pub(crate) seconds: u32,
}

impl File {
    pub(crate) fn new(draw: &mut Draw, rate: f64, mean: f64, least: f64) -> Self {
        let seconds = (REQUESTS / rate).clamp(least, 120.0).round();
        let deadline = (mean * draw.within(12.0, 30.0)).max(500.0);
        Self {
            text: format!("duration: {seconds}s\ndeadline: {}\n", time(deadline)),
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "at most 120"
            )]
            seconds: seconds as u32,
        }
    }

    /// Starts a file with one server under an open loop.
    pub(crate) fn simple(draw: &mut Draw, workers: f64, mean: f64, load: f64) -> Self {
        let rate = load * workers * 1000.0 / mean;
        let file = Self::new(draw, rate, mean, 30.0);
        let service = draw.service(mean);
        file.line(&format!("rate: {rate:.2}"))
            .line(&format!("workers: {workers}\nservice: {service}"))
    }

    pub(crate) fn line(mut self, line: &str) -> Self {
        let _ = writeln!(self.text, "{line}");
        self
    }

    /// Adds phases that are cut at these fractions of the duration. The time before the first cut has no phase.
    pub(crate) fn phases(mut self, cuts: &[u32]) -> String {
        let at = |cut: u32| self.seconds * cut / 100;
        let _ = writeln!(self.text, "phases:");
        for (index, pair) in cuts.windows(2).enumerate() {
            let (from, to) = (at(pair[0]), at(pair[1]));
            let _ = writeln!(
                self.text,
                "  - {{ name: p{index}, from: {from}s, to: {to}s }}"
            );
        }
        self.text
    }

    /// A number that has another value in the middle third.
    pub(crate) fn middle(&self, value: f64, middle: f64) -> String {
        let third = self.seconds / 3;
        format!(
            "[{{ at: 0s, value: {value:.3} }}, {{ at: {third}s, value: {middle:.3} }}, {{ at: {}s, value: {value:.3} }}]",
            2 * third
        )
    }

    /// Adds the phases before, in and after the middle third.
    pub(crate) fn thirds(mut self) -> String {
        let third = self.seconds / 3;
        let _ = writeln!(
            self.text,
            "phases: [{{ name: before, from: {}s, to: {third}s }}, {{ name: middle, from: {third}s, to: {}s }}, {{ name: after, from: {}s, to: {}s }}]",
            third / 4,
            2 * third,
            2 * third,
            3 * third
        );
        self.text
    }
}
