//! Whatever a file has become while a program runs: a clear error in little time, and the old limits stay.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use plimsoll::ManualClock;
use plimsoll_config::{Config, Limits};

const GOOD: &str = "limiters: { a: { kind: fixed_window, limit: 2, window: 1h } }\n";

/// A directory of its own for each test.
struct Dir(PathBuf);

impl Dir {
    fn new(test: &str) -> Self {
        let dir =
            std::env::temp_dir().join(format!("plimsoll-hostile-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).expect("a directory");
        Self(dir)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn build() -> Limits {
    let time = ManualClock::new();
    let config = Config::from_str("limits.yaml", GOOD, plimsoll_config::Format::Yaml);
    config.expect("right").build(&time.clock()).expect("builds")
}

/// Reads `bytes` as a file of that name in the place of the old limits.
#[track_caller]
fn refused(name: &str, bytes: &[u8], says: &str) {
    let dir = Dir::new(&says.replace(|c: char| !c.is_ascii_alphanumeric(), ""));
    let limits = build();
    let held = limits.limiter("a").expect("there");
    assert!(held.try_acquire(2.into()).is_ok());
    let before = limits.current();
    let file = dir.file(name);
    fs::write(&file, bytes).expect("written");
    let error = limits.replace_file(&file).expect_err(says);
    assert!(
        error.to_string().contains(says),
        "expected {says}\nfound    {error}"
    );
    assert!(
        error.to_string().len() < 4000,
        "{} long",
        error.to_string().len()
    );
    assert!(Arc::ptr_eq(&before, &limits.current()), "{says}");
    assert!(
        held.try_acquire(1.into()).is_err(),
        "{says}: nothing was refilled"
    );
}

#[test]
fn a_file_that_is_too_large() {
    refused(
        "limits.yaml",
        &vec![b' '; (16 << 20) + 1],
        "larger than 16 MiB",
    );
}

#[test]
fn a_file_that_is_not_text() {
    refused(
        "limits.yaml",
        b"limiters:\n  a\xff: 1\n",
        ":2:4: this is not UTF-8 text",
    );
    refused(
        "limits.toml",
        b"[limiters]\n\xc3",
        ":2:1: this is not UTF-8 text",
    );
    refused("limits.json", &[0x80; 10], ":1:1: this is not UTF-8 text");
}

#[test]
fn a_file_that_is_half_written() {
    let whole = "limiters:\n  a: { kind: fixed_window, limit: 2, window: 1h }\n  b: { kind: concurrency, limit: 1 }\nroutes:\n  - { match: /a, middleware: [a, b] }\n";
    for end in (1..whole.len()).filter(|end| whole.is_char_boundary(*end)) {
        // A beginning that is right by itself cannot be told from a whole file; it must only not panic.
        let _ = Config::from_str("limits.yaml", &whole[..end], plimsoll_config::Format::Yaml);
    }
    refused(
        "limits.yaml",
        b"limiters:\n  a: { kind: fixed_window, lim",
        "limits.yaml:",
    );
    refused(
        "limits.yaml",
        b"",
        "expected a configuration file: a map with `limits` or `limiters`, found nothing",
    );
    refused(
        "limits.json",
        b"{ \"limiters\": { \"a\": {",
        "not JSON: EOF",
    );
    refused("limits.toml", b"[limiters.a]\nkind = \"conc", "not TOML");
    refused("limits.yaml", &[0; 512], "limits.yaml:1:1: not YAML");
}

#[test]
fn a_file_that_goes_round_in_circles() {
    refused(
        "limits.yaml",
        b"limiters: &x { a: *x }\n",
        "this alias is inside the value it stands for",
    );
    refused(
        "limits.yaml",
        b"limiters:\n  a: { kind: all, of: [b] }\n  b: { kind: all, of: [a] }\n",
        "a cycle: a -> b -> a",
    );
    refused(
        "limits.yaml",
        b"limiters: {}\nmiddleware: { a: [b], b: [c], c: [a] }\n",
        "a cycle: a -> b -> c -> a",
    );
}

#[test]
fn a_file_that_is_too_deep() {
    let deep = |open: &str, close: &str, n: usize| format!("{}{}", open.repeat(n), close.repeat(n));
    for n in [65, 100, 100_000] {
        refused(
            "limits.yaml",
            deep("[", "]", n).as_bytes(),
            "nested more than 64 deep",
        );
        refused(
            "limits.yaml",
            deep("{a: ", "}", n).as_bytes(),
            "nested more than 64 deep",
        );
        refused(
            "limits.json",
            deep("{\"a\":", "}", n.min(120))
                .replace(":}", ":1}")
                .as_bytes(),
            "nested more than 64 deep",
        );
    }
    refused(
        "limits.json",
        deep("[", "]", 100_000).as_bytes(),
        "nested more than 64 deep",
    );
    refused(
        "limits.toml",
        format!("{} = 1\n", vec!["a"; 5000].join(".")).as_bytes(),
        "limits.toml:1:",
    );
    refused(
        "limits.toml",
        format!("a = {}", deep("[", "]", 100_000)).as_bytes(),
        "limits.toml:1:",
    );
}

#[test]
fn a_file_whose_aliases_explode() {
    let mut laughs = "limiters: {}\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for at in 1..12 {
        let before = vec![format!("*a{}", at - 1); 10].join(", ");
        laughs += &format!("a{at}: &a{at} [{before}]\n");
    }
    refused(
        "limits.yaml",
        laughs.as_bytes(),
        "more than 1000000 values in one file",
    );
    // One long text is one value: it used to be copied as often as it was called by its alias.
    let aliases = vec!["*t"; 2_000].join(", ");
    let long = format!(
        "limiters: {{}}\nt: &t {}\nu: [{aliases}]\n",
        "x".repeat(1 << 20)
    );
    refused(
        "limits.yaml",
        long.as_bytes(),
        "aliases come to more than 16 MiB of text",
    );
}

#[test]
fn a_file_that_has_become_a_directory_or_nothing() {
    let dir = Dir::new("gone");
    let limits = build();
    let before = limits.current();
    let file = dir.file("limits.yaml");
    fs::create_dir(&file).expect("a directory");
    let error = limits.replace_file(&file).expect_err("a directory");
    assert!(
        error.to_string().contains("limits.yaml: cannot be read: "),
        "{error}"
    );
    fs::remove_dir(&file).expect("gone");
    let error = limits.replace_file(&file).expect_err("nothing");
    assert!(
        error.to_string().contains("limits.yaml: cannot be read: "),
        "{error}"
    );
    assert!(Arc::ptr_eq(&before, &limits.current()));
    fs::write(&file, GOOD).expect("written");
    assert_eq!(limits.replace_file(&file).expect("right").unchanged, ["a"]);
}
