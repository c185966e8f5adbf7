//! `plimsoll check`: validates configuration files and prints the limits that are in effect.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use plimsoll_config::{Config, ConfigError, schema};
use serde_json::json;

use crate::file_kind;

/// Check configuration files, and print the limits they come to
///
/// Prints each file as YAML with every default filled in; a comment says of each
/// limiter whether it is a rate, a resource or a basic one. Stores are not
/// connected to, and the passwords in their addresses are not printed. Of every
/// mistake in a file it says where, which field, what was expected, and the
/// nearest name there is. What is allowed and surely not meant is a warning.
///
/// With --json each file is an object with `file`, `files` (with those that it
/// includes), `valid`, `problems` and `warnings` (one line of text each), and if
/// it is right `config`: `limits` by name, with every default and their `class`,
/// `routes` with what each `asks`, and the other sections as they are.
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

    /// Print the limits as JSON: a list with an object for each file
    #[arg(long)]
    json: bool,

    /// Print the JSON Schema of configuration files, for editors
    #[arg(long, exclusive = true)]
    schema: bool,
}

/// Checks the files one after the other. An invalid file does not stop the check of the others.
pub(crate) fn run(args: &Args, out: &mut impl Write, err: &mut impl Write) -> io::Result<ExitCode> {
    if args.schema {
        write!(out, "{}", schema())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut status = ExitCode::SUCCESS;
    let mut documents = Vec::new();
    for file in &args.files {
        let config = Config::from_file(file);
        if config.is_err() {
            status = ExitCode::from(2);
        }
        print_problems(file, &config, err)?;
        match config {
            _ if args.json => documents.push(json(file, &config)),
            Ok(config) if !args.quiet => documents.push(format!("# {}\n{config}", file.display())),
            _ => {}
        }
    }
    if args.json {
        writeln!(out, "[{}]", documents.join(",\n"))?;
    } else {
        // Separates the YAML documents of several files.
        write!(out, "{}", documents.join("---\n"))?;
    }
    Ok(status)
}

/// Prints the errors and warnings of a file.
fn print_problems(
    file: &Path,
    config: &Result<Config, ConfigError>,
    err: &mut impl Write,
) -> io::Result<()> {
    match config {
        Ok(config) => config
            .warnings()
            .try_for_each(|warning| writeln!(err, "{warning} (warning)")),
        Err(error) => match file_kind::hint(file, "check") {
            Some(hint) => writeln!(err, "{hint}"),
            None => error.lines().try_for_each(|line| writeln!(err, "{line}")),
        },
    }
}

/// The JSON object of a file.
fn json(file: &Path, config: &Result<Config, ConfigError>) -> String {
    let (mut files, mut problems, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
    let mut valid = serde_json::Map::new();
    match config {
        Ok(config) => {
            files.extend(config.files().iter().map(|file| file.display().to_string()));
            warnings.extend(config.warnings());
            let config = serde_json::from_str(&config.to_json()).unwrap_or_default();
            valid.insert("config".to_owned(), config);
        }
        Err(error) => problems.extend(error.lines()),
    }
    let mut object = json!({
        "file": file.display().to_string(),
        "files": files,
        "valid": config.is_ok(),
        "problems": problems,
        "warnings": warnings,
    });
    if let Some(object) = object.as_object_mut() {
        object.append(&mut valid);
    }
    object.to_string()
}
