//! `docs/seeds.md` says what shows each thing that the founding documents describe. What it names must exist.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The names of all functions in the Rust sources below a directory.
fn functions(directory: &Path, names: &mut HashSet<String>) {
    for entry in fs::read_dir(directory).expect("a readable directory") {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() {
            if path.file_name().is_none_or(|name| name != "target") {
                functions(&path, names);
            }
        } else if path.extension().is_some_and(|it| it == "rs") {
            let text = fs::read_to_string(&path).expect("a text");
            names.extend(text.split("fn ").skip(1).filter_map(|rest| {
                let end = rest.find(|it: char| !(it.is_alphanumeric() || it == '_'))?;
                Some(rest[..end].to_owned())
            }));
        }
    }
}

/// What stands between backticks.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[test]
fn what_shows_a_line_of_the_seeds_exists() {
    let root: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let Ok(page) = fs::read_to_string(root.join("docs/seeds.md")) else {
        eprintln!("skipped: docs/seeds.md is not part of the package");
        return;
    };
    let mut names = HashSet::new();
    functions(&root.join("crates"), &mut names);

    let mut ids = HashSet::new();
    let mut mistakes = Vec::new();
    for row in page.lines().filter(|line| line.starts_with("| 00")) {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let [_, id, _, _, shown, _] = cells[..] else {
            panic!("a row of four cells was expected: {row}");
        };
        if !ids.insert(id) {
            mistakes.push(format!("{id} is there twice"));
        }
        let decided = shown.starts_with("open") || shown.starts_with("not taken");
        if !decided && quoted(shown).next().is_none() {
            mistakes.push(format!("{id} names nothing that shows it"));
        }
        for name in quoted(shown) {
            if !names.contains(name) && !root.join(name).exists() {
                mistakes.push(format!(
                    "{id} names `{name}`, which is neither a test nor a file"
                ));
            }
        }
    }
    assert!(ids.len() > 150, "only {} rows were found", ids.len());
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}
