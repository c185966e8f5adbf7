//! `plimsoll test`: runs scenario files and reports the results.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use crate::file_kind;
use plimsoll_scenario::{RedisPlace, Tally, run_file, run_file_on};

/// Run scenario files against the real limiters, in virtual time
///
/// A scenario says what is asked of a limiter, step by step, and what it must
/// answer. Prints one line for each scenario that fails, then how many passed
/// and failed. A scenario that needs a limiter this version does not have is
/// counted apart: it neither passes nor fails.
///
/// A scenario with `config: limits.yaml` tests the limits of that file instead:
/// its steps are requests (`request: GET /login from 10.0.0.7`), or ask a limit
/// by name.
///
/// With --store the scenarios run against limits in a real Redis, still in
/// virtual time. It must answer as the limiters in memory do. What Redis cannot
/// hold, such as a queue, is counted apart too.
///
/// Exit status: 0 if no scenario failed, 1 if some failed, 2 if a file could not
/// be read or the store does not answer.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Scenario files, in YAML or JSON
    #[arg(required_unless_present = "schema", value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Print a line for every scenario, not only for those that fail
    #[arg(short, long)]
    verbose: bool,

    /// Run against limits in the Redis at this address (`redis://HOST:PORT`)
    #[arg(long, value_name = "URL")]
    store: Option<String>,

    /// Print the JSON Schema of scenario files, for editors
    #[arg(long, exclusive = true)]
    schema: bool,
}

/// Runs the files one after the other. A file that cannot be read does not stop the others.
pub(crate) fn run(args: &Args, out: &mut impl Write, err: &mut impl Write) -> io::Result<ExitCode> {
    if args.schema {
        write!(out, "{}", plimsoll_scenario::schema())?;
        return Ok(ExitCode::SUCCESS);
    }
    let store = match &args.store {
        None => None,
        Some(url) => match RedisPlace::connect(url) {
            Ok(store) => Some(store),
            Err(error) => {
                writeln!(err, "plimsoll: --store: {error}")?;
                return Ok(ExitCode::from(2));
            }
        },
    };
    let run = |file| match &store {
        None => run_file(file),
        Some(store) => run_file_on(file, store),
    };
    let mut tally = Tally::default();
    let mut unreadable = false;
    for file in &args.files {
        match run(file) {
            Ok(report) => {
                let mut print = |line| writeln!(out, "{line}");
                if args.verbose {
                    report.lines().try_for_each(&mut print)?;
                } else {
                    report.failures().try_for_each(&mut print)?;
                }
                tally += report.tally();
            }
            Err(error) => {
                unreadable = true;
                match file_kind::hint(file, "test") {
                    Some(hint) => writeln!(err, "{hint}")?,
                    None => writeln!(err, "{error}")?,
                }
            }
        }
    }
    writeln!(out, "{tally}")?;
    Ok(match (unreadable, tally.failed()) {
        (true, _) => ExitCode::from(2),
        (false, 0) => ExitCode::SUCCESS,
        (false, _) => ExitCode::from(1),
    })
}
