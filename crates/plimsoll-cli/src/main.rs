//! The program `plimsoll`.

mod check;
mod demo;
mod file_kind;
mod gateway;
mod generate;
mod health;
mod process;
mod replay;
mod serve;
mod simulate;
mod test;
mod top;

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use mimalloc::MiMalloc;

/// A server allocates and frees some kilobytes for each request, for which glibc's allocator takes its slow path.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Tests, simulates, replays and serves rate, concurrency and adaptive limits
#[derive(Parser)]
#[command(name = "plimsoll", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Check(check::Args),
    Test(test::Args),
    Simulate(simulate::Args),
    Replay(replay::Args),
    Serve(serve::Args),
    Gateway(gateway::Args),
    Top(top::Args),
    Demo(demo::Args),
    Health(health::Args),
    #[command(hide = true)]
    Generate(generate::Args),
}

fn main() -> ExitCode {
    // Not locked: other threads draw the progress bar.
    let (mut out, mut err) = (io::stdout(), io::stderr());
    let status = match Cli::parse().command {
        Command::Check(args) => check::run(&args, &mut out, &mut err),
        Command::Test(args) => test::run(&args, &mut out, &mut err),
        Command::Simulate(args) => simulate::run(&args, &mut out, &mut err),
        Command::Replay(args) => replay::run(&args, &mut out, &mut err),
        Command::Serve(args) => serve::run(args, &mut out, &mut err),
        Command::Gateway(args) => gateway::run(&args, &mut out, &mut err),
        Command::Top(args) => top::run(args, &mut out, &mut err),
        Command::Demo(args) => demo::run(&args, &mut out, &mut err),
        Command::Health(args) => health::run(&args, &mut out, &mut err),
        Command::Generate(args) => generate::run(&args, &mut Cli::command()),
    };
    status.unwrap_or_else(|error| {
        // A closed pipe is not an error: the reader stopped reading.
        if error.kind() != ErrorKind::BrokenPipe {
            let _ = writeln!(err, "plimsoll: {error}");
        }
        ExitCode::from(2)
    })
}
