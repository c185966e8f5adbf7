//! Measures the default limit on randomly drawn simulations, class by class, against the best fixed limit of each phase.
//!
//! ```text
//! cargo run --release -p plimsoll-sim --example law -- [--set tuning|held-out|NUMBER] [--each N] [--seeds N] [--limit NAME] [--show] [CLASS|FILE.yaml]…
//! cargo run --release -p plimsoll-sim --example law -- [--limit NAME] [--seed N] --print|--explain CLASS NUMBER
//! ```
//!
//! A law is tuned on the first set and checked on the second. A number is the start of another set. Files are run with `--seeds`
//! seeds each, without draws. `--show` lists the phases below 95 %, `--print` writes a simulation for `plimsoll simulate`, and
//! `--explain` writes the decisions in it with one seed, and their reasons. The results of the best fixed limits are cached in the directory for
//! temporary files, by simulation; after a change of the simulator the cache has to be removed.

mod draw;
mod file;

use std::collections::hash_map::DefaultHasher;
use std::error::Error;
use std::hash::{Hash, Hasher};
use std::io::{self, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, thread};

use plimsoll_sim::{Contender, Simulation, explain, explained, run};

use crate::draw::{CLASSES, Class, Draw};

/// The default number of seeds of each simulation.
const SEEDS: u64 = 2;
/// The start of the numbers from which each set is drawn.
const SETS: [(&str, u64); 2] = [("tuning", 0), ("held-out", 1_000_000)];

struct Options {
    first: u64,
    each: u64,
    seeds: u64,
    /// The seed that is explained.
    seed: u64,
    limit: Option<Contender>,
    show: bool,
    classes: Vec<&'static Class>,
    /// The paths of simulation files, which are not drawn.
    files: Vec<String>,
}

/// One simulation to run: its row of the table, its name, and its text.
struct Job {
    class: usize,
    name: String,
    text: String,
}

/// One phase of one simulation, with every seed.
struct Phase {
    class: usize,
    name: String,
    /// The goodput as a fraction of the ideal.
    goodput: f64,
    best: f64,
    /// The goodput as a fraction of that of the best fixed limit, at most 1; and that of the worst seed.
    part: f64,
    worst: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = env::args().skip(1);
    let mut options = Options {
        first: 0,
        each: 8,
        seeds: SEEDS,
        seed: 1,
        limit: None,
        show: false,
        classes: Vec::new(),
        files: Vec::new(),
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or("a value is missing");
        match word.as_str() {
            "--set" => {
                let name = value()?;
                let set = SETS.iter().find(|(known, _)| *known == name);
                options.first = match set {
                    Some((_, first)) => *first,
                    None => name.parse().map_err(|_| "tuning, held-out or a number")?,
                };
            }
            "--each" => options.each = value()?.parse()?,
            "--seeds" => options.seeds = value()?.parse()?,
            "--seed" => options.seed = value()?.parse()?,
            "--limit" => options.limit = Some(Contender::named(&value()?)?),
            "--show" => options.show = true,
            "--print" => {
                let (class, number) = (class(&value()?)?, value()?.parse()?);
                io::stdout().write_all(text(class, number).as_bytes())?;
                return Ok(());
            }
            "--explain" => {
                let (class, number) = (class(&value()?)?, value()?.parse()?);
                let simulation = Simulation::from_text("drawn.yaml", &text(class, number))?;
                let limit = options.limit.as_ref().unwrap_or_else(|| simulation.limit());
                let decisions = explain(&simulation, limit, options.seed);
                let table = explained(&simulation, limit.name(), options.seed, &decisions);
                io::stdout().write_all(table.as_bytes())?;
                return Ok(());
            }
            name if name.ends_with(".yaml") => options.files.push(name.to_owned()),
            name => options.classes.push(class(name)?),
        }
    }
    if options.classes.is_empty() && options.files.is_empty() {
        options.classes = CLASSES.iter().collect();
    }
    let jobs = jobs(&options)?;
    report(&options, &measure(&options, &jobs))?;
    Ok(())
}

fn class(name: &str) -> Result<&'static Class, String> {
    let found = CLASSES.iter().find(|(known, _)| *known == name);
    found.ok_or_else(|| format!("no class {name}"))
}

fn text((name, draw): &Class, number: u64) -> String {
    format!(
        "name: {name}_{number}\n{}",
        draw(&mut Draw::new(name, number))
    )
}

/// Returns the draws of each class, then the files.
fn jobs(options: &Options) -> io::Result<Vec<Job>> {
    let numbers = options.first..options.first + options.each;
    let drawn = options.classes.iter().enumerate();
    let mut jobs: Vec<Job> = drawn
        .flat_map(|(index, class)| {
            numbers.clone().map(move |number| Job {
                class: index,
                name: format!("{} {number}", class.0),
                text: text(class, number),
            })
        })
        .collect();
    for (index, path) in options.files.iter().enumerate() {
        jobs.push(Job {
            class: options.classes.len() + index,
            name: stem(path).to_owned(),
            text: fs::read_to_string(path)?,
        });
    }
    Ok(jobs)
}

/// Runs all simulations, on two threads.
fn measure(options: &Options, jobs: &[Job]) -> Vec<Phase> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(index) else {
                break;
            };
            let phases = one(options, job);
            found.lock().expect("no panic").push((index, phases));
        }
    };
    thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    let mut found = found.into_inner().expect("no panic");
    found.sort_by_key(|(index, _)| *index);
    found.into_iter().flat_map(|(_, phases)| phases).collect()
}

fn one(options: &Options, job: &Job) -> Vec<Phase> {
    let text = &job.text;
    let simulation = Simulation::from_text("drawn.yaml", text);
    let simulation = simulation.unwrap_or_else(|error| panic!("{error}\n{text}"));
    let best = best(&simulation, text, options.seeds);
    let limit = options.limit.as_ref().unwrap_or_else(|| simulation.limit());
    let runs: Vec<Vec<f64>> = (1..=options.seeds)
        .map(|seed| goodputs(&simulation, limit, seed))
        .collect();
    let phases = simulation.phases().iter().enumerate();
    let phases = phases.filter_map(|(index, phase)| {
        let part = |seed: usize| (runs[seed][index] / best[seed][index]).min(1.0);
        let mean =
            |of: &dyn Fn(usize) -> f64| (0..runs.len()).map(of).sum::<f64>() / runs.len() as f64;
        let phase = Phase {
            class: job.class,
            name: format!("{} {}", job.name, phase.name()),
            goodput: mean(&|seed| runs[seed][index]),
            best: mean(&|seed| best[seed][index]),
            part: mean(&part),
            worst: (0..runs.len()).map(part).fold(1.0, f64::min),
        };
        // Neither limit has any goodput.
        (phase.best > 0.01).then_some(phase)
    });
    phases.collect()
}

fn goodputs(simulation: &Simulation, limit: &Contender, seed: u64) -> Vec<f64> {
    let phases = run(simulation, limit, seed).phases.into_iter();
    phases.map(|phase| phase.goodput.unwrap_or(0.0)).collect()
}

/// The goodput of the best fixed limits, for each seed and phase.
fn best(simulation: &Simulation, text: &str, seeds: u64) -> Vec<Vec<f64>> {
    let mut hasher = DefaultHasher::new();
    (text, seeds).hash(&mut hasher);
    let dir = env::temp_dir().join("plimsoll-law");
    let file = dir.join(format!("{:016x}", hasher.finish()));
    let read = fs::read_to_string(&file).ok().and_then(|kept| {
        let line = |line: &str| line.split(' ').map(|it| it.parse().ok()).collect();
        kept.lines().map(line).collect::<Option<Vec<Vec<f64>>>>()
    });
    read.unwrap_or_else(|| {
        let oracle = Contender::oracle();
        let found: Vec<_> = (1..=seeds)
            .map(|seed| goodputs(simulation, &oracle, seed))
            .collect();
        let line = |phases: &Vec<f64>| {
            let numbers: Vec<String> = phases.iter().map(ToString::to_string).collect();
            numbers.join(" ") + "\n"
        };
        // Without a cached result, the next run searches again.
        let _ = fs::create_dir_all(&dir);
        let _ = fs::write(file, found.iter().map(line).collect::<String>());
        found
    })
}

/// The name of a file without its directory.
fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.trim_end_matches(".yaml")
}

fn report(options: &Options, phases: &[Phase]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "{:18} {:>6} {:>8} {:>8} {:>8} {:>8} {:>8} {:>7} {:>7}",
        "", "phases", "of ideal", "the best", "of best", "worst", "seed", "< 90 %", "< 95 %"
    )?;
    let mut line = |name: &str, phases: &[&Phase]| {
        let count = phases.len();
        let mean = |of: &dyn Fn(&Phase) -> f64| {
            phases.iter().map(|phase| of(phase)).sum::<f64>() * 100.0 / count.max(1) as f64
        };
        let least = |of: &dyn Fn(&Phase) -> f64| {
            phases.iter().map(|phase| of(phase)).fold(1.0, f64::min) * 100.0
        };
        let below = |share: f64| phases.iter().filter(|phase| phase.part < share).count();
        writeln!(
            out,
            "{name:18} {count:6} {:8.2} {:8.2} {:8.2} {:8.1} {:8.1} {:7} {:7}",
            mean(&|phase| phase.goodput),
            mean(&|phase| phase.best),
            mean(&|phase| phase.part),
            least(&|phase| phase.part),
            least(&|phase| phase.worst),
            below(0.9),
            below(0.95)
        )
    };
    let rows = options.classes.iter().map(|(name, _)| *name);
    let rows = rows.chain(options.files.iter().map(|path| stem(path)));
    for (index, name) in rows.enumerate() {
        let of_class: Vec<&Phase> = phases.iter().filter(|phase| phase.class == index).collect();
        line(name, &of_class)?;
    }
    line("all", &phases.iter().collect::<Vec<_>>())?;
    let mut low: Vec<&Phase> = phases.iter().filter(|phase| phase.worst < 0.95).collect();
    low.sort_by(|a, b| a.part.total_cmp(&b.part));
    for phase in low.iter().filter(|_| options.show) {
        writeln!(
            out,
            "{:32} {:6.1} of {:6.1}, worst seed {:6.1}",
            phase.name,
            100.0 * phase.goodput,
            100.0 * phase.best,
            100.0 * phase.worst
        )?;
    }
    Ok(())
}
