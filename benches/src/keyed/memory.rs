//! What a key costs: how much the resident size grows, over the number of keys.
//!
//! Tables that double are half full or full, depending on when they are looked at, so the mean is taken over
//! four numbers of keys.

use super::Plan;
use super::child::{self, resident, warmed_up};
use super::contenders::{self, Entrant, LASTING, Limit, OURS};
use super::floors::NOTHING;
use super::keys::Key;
use crate::contender::Role;
use crate::report::{Series, Table, marked};

/// Bytes for each key, of everybody.
pub(crate) struct Memory {
    kind: &'static str,
    counts: Vec<usize>,
    rows: Vec<Series>,
}

pub(super) fn run<K: Key>(plan: &Plan) -> Memory {
    let counts = [6, 8, 10, 12].map(|tenths| plan.keys / 10 * tenths);
    let max_keys = plan.keys / 4 * 5;
    let rows = contenders::all::<K>().into_iter().filter(|entrant| {
        let is_a_table = is_a_table(entrant) && entrant.name != NOTHING;
        is_a_table && entrant.name.contains(&plan.rounds.who)
    });
    let rows = rows.map(|entrant| {
        let mut series = Series::new(entrant.role, entrant.name);
        series.samples = counts
            .iter()
            .map(|count| {
                let (count, max_keys) = (count.to_string(), max_keys.to_string());
                let said = child::ask(&["memory", K::KIND, entrant.name, &count, &max_keys]);
                said.and_then(|said| said.parse().ok()).unwrap_or(f64::NAN)
            })
            .collect();
        series
    });
    Memory {
        kind: K::KIND,
        rows: rows.collect(),
        counts: counts.to_vec(),
    }
}

/// The same table on another clock is as large.
pub(super) fn is_a_table<K>(entrant: &Entrant<K>) -> bool {
    !entrant.name.ends_with("clock") && !entrant.name.ends_with("counter")
        || entrant.name.ends_with("word for a clock")
}

/// `NAME COUNT MAX_KEYS`: fills a table and says what each key has cost.
pub(super) fn child<K: Key>(args: &[&str]) -> Option<String> {
    let [name, count, max_keys] = args else {
        return None;
    };
    let count: usize = count.parse().ok()?;
    let (entrant, _warm) = warmed_up::<K>(name)?;
    let limit = Limit {
        max_keys: max_keys.parse().ok()?,
        ..Limit::generous(count)
    };
    let before = resident();
    let mut limiter = (entrant.make)(&limit);
    for id in 0..count {
        limiter.fill(&K::of(id as u64), LASTING);
    }
    let grown = resident().saturating_sub(before);
    Some(format!("{}", grown as f64 / count as f64))
}

fn mean(series: &Series) -> f64 {
    series.samples.iter().sum::<f64>() / series.samples.len() as f64
}

impl Memory {
    pub(crate) fn kind(&self) -> &'static str {
        self.kind
    }

    /// The mean of our bytes.
    pub(crate) fn ours(&self) -> Option<f64> {
        let ours = self.rows.iter().find(|series| series.name == OURS)?;
        Some(mean(ours))
    }

    /// The peer with the fewest bytes, and how many.
    pub(crate) fn leanest(&self) -> Option<(&'static str, f64)> {
        let peers = self.rows.iter().filter(|series| series.role == Role::Peer);
        peers
            .map(|series| (series.name, mean(series)))
            .filter(|(_, bytes)| !bytes.is_nan())
            .min_by(|a, b| a.1.total_cmp(&b.1))
    }

    pub(crate) fn markdown(&self) -> String {
        let mut table = Table::new(&[""]);
        table.head.extend(self.counts.iter().map(usize::to_string));
        table.head.push("mean".to_owned());
        for series in &self.rows {
            let mut row = vec![marked(series)];
            row.extend(series.samples.iter().map(|bytes| format!("{bytes:.1}")));
            row.push(format!("{:.1}", mean(series)));
            table.rows.push(row);
        }
        format!(
            "### Keyed, {}, resident bytes a key\n\n{}",
            self.kind,
            table.markdown()
        )
    }
}
