//! What becomes of hits, the longest insertion and the bytes of a key as there are more and more keys.

use std::hint::black_box;
use std::time::Duration;

use super::Plan;
use super::child::{Variables, ask_with, resident, warmed_up};
use super::contenders::{LASTING, Limit, OURS};
use super::floors::{IN_SEGMENTS, NOTHING, ONE_LOAD};
use super::histogram::Histogram;
use super::keys::{Key, Spread, sequence};
use super::peers::GOVERNOR;
use crate::asking::{now, thread_time};
use crate::report::Table;

/// Who, and what is added to its name and environment.
const ENTRANTS: [(&str, &str, Variables); 7] = [
    (OURS, "", &[]),
    (OURS, HUGE, HUGE_PAGES),
    (GOVERNOR, "", &[]),
    (NOTHING, "", &[]),
    (ONE_LOAD, "", &[]),
    (ONE_LOAD, HUGE, HUGE_PAGES),
    (IN_SEGMENTS, "", &[]),
];
const HUGE: &str = ", huge pages";
/// Has glibc advise the kernel to use huge pages.
const HUGE_PAGES: Variables = &[("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")];
/// How many hits are timed.
const HITS: usize = 1 << 20;

/// The curve of everybody, from few keys to many.
pub(crate) struct Growth {
    rows: Vec<(usize, String, Grown)>,
}

/// With so many keys.
#[derive(Clone, Copy)]
pub(crate) struct Grown {
    /// The longest insertion on the way: on the wall, where everything counts that the machine did meanwhile, and in processor
    /// time. All but one in ten thousand of them on the wall. In nanoseconds.
    wall: f64,
    pub(crate) longest: f64,
    all_but_few: f64,
    /// Nanoseconds of a hit.
    pub(crate) hit: f64,
    /// Resident bytes of a key.
    bytes: f64,
}

pub(super) fn run(plan: &Plan) -> Growth {
    // From a hundredth of the keys that other cases have to fifty times as many: 10,000 to 50 million.
    let counts = [plan.keys / 100, plan.keys, plan.keys * 10, plan.keys * 50];
    let rows = counts.into_iter().flat_map(|count| {
        let entrants = ENTRANTS.into_iter();
        let entrants = entrants.filter(|(name, ..)| name.contains(&plan.rounds.who));
        entrants.filter_map(move |(name, how, environment)| {
            let said = ask_with(&["growth", name, &count.to_string()], environment)?;
            Some((count, format!("{name}{how}"), Grown::read(&said)?))
        })
    });
    Growth {
        rows: rows.collect(),
    }
}

/// `NAME COUNT`: fills a table and asks for its keys in an order of their own.
pub(super) fn child(args: &[&str]) -> Option<String> {
    let [name, count] = args else {
        return None;
    };
    let count: usize = count.parse().ok()?;
    let (entrant, _warm) = warmed_up::<u64>(name)?;
    let before = resident();
    let limiter = (entrant.make)(&Limit::generous(count));
    let (clock, mut times) = (quanta::Clock::new(), Histogram::default());
    let (mut spent, mut longest) = (thread_time(), Duration::ZERO);
    for id in 0..count as u64 {
        let key = u64::of(id);
        let start = clock.raw();
        black_box(limiter.take(&key, LASTING));
        let wall = clock.delta_as_nanos(start, clock.raw());
        times.add(wall);
        let before = std::mem::replace(&mut spent, thread_time());
        // The kernel may charge a thread that it has interrupted with more than has passed since.
        longest = longest.max(Duration::from_nanos(wall).min(spent - before));
    }
    let bytes = resident().saturating_sub(before) as f64 / count as f64;
    let keys = sequence::<u64>(Spread::Uniform, count, HITS);
    let mut hits = Vec::new();
    for _ in 0..5 {
        let start = now();
        black_box(limiter.ask_all(&keys));
        hits.push((now() - start).as_nanos() as f64 / HITS as f64);
    }
    hits.sort_by(f64::total_cmp);
    let grown = Grown {
        wall: times.max() as f64,
        longest: longest.as_nanos() as f64,
        all_but_few: times.all_but_one_in(10_000) as f64,
        hit: hits[hits.len() / 2],
        bytes,
    };
    Some(grown.written())
}

impl Grown {
    fn written(self) -> String {
        let figures = [
            self.wall,
            self.longest,
            self.all_but_few,
            self.hit,
            self.bytes,
        ];
        figures.map(|figure| figure.to_string()).join(" ")
    }

    fn read(text: &str) -> Option<Self> {
        let figures: Option<Vec<f64>> = text.split(' ').map(|one| one.parse().ok()).collect();
        match figures?[..] {
            [wall, longest, all_but_few, hit, bytes] => Some(Self {
                wall,
                longest,
                all_but_few,
                hit,
                bytes,
            }),
            _ => None,
        }
    }
}

impl Growth {
    /// Ours, with so many times the keys of the second count.
    fn ours(&self) -> impl Iterator<Item = (usize, Grown)> {
        let ours = self.rows.iter().filter(|(_, name, _)| name == OURS);
        ours.map(|(count, _, grown)| (*count, *grown))
    }

    /// Our longest insertion on the way to the most keys, in milliseconds, and a hit with so many over one with a fiftieth of them.
    pub(crate) fn most(&self) -> Option<(usize, f64, f64)> {
        let (most, last) = self.ours().last()?;
        let (_, few) = self.ours().find(|(count, _)| count * 50 == most)?;
        Some((most, last.longest / 1e6, last.hit / few.hit))
    }

    pub(crate) fn markdown(&self) -> String {
        let mut table = Table::new(&[
            "",
            "keys",
            "a hit, ns",
            "longest insertion, processor time, ms",
            "… on the wall, ms",
            "p99.99 of insertions, µs",
            "bytes a key",
        ]);
        for (count, name, grown) in &self.rows {
            table.rows.push(vec![
                name.clone(),
                count.to_string(),
                format!("{:.1}", grown.hit),
                format!("{:.3}", grown.longest / 1e6),
                format!("{:.3}", grown.wall / 1e6),
                format!("{:.1}", grown.all_but_few / 1e3),
                format!("{:.1}", grown.bytes),
            ]);
        }
        format!(
            "### Keyed, u64, as the number of keys grows\n\n{}",
            table.markdown()
        )
    }
}
