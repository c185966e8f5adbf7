//! `plimsoll serve`: what it forgets, and what it cannot do, is said.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::dir::Dir;
use crate::serve_command::{Served, fails, verdicts};

#[test]
fn traces_that_cannot_be_sent_are_a_mistake() {
    let (status, err) = fails(&["--otlp=https://collector.example"]);
    assert_eq!(status, Some(2), "{err}");
    assert!(err.contains("cannot send traces: "), "{err}");
}

/// The directory is set in the file. Permits that were held, and states that cannot be restored, are logged.
#[test]
fn what_a_restart_forgets_is_said() {
    let dir = Dir::with(&[]);
    let (file, state) = (dir.path("limits.yaml"), dir.path("state"));
    let write = |limits: &str| {
        let text = format!("serve: {{ state_dir: {state} }}\nlimits: {{ {limits} }}\n");
        std::fs::write(&file, text).expect("a file");
    };
    write("slots: { concurrency: 3, key: client }, mail: { rate: 2/day, key: client }");
    let server = Served::serve(&[&file]);
    let body = r#"{"hold":{"limit":"slots","key":"a","cost":2}}"#;
    let mut stream = TcpStream::connect(server.address("HTTP  http://")).expect("it listens");
    let asked = write!(
        stream,
        "POST /v1/leases HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    asked.expect("it reads");
    let mut said = String::new();
    stream.read_to_string(&mut said).expect("it answers");
    assert!(said.starts_with("HTTP/1.1 201"), "{said}");
    let said = server.say("PLIMSOLL.TAKE mail anna");
    assert_eq!(verdicts(&said), [":0"], "{said}");
    server.end();
    write("slots: { concurrency: 3, key: client }");
    let output = Served::serve(&[&file]).end();
    let err = String::from_utf8(output.stderr).expect("text");
    let line = |words: &str| {
        err.lines()
            .find(|line| line.contains(words))
            .unwrap_or_default()
    };
    let permits = line("permits were held");
    assert!(
        permits.contains("slots") && permits.contains("permits=2"),
        "{err}"
    );
    let states = line("cannot be restored");
    assert!(
        states.contains("mail") && states.contains("states=2"),
        "{err}"
    );
}
