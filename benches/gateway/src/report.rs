//! What came of runs, in numbers.

use std::fmt;
use std::fmt::Write;
use std::time::Duration;

use plimsoll_benches_sockets::Answer;

use crate::is_important;

/// What came of one run: for all of it, and while the server was slow.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    name: &'static str,
    important: Part,
    important_slow: Part,
    all: Part,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    /// Served in time, for each second.
    goodput: f64,
    /// Served in time, of those sent.
    share: f64,
    /// Of those served, in milliseconds.
    p99: f64,
    refused: u64,
    nothing: u64,
}

impl Part {
    #[expect(clippy::cast_precision_loss, reason = "to be shown")]
    fn new<'a>(answers: impl Iterator<Item = &'a Answer>, time: Duration) -> Self {
        let (mut sent, mut refused, mut nothing) = (0_u64, 0, 0);
        let mut latencies = Vec::new();
        for answer in answers {
            sent += 1;
            match answer.status {
                Some(200) => latencies.push(answer.latency),
                Some(_) => refused += 1,
                None => nothing += 1,
            }
        }
        latencies.sort_unstable();
        let at = (latencies.len() * 99).div_ceil(100).saturating_sub(1);
        let p99 = latencies.get(at).map_or(f64::NAN, Duration::as_secs_f64);
        let served = latencies.len() as f64;
        Self {
            goodput: served / time.as_secs_f64(),
            share: served / sent.max(1) as f64,
            p99: p99 * 1e3,
            refused,
            nothing,
        }
    }
}

impl Run {
    pub(crate) fn new(name: &'static str, answers: &[Answer], time: Duration) -> Self {
        let important = || answers.iter().filter(|it| is_important(it.number));
        let is_slow = |it: &&Answer| (time / 3..time * 2 / 3).contains(&it.at);
        Self {
            name,
            important: Part::new(important(), time),
            important_slow: Part::new(important().filter(is_slow), time / 3),
            all: Part::new(answers.iter(), time),
        }
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<10}", self.name)?;
        for (what, part) in [
            ("important", self.important),
            ("while slow", self.important_slow),
            ("all", self.all),
        ] {
            let Part {
                goodput,
                share,
                p99,
                refused,
                nothing,
            } = part;
            let share = share * 100.0;
            write!(
                f,
                " | {what} {goodput:.0}/s ({share:.0} %), p99 {p99:.0} ms, {refused} refused, {nothing} without answer"
            )?;
        }
        Ok(())
    }
}

/// Medians of all runs of each contender.
pub(crate) fn table(names: impl Iterator<Item = &'static str>, runs: &[Run]) -> String {
    let mut text = String::from(
        "\n| | important: served/s | of those sent | p99, ms | while slow: served/s | p99, ms | all: served/s | p99, ms |\n|---|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for name in names {
        let of = |number: fn(&Run) -> f64| {
            let runs = runs.iter().filter(|run| run.name == name);
            let mut all: Vec<f64> = runs.map(number).collect();
            all.sort_by(f64::total_cmp);
            all.get(all.len() / 2).copied()
        };
        let Some(goodput) = of(|it| it.important.goodput) else {
            continue;
        };
        let rest = [
            of(|it| it.important.p99),
            of(|it| it.important_slow.goodput),
            of(|it| it.important_slow.p99),
            of(|it| it.all.goodput),
            of(|it| it.all.p99),
        ];
        let share = of(|it| it.important.share).unwrap_or_default() * 100.0;
        let _ = write!(text, "| {name} | {goodput:.0} | {share:.0} %");
        for number in rest {
            let _ = write!(text, " | {:.0}", number.unwrap_or(f64::NAN));
        }
        text += " |\n";
    }
    text
}
