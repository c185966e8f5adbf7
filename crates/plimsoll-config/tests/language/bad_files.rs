//! Files that are wrong: for each the whole message, with line, column, field, what was expected and the nearest name.
//!
//! Each file in `bad_files/` has its messages beside it, one on a line: `a_cycle.json` in `a_cycle.json.txt`. The runner
//! reads every file of the directory, so a new one needs only its two files. With `PLIMSOLL_REWRITE=1` it writes the
//! messages that come instead of comparing them: read the difference.

use std::fs;
use std::path::{Path, PathBuf};

use plimsoll_config::{Config, Format};

fn files(directory: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad_files");
    let entries = fs::read_dir(root.join(directory)).expect("a directory of bad files");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let is_bad = |path: &PathBuf| path.is_file() && path.extension().is_some_and(|it| it != "txt");
    let mut paths: Vec<PathBuf> = paths.filter(is_bad).collect();
    paths.sort();
    paths
}

/// What is said of a file, one message on a line. Only the name of the file stands in it, not its directory.
fn messages(path: &Path) -> String {
    let name = path.file_name().expect("a name");
    let text = fs::read_to_string(path).expect("a file");
    let Err(error) = Config::from_str(name, &text, Format::of(path)) else {
        return "nothing\n".to_owned();
    };
    assert!(
        error.line().is_some() && error.column().is_some(),
        "{error}"
    );
    error.lines().map(|line| line + "\n").collect()
}

fn check(directory: &str, least: usize) {
    let files = files(directory);
    assert!(files.len() >= least, "{} files are left", files.len());
    let mut wrong = Vec::new();
    for path in files {
        let beside = PathBuf::from(format!("{}.txt", path.display()));
        let found = messages(&path);
        if std::env::var_os("PLIMSOLL_REWRITE").is_some() {
            fs::write(&beside, found).expect("a file");
            continue;
        }
        let expected = fs::read_to_string(&beside).unwrap_or_default();
        if found != expected {
            wrong.push(format!("expected {expected}found    {found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_mistake_is_named_with_its_place() {
    check("", 118);
}

#[cfg(feature = "redis")]
#[test]
fn every_mistake_about_stores_is_named_with_its_place() {
    check("stores", 31);
}

#[cfg(not(feature = "redis"))]
#[test]
fn without_a_client_there_are_no_stores() {
    let text = "limiters: {}\nstores: { main: { url: redis://127.0.0.1 } }\n";
    let error = Config::from_str("limits.yaml", text, Format::Yaml).expect_err("no client");
    let says = "limits.yaml:2:1: stores: stores need the feature `redis` of plimsoll-engine (or plimsoll-config), and this program was built \
                without it";
    assert_eq!(error.to_string(), says);
}

#[test]
fn a_file_that_is_not_there_has_no_place() {
    let error = Config::from_file("no/such/file.yaml").expect_err("no file");
    assert_eq!(error.line(), None);
    assert!(
        error
            .to_string()
            .starts_with("no/such/file.yaml: cannot be read: ")
    );
}

#[test]
fn what_could_exhaust_memory_or_the_stack_is_refused() {
    let deep = format!("limiters: {}1{}", "{ a: ".repeat(100), " }".repeat(100));
    let lists = format!("limiters = {}{}", "[".repeat(70), "]".repeat(70));
    let chain: String = (0..100)
        .map(|at| format!("  l{at}: {{ kind: all, of: [l{}] }}\n", at + 1))
        .collect();
    let chain = format!("limiters:\n{chain}  l100: {{ kind: concurrency, limit: 1 }}\n");
    let wide: String = (0..100)
        .map(|at| format!("  l{at}: {{ kind: concurrency, limit: 1 }}\n"))
        .collect();
    let names: Vec<String> = (0..100).map(|at| format!("l{at}")).collect();
    let wide = format!(
        "limiters:\n{wide}  all: {{ kind: all, of: [{}] }}\n",
        names.join(", ")
    );
    let cases = [
        (deep, Format::Yaml, "nested more than 64 deep"),
        (lists, Format::Toml, "nested more than 64 deep"),
        (chain, Format::Yaml, "`all` nested more than 64 deep"),
        (wide, Format::Yaml, "more than 64 limiters behind one `all`"),
    ];
    for (text, format, says) in cases {
        let error = Config::from_str("limits", &text, format).expect_err(says);
        assert!(error.to_string().contains(says), "{error}");
    }
}
