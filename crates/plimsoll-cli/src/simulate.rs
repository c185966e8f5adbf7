//! `plimsoll simulate`: runs limits against synthetic traffic or an access log and reports the results.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Once;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use plimsoll_replay::{LogError, Logs};
use plimsoll_sim::{
    AccessLog, Checked, Compared, Comparison, Contender, Described, Fleet, FleetReport, Simulation,
    explain, explained, fleet_text, json, plot_file, text,
};

/// Simulate limits between traffic and a server, in virtual time
///
/// A simulation file describes the traffic, the server, and the results that a limit
/// between them should achieve. The real limiters run in it; the same seed gives the
/// same run. Prints a table of every phase and limit, and every expectation that was
/// not met.
///
/// Goodput is the requests answered in time, as a part of those that a perfect limiter
/// would have answered in time; the worst seed is beside it. Settle is the time until it
/// stays above 90 % of that, recovery the time until the median latency is down as well.
///
/// A file with a `fleet` describes processes that share a limit by borrowing or by
/// assigned quotas over a network: it prints the excess over the rate, the bound of the
/// excess, the used part of the limit, and the fairness.
///
/// Exit status: 0 if every expectation was met, 1 if some were not, 2 if
/// a file could not be read or written.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Simulation files, in YAML or JSON
    #[arg(required_unless_present = "schema", value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Test these limits in the place of the one that the file names
    #[arg(short, long, value_name = "NAME", value_delimiter = ',', value_parser = limit)]
    limit: Vec<Contender>,

    /// Run all other known limits on the same traffic too; nothing is expected of them
    #[arg(short, long)]
    compare: bool,

    /// Run each limit with N seeds; figures are means
    #[arg(short, long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,

    /// The first of the seeds
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    first_seed: u64,

    /// One seed, for a first look
    #[arg(short, long, conflicts_with = "seeds")]
    quick: bool,

    /// Print the decisions of each tested limit with their reasons over time, for the first seed
    #[arg(short, long)]
    explain: bool,

    /// Requests as they came once, from an access log, in the place of the rate of the file
    #[arg(long, value_name = "LOG")]
    access_log: Option<PathBuf>,

    /// Write everything as JSON; `-` writes it to the standard output, in the place of the tables
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Draw the first run of each limit; of several simulations, one picture each
    #[arg(long, value_name = "FILE.svg|FILE.png", value_parser = picture)]
    plot: Option<PathBuf>,

    /// Print the JSON Schema of simulation files, for editors
    #[arg(long, exclusive = true)]
    schema: bool,
}

fn limit(name: &str) -> Result<Contender, String> {
    Contender::named(name).map_err(|error| error.to_string())
}

fn picture(name: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(name);
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("svg" | "png") => Ok(path),
        _ => Err("the name must end in .svg or .png".to_owned()),
    }
}

/// Runs the files one after the other. A file that cannot be read does not stop the others.
pub(crate) fn run(args: &Args, out: &mut impl Write, err: &mut impl Write) -> io::Result<ExitCode> {
    if args.schema {
        write!(out, "{}", plimsoll_sim::schema())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut simulations = Vec::new();
    let mut fleets: Vec<Fleet> = Vec::new();
    let mut troubled = false;
    let log = match args.access_log.as_deref().map(read_log) {
        None => None,
        Some(Ok((log, unread))) => {
            unread.iter().try_for_each(|line| writeln!(err, "{line}"))?;
            Some(log)
        }
        Some(Err(error)) => {
            writeln!(err, "{error}")?;
            return Ok(ExitCode::from(2));
        }
    };
    for file in &args.files {
        match Described::from_file(file) {
            Ok(Described::Server(simulation)) => simulations.push(match &log {
                Some(log) => simulation.access_log(log.clone()),
                None => *simulation,
            }),
            Ok(Described::Fleet(fleet)) => fleets.push(*fleet),
            Ok(_) => {}
            Err(error) => {
                troubled = true;
                writeln!(err, "{error}")?;
            }
        }
    }
    let plans: Vec<Comparison<'_>> = simulations.iter().map(|it| plan(args, it)).collect();
    let progress = Progress::new(plans.iter().map(Comparison::total_seconds).sum());
    let silent = args.json.as_deref() == Some(Path::new("-"));
    let mut results = Vec::new();
    for (simulation, plan) in simulations.iter().zip(&plans) {
        let compared = plan.run_watched(&|seconds| progress.on(seconds));
        if !silent {
            progress.suspended(|| writeln!(out, "{}", text(simulation, &compared)))?;
        }
        if args.explain && !silent {
            for contender in tested(args, simulation) {
                let decisions = explain(simulation, contender, args.first_seed);
                let table = explained(simulation, contender.name(), args.first_seed, &decisions);
                progress.suspended(|| writeln!(out, "{table}"))?;
            }
        }
        if let Some(path) = &args.plot {
            let path = name_of_plot(path, simulation, simulations.len() > 1);
            if let Err(error) = plot_file(&path, simulation, &compared) {
                troubled = true;
                progress.suspended(|| {
                    writeln!(err, "{}: cannot be written: {error}", path.display())
                })?;
            }
        }
        results.push(compared);
    }
    let seeds = if args.quick { 1 } else { args.seeds };
    let mut reports: Vec<FleetReport> = Vec::new();
    for fleet in &fleets {
        let report = fleet.report(args.first_seed, seeds);
        if !silent {
            progress.suspended(|| writeln!(out, "{}", fleet_text(&report)))?;
        }
        reports.push(report);
    }
    progress.done();
    if let Some(path) = &args.json {
        write_json(path, &simulations, &results, &reports, out).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        })?;
    }
    let of_fleets = || reports.iter().flat_map(|report| &report.checks);
    let checks = || -> Box<dyn Iterator<Item = &Checked>> {
        Box::new(results.iter().flat_map(Compared::checks).chain(of_fleets()))
    };
    let failed = checks().filter(|check| !check.met).count();
    if !silent && checks().next().is_some() {
        writeln!(out, "{} met, {failed} failed", checks().count() - failed)?;
    }
    Ok(match (troubled, failed) {
        (true, _) => ExitCode::from(2),
        (false, 0) => ExitCode::SUCCESS,
        (false, _) => ExitCode::from(1),
    })
}

/// The limits to which the expectations apply.
fn tested<'a>(args: &'a Args, simulation: &'a Simulation) -> &'a [Contender] {
    if args.limit.is_empty() {
        std::slice::from_ref(simulation.limit())
    } else {
        &args.limit
    }
}

/// The requests of a log, and warnings about lines that cannot be parsed.
fn read_log(path: &Path) -> Result<(AccessLog, Vec<String>), LogError> {
    let mut requests = Logs::of([path]).open()?;
    let mut moments = Vec::new();
    while let Some(record) = requests.next() {
        moments.push(record.at_nanos());
    }
    let summaries = requests.summaries();
    let unread: u64 = summaries.iter().map(|log| log.bad).sum();
    let bad = requests.bad_lines();
    let cut_short = summaries.iter().filter_map(|log| log.cut_short.as_ref());
    let mut said: Vec<String> = cut_short
        .map(|why| {
            let path = path.display();
            format!("{path}: it could not be read to its end: {why} (warning)")
        })
        .collect();
    if unread > 0 {
        said.push(format!(
            "{}: {unread} of its lines could not be read (warning)",
            path.display()
        ));
        said.extend(bad.iter().map(|bad| format!("{bad} (warning)")));
    }
    let log = AccessLog::of_nanos(moments).ok_or_else(|| LogError::empty(bad))?;
    Ok((log, said))
}

fn plan<'s>(args: &Args, simulation: &'s Simulation) -> Comparison<'s> {
    let seeds = if args.quick { 1 } else { args.seeds };
    let plan = Comparison::of(simulation)
        .first_seed(args.first_seed)
        .seeds(seeds);
    let plan = args.limit.iter().cloned().fold(plan, Comparison::test);
    if args.compare {
        Contender::all().into_iter().fold(plan, Comparison::beside)
    } else {
        plan
    }
}

/// The path of a plot. With several simulations each has its own: `plot-overload.svg`.
fn name_of_plot(path: &Path, simulation: &Simulation, several: bool) -> PathBuf {
    if !several {
        return path.to_owned();
    }
    let part =
        |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let plain = |c: char| if c.is_alphanumeric() { c } else { '_' };
    let name: String = simulation.name().chars().map(plain).collect();
    path.with_file_name(format!(
        "{}-{name}.{}",
        part(path.file_stem()),
        part(path.extension())
    ))
}

fn write_json(
    path: &Path,
    simulations: &[Simulation],
    results: &[Compared],
    fleets: &[FleetReport],
    out: &mut impl Write,
) -> io::Result<()> {
    let reports = simulations.iter().zip(results);
    let reports: Vec<_> = reports
        .map(|(simulation, compared)| json(simulation, compared))
        .collect();
    let all = if fleets.is_empty() {
        serde_json::json!({ "simulations": reports })
    } else {
        serde_json::json!({ "simulations": reports, "fleets": fleets })
    };
    if path == Path::new("-") {
        return writeln!(out, "{all}");
    }
    std::fs::write(path, format!("{all}\n"))
}

/// A progress bar that appears after a second, and only on a terminal.
struct Progress {
    bar: ProgressBar,
    shown: Once,
}

impl Progress {
    const SHOW_AFTER: Duration = Duration::from_secs(1);

    fn new(seconds: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(seconds), ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template("{bar:40} {percent}% of {len} s, {eta} left");
        Self {
            bar: style.map_or_else(|_| bar.clone(), |style| bar.clone().with_style(style)),
            shown: Once::new(),
        }
    }

    fn on(&self, seconds: u64) {
        if self.bar.elapsed() > Self::SHOW_AFTER {
            self.shown
                .call_once(|| self.bar.set_draw_target(ProgressDrawTarget::stderr()));
        }
        self.bar.inc(seconds);
    }

    /// Hides the bar while something else is written.
    fn suspended<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }

    fn done(&self) {
        self.bar.finish_and_clear();
    }
}
