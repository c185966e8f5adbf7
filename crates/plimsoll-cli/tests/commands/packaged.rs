//! `plimsoll health`, and what `plimsoll generate` writes.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

fn plimsoll(arguments: &[&str]) -> std::process::Output {
    let program = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args(arguments)
        .env_remove("PLIMSOLL_ADMIN")
        .output();
    program.expect("it runs")
}

#[test]
fn completions_and_manual_pages_are_up_to_date() {
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join("generated");
    let _ = fs::remove_dir_all(&made);
    let status = plimsoll(&["generate", made.to_str().expect("text")]).status;
    assert!(status.success());
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    for part in ["completions", "man"] {
        let names = |directory: &Path| {
            let entries = fs::read_dir(directory.join(part)).expect("a directory");
            let mut names: Vec<_> = entries
                .map(|it| it.expect("an entry").file_name())
                .collect();
            names.sort();
            names
        };
        assert_eq!(
            names(&made),
            names(&kept),
            "run `cargo run -p plimsoll-cli -- generate packaging`"
        );
        for name in names(&made) {
            let text = |root: &Path| fs::read_to_string(root.join(part).join(&name)).expect("text");
            assert!(
                text(&made) == text(&kept),
                "packaging/{part}/{} is out of date: run `cargo run -p plimsoll-cli -- generate packaging`",
                name.display()
            );
        }
    }
}

#[test]
fn health_says_whether_a_server_is_ready() {
    for (answer, code) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", 0),
        (
            "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n",
            1,
        ),
        ("rubbish", 1),
        ("", 1),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            // All of it: what is not read resets the connection.
            let mut asked = Vec::new();
            while !asked.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).expect("a request");
                asked.push(byte[0]);
            }
            assert!(asked.starts_with(b"GET /readyz HTTP/1.1\r\n"));
            stream.write_all(answer.as_bytes()).expect("an answer");
        });
        let output = plimsoll(&["health", "--admin", &address]);
        assert_eq!(output.status.code(), Some(code), "{answer:?}: {output:?}");
        server.join().expect("it works");
    }
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = free.local_addr().expect("an address").to_string();
    drop(free);
    let output = plimsoll(&["health", "--admin", &address]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("does not answer"), "{said}");
}

/// What the Debian package takes from the repository is there. The program itself is built by cargo-deb.
#[test]
fn everything_in_the_debian_package_is_there() {
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = fs::read_to_string(crate_root.join("Cargo.toml")).expect("a manifest");
    let assets = manifest.split("assets = [").nth(1).expect("assets");
    let assets = assets.split("\n]").next().expect("their end");
    let mut found = 0;
    for line in assets.lines().filter(|line| line.contains('[')) {
        let path = line.split('"').nth(1).expect("a path");
        if path == "target/release/plimsoll" {
            continue;
        }
        let (directory, end) = path.rsplit_once('/').unwrap_or((".", path));
        let suffix = end.trim_start_matches('*');
        let entries = fs::read_dir(crate_root.join(directory));
        let mut entries = entries.unwrap_or_else(|error| panic!("{path}: {error}"));
        let matches = |name: &str| name == end || (end.starts_with('*') && name.ends_with(suffix));
        let is_there =
            entries.any(|it| matches(&it.expect("an entry").file_name().to_string_lossy()));
        assert!(is_there, "{path}");
        found += 1;
    }
    assert!(found >= 7, "{found}");
}
