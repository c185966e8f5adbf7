//! `plimsoll generate`: shell completions and manual pages, for packagers.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap_complete::Shell;

/// Writes completions for shells and manual pages
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The directory: completions go into `completions`, pages into `man`
    to: PathBuf,
}

pub(crate) fn run(args: &Args, command: &mut clap::Command) -> io::Result<ExitCode> {
    let completions = args.to.join("completions");
    let pages = args.to.join("man");
    for directory in [&completions, &pages] {
        std::fs::create_dir_all(directory)?;
    }
    // Manual pages first: the generator of completions adds a `help` command permanently.
    let without = command.clone().disable_help_subcommand(true);
    clap_mangen::generate_to(without, &pages)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, command, "plimsoll", &completions)?;
    }
    Ok(ExitCode::SUCCESS)
}
