//! `docs/seeds.md` says what shows each thing that the founding documents describe. What it names must exist.

use std::collections::HashSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The names of all tests in the Rust sources below a directory.
fn tests(directory: &Path, names: &mut HashSet<String>) {
    for entry in fs::read_dir(directory).expect("a readable directory") {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() {
            if path.file_name().is_none_or(|name| name != "target") {
                tests(&path, names);
            }
        } else if path.extension().is_some_and(|it| it == "rs") {
            names.extend(tests_of(&fs::read_to_string(&path).expect("a text")));
        }
    }
}

/// The functions with an attribute such as `#[test]` or `#[tokio::test(start_paused = true)]`, whatever other attributes
/// stand between.
fn tests_of(text: &str) -> impl Iterator<Item = String> {
    let mut is_test = false;
    text.lines().map(str::trim).filter_map(move |line| {
        if let Some(attribute) = line.strip_prefix("#[") {
            let path = attribute.split(['(', ']']).next().unwrap_or_default();
            is_test |= path == "test" || path.ends_with("::test");
        }
        let (before, name) = line.split_once("fn ")?;
        let is_function = ["", "async ", "pub ", "pub async "].contains(&before);
        let end = name.find(|it: char| !(it.is_alphanumeric() || it == '_'))?;
        (is_function && std::mem::take(&mut is_test)).then(|| name[..end].to_owned())
    })
}

/// What stands between backticks.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[test]
fn what_shows_a_line_of_the_seeds_exists() {
    let root: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let Ok(page) = fs::read_to_string(root.join("docs/seeds.md")) else {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: docs/seeds.md is not part of the package"
        );
        return;
    };
    let mut names = HashSet::new();
    tests(&root.join("crates"), &mut names);

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
    assert!(ids.len() >= 171, "only {} rows were found", ids.len());
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

#[test]
fn only_tests_show_something() {
    let text = "fn helper() {}\n#[test]\n#[expect(\n    x,\n)]\nfn shown() {\n    fn inner() {}\n}\n\
                #[tokio::test(start_paused = true)]\nasync fn waits() {}\n#[attest]\nfn other() {}\n";
    assert_eq!(tests_of(text).collect::<Vec<_>>(), ["shown", "waits"]);
}
