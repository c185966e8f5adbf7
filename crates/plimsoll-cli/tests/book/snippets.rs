//! Blocks that are neither Rust nor a file that a command of the page uses are tried by the program that they are for: `cargo`
//! resolves dependencies, `nginx` reads its configuration. A block that is a part of something else says of what
//! (`<!-- part of: docs/start/envoy.md -->`), and is there line by line.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::page::{Block, book, root};

/// Pages whose examples have a test where they are made.
const GENERATED: [&str; 1] = ["docs/reference.md"];

#[test]
fn every_snippet_is_tried_by_something() {
    let mut mistakes = Vec::new();
    for page in book() {
        if GENERATED.contains(&page.name.as_str()) {
            continue;
        }
        for block in &page.blocks {
            let tried = match (&block.note, block.language.as_str()) {
                (Some((note, file)), _) if note == "part of" => is_part_of(block, file),
                // Commands use it, or it is a file of the repository, or a test shows it.
                (Some((note, _)), _) if note == "file" || note == "shown by" => Ok(()),
                (_, "toml") => dependencies_resolve(&block.text),
                (_, "nginx") => nginx_reads(&block.text),
                // Read by `configurations_can_be_read`.
                (_, "yaml") if block.text.lines().any(|line| line.starts_with("limits:")) => Ok(()),
                (_, "yaml" | "json" | "lua" | "python" | "sh" | "java" | "csharp" | "promql") => {
                    Err("nothing tries this".to_owned())
                }
                _ => Ok(()),
            };
            if let Err(mistake) = tried {
                mistakes.push(format!("{}:{}: {mistake}", page.name, block.line));
            }
        }
    }
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

/// Whether all lines of the block follow each other in the file, however far they are indented there.
fn is_part_of(block: &Block, file: &str) -> Result<(), String> {
    let Ok(whole) = fs::read_to_string(root().join(file)) else {
        return Err(format!("there is no {file}"));
    };
    let lines: Vec<&str> = whole.lines().map(str::trim).collect();
    let part: Vec<&str> = block.text.lines().map(str::trim).collect();
    match lines.windows(part.len()).any(|it| it == part) {
        true => Ok(()),
        false => Err(format!("this is no part of {file} any more")),
    }
}

fn scratch(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("snippets")
        // Tests run beside each other.
        .join(format!("{:?}", std::thread::current().id()))
        .join(name);
    fs::create_dir_all(&directory).expect("a directory");
    directory
}

fn succeeds(command: &mut Command) -> Result<(), String> {
    let output = command
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// A program of its own with these dependencies, of which ours are those of this repository: versions and features are there.
fn dependencies_resolve(text: &str) -> Result<(), String> {
    let directory = scratch("dependencies");
    let mut manifest = format!(
        "[package]\nname = \"copied\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n{text}\n[workspace]\n\n[patch.crates-io]\n"
    );
    for entry in fs::read_dir(root().join("crates")).expect("crates") {
        let path = entry.expect("a readable entry").path();
        let name = path.file_name().expect("a name").to_string_lossy();
        if text
            .lines()
            .any(|line| line.split(' ').next() == Some(&*name))
        {
            manifest += &format!("{name} = {{ path = {path:?} }}\n");
        }
    }
    fs::write(directory.join("Cargo.toml"), manifest).expect("it is written");
    fs::copy(root().join("Cargo.lock"), directory.join("Cargo.lock")).expect("it is copied");
    fs::create_dir_all(directory.join("src")).expect("a directory");
    fs::write(directory.join("src/main.rs"), "fn main() {}\n").expect("it is written");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["tree", "--offline", "--quiet", "--manifest-path"]);
    succeeds(cargo.arg(directory.join("Cargo.toml")))
}

/// What stands in a server of nginx.
fn nginx_reads(text: &str) -> Result<(), String> {
    let directory = scratch("nginx");
    let at = directory.display();
    let whole = format!(
        "pid {at}/pid;\nerror_log stderr;\nevents {{}}\nhttp {{\naccess_log off;\nserver {{\nlisten 127.0.0.1:1;\n{text}\n}}\n}}\n"
    );
    let file = directory.join("nginx.conf");
    fs::write(&file, whole).expect("it is written");
    let mut nginx = Command::new("nginx");
    nginx.args(["-t", "-q", "-e", "stderr", "-p"]);
    succeeds(nginx.arg(&directory).arg("-c").arg(&file))
}

#[test]
fn what_is_wrong_is_found() {
    let block = |text: &str| Block {
        language: "yaml".to_owned(),
        text: text.to_owned(),
        line: 1,
        note: None,
        range: 0..0,
    };
    let page = "docs/start/envoy.md";
    assert!(is_part_of(&block("domain: web\n"), page).is_ok());
    assert!(is_part_of(&block("domain: other\n"), page).is_err());
    let tower = |feature: &str| {
        format!(
            "[dependencies]\nplimsoll-tower = {{ version = \"0.1\", features = [\"{feature}\"] }}\n"
        )
    };
    assert_eq!(dependencies_resolve(&tower("axum")), Ok(()));
    assert!(dependencies_resolve(&tower("axiom")).is_err());
    assert!(nginx_reads("location / { proxy_pas http://127.0.0.1; }").is_err());
}
