//! The project's conformance suite: every scenario file must be readable, and whatever can be run must pass.

use std::path::{Path, PathBuf};

use plimsoll_scenario::{Tally, run_file};

/// Where the suite is, if it is here: beside the repository, or where `PLIMSOLL_VECTORS` says.
fn suite() -> Option<PathBuf> {
    let given = std::env::var_os("PLIMSOLL_VECTORS").map(PathBuf::from);
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/vectors");
    let dir = given.clone().unwrap_or_else(beside);
    assert!(
        given.is_none() || dir.is_dir(),
        "PLIMSOLL_VECTORS: no directory {}",
        dir.display()
    );
    dir.is_dir().then_some(dir)
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).expect("a directory").flatten();
    let scenario = |path: &PathBuf| {
        path.extension()
            .is_some_and(|end| end == "json" || end == "yaml")
    };
    let mut files: Vec<_> = entries.map(|entry| entry.path()).filter(scenario).collect();
    files.sort();
    files
}

fn check(dir: &Path) -> Tally {
    let files = files(dir);
    assert!(!files.is_empty(), "no scenario files in {}", dir.display());
    let mut all = Tally::default();
    let mut failures = Vec::new();
    for file in files {
        let name = file
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        match run_file(&file) {
            Ok(report) => {
                eprintln!("{name}: {}", report.tally().to_string().replace('\n', "; "));
                failures.extend(report.failures());
                all += report.tally();
            }
            Err(error) => failures.push(error.to_string()),
        }
    }
    eprintln!("{all}");
    assert!(failures.is_empty(), "\n{}\n", failures.join("\n"));
    all
}

#[test]
fn the_conformance_suite_passes() {
    match suite() {
        Some(dir) => drop(check(&dir)),
        None => {
            eprintln!("the conformance suite is not here: only examples/scenarios is checked");
            check(&examples());
        }
    }
}

#[test]
fn the_examples_pass_and_are_all_supported() {
    // Requests need the limits of a configuration.
    let requests = if cfg!(feature = "config") { 0 } else { 6 };
    assert_eq!(check(&examples()).not_supported(), requests);
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scenarios")
}
