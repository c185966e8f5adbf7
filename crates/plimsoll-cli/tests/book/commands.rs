//! Every command of the book is run, page by page, and what it prints is compared with what the page shows.
//!
//! A page is one session of `bash` in a directory of its own, in which `examples` is that of the repository, and, where the system allows it, on a network of its own, so
//! that pages may use the ports that the program has unless told otherwise. In the output that is shown, `[..]` stands for
//! anything in a line and a line `...` for any lines. A command that ends with `&` goes on until the page ends; the next one
//! waits until what is shown of its output is there. Comments before a block: `file: NAME` writes the block to a file of
//! the page's directory, `needs: NAME` at the top names programs without which the page cannot run, and `shown by: TEST`
//! before commands names the test that runs them instead.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use super::page::{Block, Page, book, root};

const PLIMSOLL: &str = env!("CARGO_BIN_EXE_plimsoll");
/// Longer than any page takes on a machine that does other things too.
const AT_MOST: &str = "240";

/// A command, and what it prints.
struct Shown<'p> {
    command: String,
    output: Vec<&'p str>,
    line: usize,
}

impl Shown<'_> {
    fn in_background(&self) -> bool {
        self.command.trim_end().ends_with('&')
    }

    /// A part of the last line that is shown, to wait for.
    fn sign(&self) -> Option<&str> {
        let mut lines = self.output.iter().rev();
        let last = lines.find(|line| !line.trim().is_empty() && **line != "...")?;
        last.split("[..]").map(str::trim).max_by_key(|it| it.len())
    }
}

fn commands(block: &Block) -> Vec<Shown<'_>> {
    let mut all: Vec<Shown<'_>> = Vec::new();
    let mut continued = false;
    for (number, line) in block.text.lines().enumerate() {
        if let Some(command) = line.strip_prefix("$ ") {
            // What cargo would build and run has been built.
            let command = command.replace("cargo run -p plimsoll-cli -- ", "plimsoll ");
            continued = command.ends_with('\\');
            all.push(Shown {
                command,
                output: Vec::new(),
                line: block.line + number,
            });
        } else {
            let last = all
                .last_mut()
                .expect("a block of commands begins with `$ `");
            if continued {
                continued = line.ends_with('\\');
                let _ = write!(last.command, "\n{line}");
            } else {
                last.output.push(line);
            }
        }
    }
    all
}

/// Whether a line is as it was shown.
fn same(shown: &str, line: &str) -> bool {
    let mut parts = shown.trim_end().split("[..]");
    let Some(mut rest) = line
        .trim_end()
        .strip_prefix(parts.next().unwrap_or_default())
    else {
        return false;
    };
    let parts: Vec<_> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

fn all_same(shown: &[&str], lines: &[&str]) -> bool {
    match (shown.split_first(), lines.split_first()) {
        (None, None) => true,
        (Some((&"...", more)), _) => {
            (0..=lines.len()).any(|skipped| all_same(more, &lines[skipped..]))
        }
        (Some((shown, more)), Some((line, lines))) => same(shown, line) && all_same(more, lines),
        _ => false,
    }
}

/// A directory of its own, which is gone with it.
struct Dir(PathBuf);

impl Dir {
    fn new(page: &str) -> Self {
        let name = page.replace(['/', '.'], "-");
        let dir = std::env::temp_dir().join(format!("plimsoll-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory for the page");
        let examples = fs::canonicalize(root().join("examples")).expect("the examples");
        std::os::unix::fs::symlink(examples, dir.join("examples")).expect("a link to them");
        Self(dir)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Where programs are: ours, the Envoy that `PLIMSOLL_ENVOY` names, and those of the system.
fn path() -> String {
    let envoy = std::env::var("PLIMSOLL_ENVOY").unwrap_or_default();
    let directory = |program: &str| {
        Path::new(program)
            .parent()
            .map(|it| it.display().to_string())
    };
    let places = [
        directory(PLIMSOLL),
        directory(&envoy),
        std::env::var("PATH").ok(),
    ];
    places
        .into_iter()
        .flatten()
        .filter(|it| !it.is_empty())
        .collect::<Vec<_>>()
        .join(":")
}

fn found(program: &str) -> bool {
    let mut look = Command::new("bash");
    look.env("PATH", path());
    look.args(["-c", &format!("command -v {program}")]);
    look.stdout(Stdio::null())
        .status()
        .is_ok_and(|it| it.success())
}

/// A network of one's own.
const ALONE: [&str; 2] = ["--map-root-user", "--net"];

fn networks() -> bool {
    let mut tried = Command::new("unshare");
    tried.args(ALONE).args(["ip", "link", "set", "lo", "up"]);
    tried
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|it| it.success())
}

fn session(dir: &Path, alone: bool) -> Command {
    let mut session = Command::new("timeout");
    session.args(["-k", "5", AT_MOST]);
    if alone {
        session.arg("unshare").args(ALONE);
        session.args(["bash", "-c", "ip link set lo up; exec bash --norc"]);
    } else {
        session.args(["bash", "--norc"]);
    }
    session
        .env("PATH", path())
        .env("HOME", dir)
        .env("NO_COLOR", "1")
        .env("LC_ALL", "C.UTF-8")
        .current_dir(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    session
}

/// What is wrong with a page.
fn run(page: &Page, alone: bool) -> Vec<String> {
    let dir = Dir::new(&page.name);
    let mut child = session(&dir.0, alone).spawn().expect("a shell");
    let mut to = child.stdin.take().expect("it is piped");
    let mut from = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut mistakes = Vec::new();
    let mut number = 0;
    'blocks: for block in &page.blocks {
        if let Some((name, file)) = &block.note {
            if name == "file" && !file.contains('/') {
                fs::write(dir.0.join(file), &block.text).expect("a file of the page");
            }
            if name == "shown by" {
                continue;
            }
        }
        if block.language != "console" {
            continue;
        }
        for shown in commands(block) {
            number += 1;
            let mut script = format!("{{ {}\n}} >out.{number} 2>&1\n", shown.command);
            if shown.in_background()
                && let Some(sign) = shown.sign()
            {
                let sign = sign.replace('\'', r"'\''");
                let _ = writeln!(
                    script,
                    "for i in $(seq 600); do grep -qF -- '{sign}' out.{number} && break; sleep 0.05; done"
                );
            }
            let _ = writeln!(script, "echo done");
            let mut answer = String::new();
            let asked = to.write_all(script.as_bytes());
            if asked.is_err() || from.read_line(&mut answer).unwrap_or(0) == 0 {
                mistakes.push(format!(
                    "{}:{}: `{}` did not end",
                    page.name, shown.line, shown.command
                ));
                break 'blocks;
            }
            let printed = fs::read(dir.0.join(format!("out.{number}"))).unwrap_or_default();
            let printed = String::from_utf8_lossy(&printed).replace('\r', "");
            let lines: Vec<_> = printed.trim_end().lines().collect();
            let mut expected = shown.output.clone();
            while expected.last().is_some_and(|line| line.trim().is_empty()) {
                expected.pop();
            }
            let compared = !(shown.in_background() && expected.is_empty());
            if compared && !all_same(&expected, &lines) {
                mistakes.push(format!(
                    "{}:{}: `{}` printed\n{printed}\nand not\n{}",
                    page.name,
                    shown.line,
                    shown.command,
                    expected.join("\n")
                ));
            }
        }
    }
    let _ = to.write_all(b"kill $(jobs -p) 2>/dev/null; wait\nexit\n");
    drop(to);
    let _ = child.wait();
    mistakes
}

#[test]
fn every_command_does_what_its_page_shows() {
    let only = std::env::var("PLIMSOLL_PAGE").unwrap_or_default();
    let required = std::env::var_os("PLIMSOLL_REQUIRE_REDIS").is_some();
    let mut pages = book();
    pages.retain(|page| page.name.contains(&only));
    pages.retain(|page| page.blocks.iter().any(|block| block.language == "console"));
    pages.retain(|page| {
        let needs = page.notes.iter().filter(|(name, _)| name == "needs");
        let mut needs = needs.flat_map(|(_, programs)| programs.split_whitespace());
        match needs.find(|program| !found(program)) {
            // A real Envoy cannot be had everywhere.
            Some(missing) if required && missing != "envoy" => {
                panic!("{} needs {missing}", page.name)
            }
            Some(missing) => {
                let _ = writeln!(
                    std::io::stderr(),
                    "SKIPPED: {}: there is no {missing} here",
                    page.name
                );
                false
            }
            None => true,
        }
    });
    let alone = networks();
    let workers = if alone { 3 } else { 1 };
    let left = Mutex::new(pages.iter());
    let mistakes = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let Some(page) = left.lock().expect("no page panics").next() else {
                        return;
                    };
                    let wrong = run(page, alone);
                    mistakes.lock().expect("no page panics").extend(wrong);
                }
            });
        }
    });
    let mistakes = mistakes.into_inner().expect("no page panics");
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n\n"));
}

/// Commands that another test runs are named with it.
#[test]
fn tests_that_run_commands_instead_exist() {
    for page in book() {
        for block in &page.blocks {
            let Some((name, test)) = &block.note else {
                continue;
            };
            if name != "shown by" {
                continue;
            }
            let (file, function) = test.split_once("::").expect("FILE::TEST");
            let source = fs::read_to_string(root().join(file)).unwrap_or_default();
            assert!(
                source.contains(&format!("fn {function}(")),
                "{}:{}: there is no {test}",
                page.name,
                block.line
            );
        }
    }
}

#[test]
fn output_is_compared_and_not_only_read() {
    assert!(same("date: [..]", "date: today"));
    assert!(same("a [..] c [..]", "a b c d"));
    assert!(!same("a [..] c", "a b d"));
    assert!(!same("ab", "abc"));
    assert!(all_same(&["a", "...", "d"], &["a", "b", "c", "d"]));
    assert!(!all_same(&["a", "...", "d"], &["a", "b", "c"]));
    assert!(!all_same(&[], &["anything"]));
}
