//! `plimsoll replay`: the requests of access logs under the limits of a file.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use plimsoll_config::Config;
use plimsoll_replay::{DurationUnit, LogFormat, Logs, Progress, Replay, Report};

use crate::file_kind;
use crate::process::duration;

/// Replay access logs under the limits of a file, in virtual time
///
/// Reports which requests of the logs would have been refused, when, and by which
/// limit. The real limiters run; permits are held for the durations in the log.
/// Lines that cannot be read are counted, with examples.
///
/// The format is detected: the common and combined formats, also with nginx'
/// `$request_time`, JSON lines of Caddy, Traefik and Envoy, Envoy's text, CSV with a
/// header. Files may be compressed with gzip; several are merged by time.
///
/// Exit status: 0 if all is well, 1 if more was refused than --max-refused allows,
/// 2 if a file could not be read or written.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The limits, as `plimsoll check` reads them
    #[arg(value_name = "CONFIG")]
    config: PathBuf,

    /// Access logs; `-` is the standard input
    #[arg(required = true, value_name = "LOG")]
    logs: Vec<PathBuf>,

    /// The format of the lines: combined, json, csv, envoy or times; detected unless set
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    format: Option<LogFormat>,

    /// The unit of durations without one: s, ms, us or ns; that of the server that writes the format unless set
    #[arg(long, value_name = "UNIT", value_parser = unit)]
    duration_unit: Option<DurationUnit>,

    /// The longest time from the arrival of a request to its line for which requests are sorted by arrival
    #[arg(long, value_name = "SPAN", default_value = "60s", value_parser = duration)]
    window: Duration,

    /// The longest wait of a request in queues; the time-outs of the queues unless set
    #[arg(long, value_name = "SPAN", value_parser = duration)]
    deadline: Option<Duration>,

    /// Compare with the limits of another file: requests that only one of the two refuses
    #[arg(long, value_name = "CONFIG")]
    against: Option<PathBuf>,

    /// Report peaks of keys, and for each limit the smallest number that refuses at most this share of its requests [default: 0.1%]
    #[arg(long, value_name = "SHARE", num_args = 0..=1, default_missing_value = "0.1%", value_parser = share)]
    suggest: Option<f64>,

    /// End with status 1 if a larger share is refused: of all requests, or of those of one limit
    #[arg(long, value_name = "[LIMIT=]SHARE", value_parser = threshold)]
    max_refused: Vec<Threshold>,

    /// The number of keys of each limit that are reported
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(..=100))]
    top: u16,

    /// Show keys unmasked
    #[arg(long)]
    show_keys: bool,

    /// Write the whole report as JSON; `-` writes it to the standard output, in place of the text
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write the report as a self-contained HTML page with charts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

fn format(name: &str) -> Result<LogFormat, String> {
    LogFormat::named(name).ok_or_else(|| "expected combined, json, csv, envoy or times".to_owned())
}

fn unit(name: &str) -> Result<DurationUnit, String> {
    DurationUnit::named(name).ok_or_else(|| "expected s, ms, us or ns".to_owned())
}

fn share(text: &str) -> Result<f64, String> {
    let wanted = "expected a share such as 0.1% or 0.001";
    let (number, unit) = match text.strip_suffix('%') {
        Some(number) => (number, 100.0),
        None => (text, 1.0),
    };
    let number: f64 = number.trim().parse().map_err(|_| wanted)?;
    let share = number / unit;
    (0.0..=1.0)
        .contains(&share)
        .then_some(share)
        .ok_or_else(|| wanted.to_owned())
}

/// The maximum share of refusals: of all requests, or of those of one limit.
#[derive(Clone, Debug)]
struct Threshold {
    limit: Option<String>,
    share: f64,
}

fn threshold(text: &str) -> Result<Threshold, String> {
    let (limit, text) = match text.rsplit_once('=') {
        Some((limit, text)) => (Some(limit.to_owned()), text),
        None => (None, text),
    };
    Ok(Threshold {
        limit,
        share: share(text)?,
    })
}

impl Threshold {
    /// The message if more is refused.
    fn exceeded(&self, report: &Report) -> Option<String> {
        let (what, refused) = match &self.limit {
            None => ("of all requests".to_owned(), report.refused_share),
            Some(name) => {
                let limit = report.limits.iter().find(|limit| limit.limit == *name)?;
                (format!("of the requests of {name}"), limit.refused_share)
            }
        };
        (refused > self.share).then(|| {
            format!(
                "refused {:.4} % {what}, at most {} % may be",
                refused * 100.0,
                self.share * 100.0
            )
        })
    }
}

pub(crate) fn run(args: &Args, out: &mut impl Write, err: &mut impl Write) -> io::Result<ExitCode> {
    let mut read = |path: &Path| match Config::from_file(path) {
        Ok(config) => Ok(Some(config)),
        Err(error) => {
            // `replay` reads the same files as `check`.
            match file_kind::hint(path, "check") {
                Some(hint) => writeln!(err, "{hint}")?,
                None => error.lines().try_for_each(|line| writeln!(err, "{line}"))?,
            }
            io::Result::Ok(None)
        }
    };
    let Some(config) = read(&args.config)? else {
        return Ok(ExitCode::from(2));
    };
    let against = match &args.against {
        Some(path) => match read(path)? {
            Some(config) => Some(config),
            None => return Ok(ExitCode::from(2)),
        },
        None => None,
    };
    if let Some(wrong) = wrong_arguments(args, &config) {
        writeln!(err, "{wrong}")?;
        return Ok(ExitCode::from(2));
    }
    let logs = Logs::of(&args.logs).window(args.window);
    let logs = args.format.into_iter().fold(logs, Logs::format);
    let logs = args
        .duration_unit
        .into_iter()
        .fold(logs, Logs::duration_unit);
    let bar = Bar::new(logs.size());
    let replay = Replay::new(config, logs)
        .top(args.top.into())
        .reveal_keys(args.show_keys);
    let replay = against.into_iter().fold(replay, Replay::against);
    let replay = args.suggest.into_iter().fold(replay, Replay::suggest);
    let replay = args.deadline.into_iter().fold(replay, Replay::deadline);
    let replayed = replay.run_watched(&mut |progress| bar.show(progress));
    bar.done();
    let report = match replayed {
        Ok(report) => report,
        Err(error) => {
            writeln!(err, "{error}")?;
            return Ok(ExitCode::from(2));
        }
    };
    if args.json.as_deref() == Some(Path::new("-")) {
        writeln!(out, "{}", serde_json::to_string(&report)?)?;
    } else {
        write!(out, "{}", report.text())?;
    }
    let files = [
        (&args.json, Report::json as fn(&Report) -> String),
        (&args.html, Report::html),
    ];
    for (path, make) in files {
        if let Some(path) = path
            && path != Path::new("-")
        {
            std::fs::write(path, make(&report)).map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            })?;
        }
    }
    let exceeded: Vec<String> = args
        .max_refused
        .iter()
        .filter_map(|it| it.exceeded(&report))
        .collect();
    exceeded
        .iter()
        .try_for_each(|line| writeln!(err, "{line}"))?;
    Ok(if exceeded.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    })
}

/// Errors in arguments that can be checked only against the limits.
fn wrong_arguments(args: &Args, config: &Config) -> Option<String> {
    let named = args.max_refused.iter().filter_map(|it| it.limit.as_deref());
    let names: Vec<&str> = config.limiters().collect();
    let mut unknown = named.filter(|name| !names.contains(name));
    if let Some(name) = unknown.next() {
        let known = names.join(", ");
        return Some(format!(
            "--max-refused {name}: {} has no such limit; it has {known}",
            args.config.display()
        ));
    }
    config.route_specs().is_empty().then(|| {
        format!(
            "{}: it has no routes, so no request asks its limits: expected `routes`, such as - {{ match: /**, limits: [{}] }}",
            args.config.display(),
            names.first().unwrap_or(&"NAME")
        )
    })
}

/// The progress bar.
struct Bar(ProgressBar);

impl Bar {
    fn new(size: Option<u64>) -> Self {
        let target = match io::stderr().is_terminal() {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(size, target);
        let template = match size {
            Some(_) => "{msg}{bar:40} {percent}% of {binary_total_bytes}, {eta} left",
            None => "{msg}{spinner} {binary_bytes} read",
        };
        Self(match ProgressStyle::with_template(template) {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        })
    }

    fn show(&self, progress: Progress) {
        if progress.pass > 1 {
            self.0
                .set_message(format!("search, pass {}: ", progress.pass - 1));
        }
        self.0.set_position(progress.bytes);
    }

    fn done(&self) {
        self.0.finish_and_clear();
    }
}
