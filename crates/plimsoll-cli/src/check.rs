//! `plimsoll check`: validates configuration files and prints the limits that are in effect.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use plimsoll_config::{Config, schema};

/// Check configuration files, and print the limits they come to
///
/// Prints each file as YAML with every default filled in; a comment says of each
/// limiter whether it is a rate, a resource or a basic one. Stores are not
/// connected to, and the passwords in their addresses are not printed. Of every
/// mistake in a file it says where, which field, what was expected, and the
/// nearest name there is. What is allowed and surely not meant is a warning.
///
/// Exit status: 0 if all files are right, 2 if not.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Configuration files, in YAML, or in TOML or JSON if the name ends so
    #[arg(required_unless_present = "schema", value_name = "CONFIG")]
    files: Vec<PathBuf>,

    /// Print nothing of files that are right
    #[arg(short, long)]
    quiet: bool,

    /// Print the JSON Schema of configuration files, for editors
    #[arg(long, exclusive = true)]
    schema: bool,
}

/// Checks the files one after the other. One that is wrong does not keep the others from being checked.
pub(crate) fn run(args: &Args, out: &mut impl Write, err: &mut impl Write) -> io::Result<ExitCode> {
    if args.schema {
        write!(out, "{}", schema())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut status = ExitCode::SUCCESS;
    let mut first = true;
    for file in &args.files {
        let config = Config::from_file(file);
        if let Ok(config) = &config {
            for warning in config.warnings() {
                writeln!(err, "{warning} (warning)")?;
            }
        }
        match config {
            Ok(_) if args.quiet => {}
            Ok(config) => {
                // Several files are several documents.
                if !first {
                    writeln!(out, "---")?;
                }
                first = false;
                write!(out, "# {}\n{config}", file.display())?;
            }
            Err(error) => {
                status = ExitCode::from(2);
                error.lines().try_for_each(|line| writeln!(err, "{line}"))?;
            }
        }
    }
    Ok(status)
}
