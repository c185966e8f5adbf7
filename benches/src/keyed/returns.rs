//! What becomes of the memory when nearly all keys have gone.
//!
//! A table is filled; then a hundredth of its keys are asked for, over and over, while all others go idle. Who
//! does not forget by itself is tidied and shrunk after every step.
//!
//! Nothing else is allocated meanwhile, except in the rows that say so: a block that the rest of a program allocates
//! above a table keeps the memory below it in glibc's heap.

use std::hint::black_box;
use std::time::Duration;

use super::Plan;
use super::asked::Walk;
use super::child::{Variables, ask_with, resident, warmed_up};
use super::contenders::{self, Limit, OURS};
use super::keys::Key;
use super::memory::is_a_table;
use crate::asking::now;
use crate::report::{Series, Table, marked};

const STEPS: u32 = 10;

/// Ours in a program that allocates so many small blocks when the table is full, and keeps them; and the same where
/// glibc maps the large blocks each by itself.
const AMONG_OTHERS: [(&str, Variables); 2] = [
    ("plimsoll Keyed, small blocks above it", &[]),
    (
        "plimsoll Keyed, small blocks above it, blocks from 4 KiB mapped",
        &[("GLIBC_TUNABLES", "glibc.malloc.mmap_threshold=4096")],
    ),
];
const BLOCKS: usize = 1000;

pub(crate) struct Returns {
    kind: &'static str,
    step: Duration,
    rows: Vec<Series<Sizes>>,
}

/// Resident bytes.
struct Sizes {
    /// Before there was a table, in the process whose table is fresh.
    without: f64,
    /// With a table that never had more than the hundredth.
    fresh: f64,
    /// Before there was a table, in the process whose table is filled.
    before: f64,
    filled: f64,
    after: Vec<f64>,
}

pub(super) fn run<K: Key>(plan: &Plan) -> Returns {
    let entrants = contenders::limiters::<K>()
        .into_iter()
        .filter(|entrant| is_a_table(entrant) && entrant.name.contains(&plan.rounds.who));
    let ours = contenders::limiters::<K>()
        .into_iter()
        .filter(|entrant| entrant.name == OURS);
    let among_others = ours.flat_map(|entrant| {
        AMONG_OTHERS.map(|(name, environment)| (entrant.role, name, OURS, BLOCKS, environment))
    });
    let among_others = among_others.filter(|(_, name, ..)| name.contains(&plan.rounds.who));
    let alone = entrants.map(|entrant| -> (_, _, _, _, Variables) {
        (entrant.role, entrant.name, entrant.name, 0, &[])
    });
    let rows = alone
        .chain(among_others)
        .map(|(role, row, name, blocks, environment)| {
            let mut series = Series::new(role, row);
            let sizes = measured::<K>(name, plan, blocks, environment);
            series.samples.extend(sizes);
            series
        });
    Returns {
        kind: K::KIND,
        step: plan.idle / 3,
        rows: rows.collect(),
    }
}

fn measured<K: Key>(
    name: &str,
    plan: &Plan,
    blocks: usize,
    environment: Variables,
) -> Option<Sizes> {
    let sizes = |filled: usize, steps: u32| -> Option<Vec<f64>> {
        let idle = plan.idle.as_millis().to_string();
        let numbers = [filled, plan.keys, steps as usize, blocks].map(|n| n.to_string());
        let [filled, keys, steps, blocks] = &numbers;
        let args = ["returns", K::KIND, name, filled, keys, &idle, steps, blocks];
        let said = ask_with(&args, environment)?;
        let sizes = said.split_whitespace().map(|size| size.parse().ok());
        sizes.collect()
    };
    let (fresh, series) = (sizes(plan.keys / 100, 2)?, sizes(plan.keys, STEPS)?);
    Some(Sizes {
        without: *fresh.first()?,
        fresh: *fresh.last()?,
        before: *series.first()?,
        filled: *series.get(1)?,
        after: series.get(2..)?.to_vec(),
    })
}

/// `NAME FILLED KEYS IDLE STEPS BLOCKS`: fills a table made for `KEYS`, allocates so many small blocks, goes on with a
/// hundredth of the keys, and says its sizes on the way.
pub(super) fn child<K: Key>(args: &[&str]) -> Option<String> {
    let [name, filled, keys, idle, steps, blocks] = args else {
        return None;
    };
    let [filled, keys, blocks]: [usize; 3] = [
        filled.parse().ok()?,
        keys.parse().ok()?,
        blocks.parse().ok()?,
    ];
    let steps: u32 = steps.parse().ok()?;
    let idle = Duration::from_millis(idle.parse().ok()?);
    let limit = Limit {
        burst: 2,
        every: idle,
        ..Limit::generous(keys)
    };
    let few: Vec<K> = (0..keys as u64 / 100).map(K::of).collect();
    let (entrant, _warm) = warmed_up::<K>(name)?;
    // Whatever is allocated later lies above the table.
    let mut sizes = Vec::with_capacity(steps as usize + 2);
    sizes.push(resident());
    let limiter = (entrant.make)(&limit);
    for id in 0..filled as u64 {
        limiter.ask(&K::of(id));
    }
    sizes.push(resident());
    let above: Vec<Vec<u8>> = (0..blocks).map(|_| vec![1; 64]).collect();
    let mut walk = Walk::new(&few, 0);
    for _ in 0..steps {
        let start = now();
        while now() - start < idle / 3 {
            limiter.ask_all(walk.batch());
        }
        limiter.tidy();
        limiter.shrink();
        sizes.push(resident());
    }
    drop(black_box(above));
    let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
    Some(sizes.join(" "))
}

impl Sizes {
    fn last(&self) -> f64 {
        self.after.last().copied().unwrap_or(f64::NAN)
    }

    /// The whole process, over one whose table is fresh.
    fn process(&self) -> f64 {
        self.last() / self.fresh
    }

    /// The same without what there is before there is a table.
    fn table(&self) -> f64 {
        (self.last() - self.before) / (self.fresh - self.without)
    }
}

impl Returns {
    pub(crate) fn kind(&self) -> &'static str {
        self.kind
    }

    /// Ours: the whole process and the table alone, each over a fresh one.
    pub(crate) fn ours(&self) -> Option<(f64, f64)> {
        let ours = self.rows.iter().find(|series| series.name == OURS)?;
        let sizes = ours.samples.first()?;
        Some((sizes.process(), sizes.table()))
    }

    pub(crate) fn markdown(&self) -> String {
        let mut table = Table::new(&["", "fresh", "filled"]);
        for step in 1..=STEPS {
            let seconds = (self.step * step).as_secs_f64();
            table.head.push(format!("{seconds:.1} s"));
        }
        table.head.push("process ÷ fresh".to_owned());
        table.head.push("table ÷ fresh".to_owned());
        let megabytes = |bytes: f64| format!("{:.1}", bytes / 1e6);
        for series in &self.rows {
            for sizes in &series.samples {
                let mut row = vec![marked(series), megabytes(sizes.fresh)];
                row.push(megabytes(sizes.filled));
                row.extend(sizes.after.iter().copied().map(megabytes));
                row.push(format!("{:.2}", sizes.process()));
                row.push(format!("{:.2}", sizes.table()));
                table.rows.push(row);
            }
        }
        let text =
            "Resident size of the process, in MB, after all but a hundredth of the keys went idle.";
        format!(
            "### Keyed, {}, memory that returns\n\n{text}\n\n{}",
            self.kind,
            table.markdown()
        )
    }
}
