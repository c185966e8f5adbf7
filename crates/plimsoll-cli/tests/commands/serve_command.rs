//! `plimsoll serve`, through the program itself.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use crate::dir::Dir;

pub(crate) const PLIMSOLL: &str = env!("CARGO_BIN_EXE_plimsoll");
/// Any port that is free.
pub(crate) const ANY: [&str; 8] = [
    "--http",
    "127.0.0.1:0",
    "--resp",
    "127.0.0.1:0",
    "--grpc",
    "127.0.0.1:0",
    "--admin",
    "127.0.0.1:0",
];

/// A server that runs.
pub(crate) struct Served {
    child: Child,
    out: BufReader<ChildStdout>,
    greeting: String,
}

impl Served {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut greeting = String::new();
        // The last line is what to try with the admin port.
        while !greeting.contains("/metrics") {
            let read = out.read_line(&mut greeting).expect("it can be read");
            assert!(
                read > 0,
                "it ended: {greeting} {:?}",
                child.wait_with_output()
            );
        }
        Self {
            child,
            out,
            greeting,
        }
    }

    pub(crate) fn serve(args: &[&str]) -> Self {
        Self::start(Command::new(PLIMSOLL).arg("serve").args(ANY).args(args))
    }

    pub(crate) fn address(&self, port: &str) -> &str {
        let mut lines = self.greeting.lines();
        let address = lines.find_map(|line| line.strip_prefix(port));
        address.unwrap_or_else(|| panic!("{port} in {}", self.greeting))
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status();
        assert!(sent.expect("kill runs").success());
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn end(mut self) -> Output {
        self.signal("TERM");
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).expect("it can be read");
        self.child.wait_with_output().expect("it ends")
    }

    /// Ends it at once.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// What is answered to typed commands.
    pub(crate) fn say(&self, commands: &str) -> String {
        let mut stream = TcpStream::connect(self.address("RESP  redis://")).expect("it listens");
        stream
            .write_all(format!("{commands}\r\nQUIT\r\n").as_bytes())
            .expect("it reads");
        let mut said = String::new();
        stream.read_to_string(&mut said).expect("it answers");
        said
    }
}

pub(crate) fn fails(args: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(PLIMSOLL)
        .arg("serve")
        .args(args)
        .output()
        .expect("it runs");
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), err)
}

#[test]
fn it_says_what_it_serves_where_and_what_to_try() {
    let server = Served::serve(&[]);
    let first = server.greeting.lines().next().expect("a line");
    assert_eq!(
        first,
        "limits: default (10 a second, at most 20 at once), logins (5 in 10m), slots (at most 10 at once), the default ones in memory, since no file was given"
    );
    for port in [
        "HTTP  http://",
        "RESP  redis://",
        "gRPC  grpc://",
        "admin http://",
    ] {
        assert!(server.address(port).starts_with("127.0.0.1:"), "{port}");
    }
    let tries: Vec<&str> = server
        .greeting
        .lines()
        .filter_map(|it| it.strip_prefix("  "))
        .collect();
    assert_eq!(tries.len(), 3, "{}", server.greeting);
    for (command, said) in tries.iter().zip([
        "ratelimit-policy: \"default\"",
        "0\n5\n4\n-1\n",
        "plimsoll_limit{",
    ]) {
        let program = command.split(' ').next().expect("a program");
        let found = Command::new("sh")
            .args(["-c", &format!("command -v {program}")])
            .output();
        if !found.expect("a shell").status.success() {
            println!("skipped: {program} is not here");
            continue;
        }
        let output = Command::new("sh")
            .args(["-c", command])
            .output()
            .expect("it runs");
        let out = String::from_utf8_lossy(&output.stdout);
        assert!(out.contains(said), "{command}: {out}");
    }
    let output = server.end();
    assert_eq!(output.status.code(), Some(0));
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(err.contains("stopping"), "{err}");
}

#[test]
fn the_status_says_why_it_does_not_serve() {
    let dir = Dir::with(&[]);
    let bad = dir.path("bad.yaml");
    std::fs::write(&bad, "limits: { a: { kind: concurrency, limt: 4 } }\n").expect("a file");
    let (status, err) = fails(&[&bad]);
    assert_eq!(status, Some(2), "{err}");
    assert!(
        err.contains("bad.yaml:1:35: limits.a.limt: unknown field"),
        "{err}"
    );

    let (status, err) = fails(&[&dir.path("none.yaml")]);
    assert_eq!(status, Some(2), "{err}");

    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address").to_string();
    let (status, err) = fails(&[
        "--admin", "off", "--resp", "off", "--grpc", "off", "--http", &address,
    ]);
    assert_eq!(status, Some(1), "{err}");
    assert!(
        err.contains(&format!("cannot listen on {address} for http")),
        "{err}"
    );

    let (status, err) = fails(&["--admin", "0.0.0.0:0"]);
    assert_eq!(status, Some(2), "{err}");
    assert!(
        err.contains("expected a token for it, or a loopback address"),
        "{err}"
    );

    for (option, value, expected) in [
        ("--http", "8420", "an address and a port"),
        ("--drain", "10", "with its unit"),
        ("--log", "xml", "json"),
        ("--grpc-age", "1", "with its unit"),
    ] {
        let (status, err) = fails(&[option, value]);
        assert_eq!(status, Some(2), "{err}");
        assert!(err.contains(expected), "{err}");
    }
}

#[test]
fn help_teaches() {
    let output = Command::new(PLIMSOLL).args(["serve", "--help"]).output();
    let help = String::from_utf8(output.expect("it runs").stdout).expect("text");
    for word in [
        "SIGHUP",
        "SIGTERM",
        "Exit status:",
        "systemd:",
        "Examples:",
        "/openapi.json",
        "CL.THROTTLE",
        "--state <DIR>",
        "[env: PLIMSOLL_STATE=]",
        "--drain <TIME>",
        "--log <FORM>",
        "`off` closes one",
    ] {
        assert!(help.contains(word), "{word} is not in\n{help}");
    }
}

#[test]
fn log_lines_are_for_programs_where_they_ask_for_it() {
    let dir = Dir::with(&[]);
    let server = Served::serve(&["--log", "json", "--state", &dir.path("state")]);
    let output = server.end();
    let err = String::from_utf8(output.stderr).expect("text");
    assert!(err.lines().count() > 0);
    for line in err.lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect(line);
        assert!(
            line["timestamp"].is_string() && line["level"].is_string(),
            "{line}"
        );
    }
}

/// The verdicts of a few commands.
pub(crate) fn verdicts(said: &str) -> Vec<&str> {
    let answers = said.split("*5\r\n").skip(1);
    answers
        .map(|it| it.lines().next().expect("a line"))
        .collect()
}

#[test]
fn what_was_used_is_used_after_it_was_killed() {
    let dir = Dir::with(&[]);
    let state = dir.path("state");
    let args = ["--state", &state, "--state-every", "30ms"];
    let server = Served::serve(&args);
    let said = server.say("PLIMSOLL.TAKE logins anna 4\r\nCL.THROTTLE bert 9 1 600 7");
    assert_eq!(verdicts(&said), [":0", ":0"], "{said}");
    // One that was begun after that.
    let file = std::path::PathBuf::from(dir.path("state/limits.snapshot"));
    for _ in 0..2 {
        let _ = std::fs::remove_file(&file);
        while !file.exists() {
            std::thread::yield_now();
        }
    }
    server.kill();
    let server = Served::serve(&args);
    let said = server.say("PLIMSOLL.TAKE logins anna 2\r\nPLIMSOLL.TAKE logins anna\r\nCL.THROTTLE bert 9 1 600 4\r\nCL.THROTTLE bert 9 1 600 3");
    assert_eq!(verdicts(&said), [":1", ":0", ":1", ":0"], "{said}");
    server.end();
}

#[test]
fn a_signal_reads_the_file_again_and_what_was_used_stays_used() {
    let dir = Dir::with(&[]);
    let file = dir.path("limits.yaml");
    let write = |limit: u64| {
        let text = format!(
            "limits: {{ a: {{ kind: fixed_window, limit: {limit}, window: 1h, key: client }} }}\n"
        );
        std::fs::write(&file, text).expect("a file");
    };
    write(2);
    let server = Served::serve(&[&file]);
    assert_eq!(
        verdicts(&server.say("PLIMSOLL.TAKE a x 2\r\nPLIMSOLL.TAKE a x")),
        [":0", ":1"]
    );
    write(3);
    server.signal("HUP");
    while verdicts(&server.say("PLIMSOLL.PEEK a x")) != [":0"] {}
    assert_eq!(
        verdicts(&server.say("PLIMSOLL.TAKE a x\r\nPLIMSOLL.TAKE a x")),
        [":0", ":1"]
    );
    let output = server.end();
    assert!(String::from_utf8_lossy(&output.stderr).contains("the file was read again"));
    // Without a file it lives through the signal.
    let server = Served::serve(&[]);
    server.signal("HUP");
    assert_eq!(server.end().status.code(), Some(0));
}

/// What systemd does: a socket to be told on, and sockets to listen on.
#[cfg(unix)]
mod systemd {
    use std::net::TcpListener;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixDatagram;

    use super::*;

    fn told(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 1024];
        let length = socket.recv(&mut bytes).expect("it is told");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    /// What is told next, but for the watchdog.
    fn next(socket: &UnixDatagram) -> String {
        loop {
            let told = told(socket);
            if !told.starts_with("WATCHDOG=1") {
                return told;
            }
        }
    }

    #[test]
    fn it_is_told_of_everything() {
        let dir = Dir::with(&[]);
        let (path, file) = (dir.path("notify"), dir.path("limits.yaml"));
        std::fs::write(&file, "limits: { a: { kind: concurrency, limit: 4 } }\n").expect("a file");
        let socket = UnixDatagram::bind(&path).expect("a socket");
        let mut command = Command::new(PLIMSOLL);
        command.arg("serve").args(ANY).arg(&file);
        command
            .env("NOTIFY_SOCKET", &path)
            .env("WATCHDOG_USEC", "50000");
        let server = Served::start(&mut command);
        assert!(next(&socket).starts_with("READY=1\nSTATUS=serving 1 limits"));
        assert!(told(&socket).starts_with("WATCHDOG=1"));
        server.signal("HUP");
        let reloading = next(&socket);
        assert!(
            reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="),
            "{reloading}"
        );
        assert!(next(&socket).starts_with("READY=1"));
        server.signal("TERM");
        assert!(next(&socket).starts_with("STOPPING=1"));
        assert_eq!(server.end().status.code(), Some(0));
    }

    /// The sockets come as the standard input and output of a shell, which moves them to where systemd puts them.
    #[test]
    fn sockets_are_used_by_their_names() {
        let bound = || TcpListener::bind("127.0.0.1:0").expect("a port");
        let (admin, resp) = (bound(), bound());
        let places = [&admin, &resp].map(|it| it.local_addr().expect("an address"));
        let script = format!(
            "exec 3<&0 4>&1 0</dev/null 1>&2; LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=admin:resp exec {PLIMSOLL} serve --http off --grpc off --admin 192.0.2.1:1"
        );
        let mut child = Command::new("sh")
            .args(["-c", &script])
            .stdin(OwnedFd::from(admin))
            .stdout(OwnedFd::from(resp))
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        let [admin, resp] = places;
        let mut stream = TcpStream::connect(resp).expect("it listens");
        stream.write_all(b"PING\r\nQUIT\r\n").expect("it reads");
        let mut said = String::new();
        stream.read_to_string(&mut said).expect("it answers");
        assert_eq!(said, "+PONG\r\n+OK\r\n");
        let mut stream = TcpStream::connect(admin).expect("it listens");
        stream
            .write_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            .expect("it reads");
        let mut said = String::new();
        stream.read_to_string(&mut said).expect("it answers");
        assert!(said.starts_with("HTTP/1.1 200"), "{said}");
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        // A name that says nothing is a mistake.
        let script = format!(
            "exec 3<&0; LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=web exec {PLIMSOLL} serve --http off --resp off --grpc off --admin off"
        );
        let output = Command::new("sh")
            .args(["-c", &script])
            .stdin(OwnedFd::from(bound()))
            .output()
            .expect("it runs");
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(err.contains("is called \"web\": expected `http`"), "{err}");
        assert_eq!(output.status.code(), Some(1));
    }
}
