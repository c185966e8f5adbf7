//! Asking a table of keys, from one thread and from two, and how it is written down.

use std::cmp::Ordering;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use super::contenders::{Entrant, Limiter, OURS, Worth};
use super::keys::Key;
use crate::asking::Count;
use crate::contender::{Contender, Role, Rounds};
use crate::report::{Series, Table, marked, quantile};

/// What a round gives: nanoseconds for each time it was asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) one: f64,
    /// Two threads: wall time over what both asked.
    pub(crate) two: f64,
    /// How many of those who were looked at were forgotten while they still owed something.
    pub(crate) reset: u64,
    pub(crate) looked_at: u64,
}

/// All who ran side by side.
pub(crate) struct Case {
    pub(crate) title: String,
    /// What is wanted of the fastest exact peer's time at most, by one thread and by two.
    pub(crate) wanted: [f64; 2],
    pub(crate) rows: Vec<Row>,
}

pub(crate) struct Row {
    pub(crate) worth: Worth,
    pub(crate) series: Series<Asked>,
}

/// Runs each entrant once in every round, by `run`, which is made for it.
pub(super) fn in_turns<K: Key, R: Fn() -> Asked + 'static>(
    entrants: Vec<Entrant<K>>,
    rounds: &Rounds,
    run: impl Fn(&Entrant<K>) -> R,
) -> Vec<Row> {
    let worths: Vec<(&str, Worth)> = entrants.iter().map(|one| (one.name, one.worth)).collect();
    let contenders = entrants.into_iter().map(|one| {
        let run = run(&one);
        Contender::new(one.role, one.name, move |()| run())
    });
    let all = Contender::in_turns(contenders.collect(), rounds, ());
    let rows = all.into_iter().map(|series| {
        let worth = worths.iter().find(|(name, _)| *name == series.name);
        let worth = worth.map_or(Worth::Floor, |(_, worth)| *worth);
        Row { worth, series }
    });
    rows.collect()
}

/// Keys as they come, a batch at a time, over and over.
pub(super) struct Walk<'a, K> {
    keys: &'a [K],
    at: usize,
}

impl<'a, K> Walk<'a, K> {
    pub(super) fn new(keys: &'a [K], at: usize) -> Self {
        Self { keys, at }
    }

    pub(super) fn batch(&mut self) -> &'a [K] {
        const BATCH: usize = 1024;
        if self.at + BATCH > self.keys.len() {
            self.at = 0;
        }
        let batch = &self.keys[self.at..self.keys.len().min(self.at + BATCH)];
        self.at += BATCH;
        batch
    }
}

/// All threads at once, each on its own part of the keys. `walk` asks for as long as it is told; it is called once to
/// warm up, and then with everybody else.
pub(super) fn together<K: Key>(
    limiter: &dyn Limiter<K>,
    keys: &[K],
    threads: usize,
    span: Duration,
    walk: impl Fn(&dyn Limiter<K>, &mut Walk<'_, K>, Duration) -> Count + Sync,
) -> Count {
    let barrier = Barrier::new(threads);
    let run = |thread: usize| {
        let mut keys = Walk::new(keys, thread * keys.len() / threads);
        walk(limiter, &mut keys, span / 4);
        barrier.wait();
        walk(limiter, &mut keys, span)
    };
    thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || run(thread)))
            .collect();
        let counts = threads
            .into_iter()
            .map(|thread| thread.join().expect("a limiter that does not panic"));
        counts.reduce(Count::both)
    })
    .expect("at least one thread")
}

impl Row {
    pub(crate) fn one(&self) -> Series {
        self.series.each(|asked| asked.one)
    }

    pub(crate) fn two(&self) -> Series {
        self.series.each(|asked| asked.two)
    }

    /// What two threads get done over what one does.
    pub(crate) fn gain(&self) -> f64 {
        self.one().over(&self.two())
    }

    /// How many were reset, of how many.
    pub(crate) fn resets(&self) -> (u64, u64) {
        let samples = &self.series.samples;
        let reset = samples.iter().map(|asked| asked.reset).sum();
        (reset, samples.iter().map(|asked| asked.looked_at).sum())
    }
}

impl Case {
    pub(crate) fn ours(&self) -> Option<&Row> {
        self.rows.iter().find(|row| row.series.name == OURS)
    }

    /// The fastest peer whose answers are worth one of these.
    pub(crate) fn fastest(&self, worths: &[Worth], time: impl Fn(&Row) -> Series) -> Option<&Row> {
        let peers = self.rows.iter().filter(|row| {
            let timed = !time(row).median().is_nan();
            row.series.role == Role::Peer && worths.contains(&row.worth) && timed
        });
        peers.min_by(|a, b| time(a).median().total_cmp(&time(b).median()))
    }

    pub(crate) fn markdown(&self) -> String {
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        rows.sort_by(|a, b| {
            let (a, b) = (a.one(), b.one());
            let within = if a.role == Role::Ours {
                Ordering::Equal
            } else {
                a.median().total_cmp(&b.median())
            };
            a.role.cmp(&b.role).then(within)
        });
        let looked_at = rows.iter().any(|row| row.resets().1 > 0);
        let mut table = Table::new(&[
            "",
            "answers",
            "one thread, ns",
            "p10 – p90",
            "Keyed ÷ this",
            "two threads, ns",
            "p10 – p90",
            "Keyed ÷ this",
            "two get done, of one",
        ]);
        if looked_at {
            table.head.push("limits reset".to_owned());
        }
        let ours = self.ours();
        for row in rows {
            let ratio = |time: fn(&Row) -> Series| {
                let ratio = ours.map_or(f64::NAN, |ours| time(ours).over(&time(row)));
                written(ratio, 2)
            };
            let spread = |series: &Series| {
                let [low, high] = [0.1, 0.9].map(|share| quantile(&series.samples, share));
                format!("{} – {}", written(low, 0), written(high, 0))
            };
            let (one, two) = (row.one(), row.two());
            let mut cells = vec![
                marked(&row.series),
                row.worth.to_string(),
                written(one.median(), 1),
                spread(&one),
                ratio(Row::one),
                written(two.median(), 1),
                spread(&two),
                ratio(Row::two),
                format!("{} ×", written(row.gain(), 2)),
            ];
            if looked_at {
                let (reset, of) = row.resets();
                cells.push(format!("{reset} of {of}"));
            }
            table.rows.push(cells);
        }
        format!("### {}\n\n{}", self.title, table.markdown())
    }
}

/// A figure, or a dash where the machine was too busy for one.
fn written(figure: f64, digits: usize) -> String {
    if figure.is_nan() {
        "–".to_owned()
    } else {
        format!("{figure:.digits$}")
    }
}
