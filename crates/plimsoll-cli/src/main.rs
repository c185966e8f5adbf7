//! The program `plimsoll`.

mod test;

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// How much load is safe: limits, from the command line.
#[derive(Parser)]
#[command(name = "plimsoll", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Test(test::Args),
}

fn main() -> ExitCode {
    let (mut out, mut err) = (io::stdout().lock(), io::stderr().lock());
    let status = match Cli::parse().command {
        Command::Test(args) => test::run(&args, &mut out, &mut err),
    };
    status.unwrap_or_else(|error| {
        // Whoever reads our output may stop reading: nothing to complain about.
        if error.kind() != ErrorKind::BrokenPipe {
            let _ = writeln!(err, "plimsoll: {error}");
        }
        ExitCode::from(2)
    })
}
