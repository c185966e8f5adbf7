//! `plimsoll demo`, as it is started and ended.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use super::dir::Dir;
use super::serve_command::PLIMSOLL;

#[cfg(unix)]
#[test]
fn an_interrupt_ends_it_with_the_report_so_far_and_nothing_is_left() {
    let dir = Dir::with(&[]);
    let report = dir.path("report.svg");
    let mut child = Command::new(PLIMSOLL)
        .args(["demo", "--seconds", "600", "--admin", "127.0.0.1:0"])
        .args(["--report", &report])
        .env("TMPDIR", dir.path(""))
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut said = String::new();
    while !said.contains("three priorities") {
        assert!(out.read_line(&mut said).expect("a line") > 0, "{said}");
    }
    assert!(said.contains("page    http://127.0.0.1:"), "{said}");
    let id = child.id().to_string();
    let sent = Command::new("kill").args(["-s", "INT", &id]).status();
    assert!(sent.expect("kill runs").success());
    out.read_to_string(&mut said).expect("the rest");
    assert!(child.wait().expect("it ends").success(), "{said}");
    assert!(
        said.contains("ended early") && said.contains("report  "),
        "{said}"
    );
    let drawn = std::fs::read_to_string(&report).expect("a picture");
    assert!(drawn.starts_with("<svg"), "{drawn}");
    let left = std::fs::read_dir(dir.path("")).expect("a directory");
    let left: Vec<_> = left.map(|it| it.expect("an entry").file_name()).collect();
    assert_eq!(left, ["report.svg"]);
}

#[test]
fn what_it_cannot_do_it_says_before_it_begins() {
    let demo = |arguments: &[&str]| {
        let output = Command::new(PLIMSOLL).arg("demo").args(arguments).output();
        let output = output.expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    let (status, said) = demo(&["--report", "/none/here.svg"]);
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("there is no directory /none"), "{said}");
    let (status, said) = demo(&["--seconds", "1"]);
    assert_eq!(status, Some(2), "{said}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("its number").to_string();
    let (status, said) = demo(&["--admin", &taken]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains(&taken), "{said}");
}
