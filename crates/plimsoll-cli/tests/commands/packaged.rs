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

/// Built from the program under test, unpacked, and what is in it used. `dpkg-deb -x` does what an installation does with files.
#[test]
fn the_debian_package_has_what_its_files_name() {
    let has = |tool: &str| Command::new(tool).arg("--version").output().is_ok();
    if !(has("dpkg-deb") && has("dpkg-shlibdeps")) {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: the Debian package: no dpkg-deb and dpkg-shlibdeps (Debian: dpkg-dev)"
        );
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("deb");
    let _ = fs::remove_dir_all(&out);
    fs::create_dir_all(&out).expect("a directory");
    let run = |command: &mut Command| {
        let output = command.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {said}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    let package = run(Command::new(root.join("packaging/debian/build"))
        .args([env!("CARGO_BIN_EXE_plimsoll"), out.to_str().expect("text")])
        .env("PLIMSOLL_DEB_COMPRESSION", "none"));
    let field = |name: &str| run(Command::new("dpkg-deb").args(["-f", &package, name]));
    assert_eq!(field("Version"), env!("CARGO_PKG_VERSION"));
    assert!(
        field("Depends").contains("libc6 (>= "),
        "{}",
        field("Depends")
    );
    let tree = out.join("tree");
    run(Command::new("dpkg-deb").args(["-x", &package]).arg(&tree));
    let text = |path: &str| {
        fs::read_to_string(tree.join(path)).unwrap_or_else(|it| panic!("{path}: {it}"))
    };
    let program = tree.join("usr/bin/plimsoll");
    let version = run(Command::new(&program).arg("--version"));
    assert!(version.ends_with(env!("CARGO_PKG_VERSION")), "{version}");
    // The unit starts the program with a file that is there, and right.
    let unit = text("usr/lib/systemd/system/plimsoll.service");
    let start = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart=/"));
    let mut words = start.expect("what it starts").split(' ');
    assert_eq!(words.next(), Some("usr/bin/plimsoll"));
    let file = words
        .find_map(|word| word.strip_prefix('/'))
        .expect("its file");
    run(Command::new(&program).arg("check").arg(tree.join(file)));
    for path in [
        "usr/share/bash-completion/completions/plimsoll",
        "usr/share/zsh/vendor-completions/_plimsoll",
        "usr/share/fish/vendor_completions.d/plimsoll.fish",
        "usr/share/doc/plimsoll/copyright",
    ] {
        assert!(text(path).contains("plimsoll"), "{path}");
    }
    let pages = |directory: &Path| fs::read_dir(directory).expect("manual pages").count();
    let installed = pages(&tree.join("usr/share/man/man1"));
    assert_eq!(installed, pages(&root.join("packaging/man")));
    fs::remove_dir_all(&out).expect("removed");
}
