//! `plimsoll gateway`, as it is started and stopped.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

fn plimsoll(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.arg("gateway").args(args);
    command
}

/// The answer to a GET.
fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("a connection");
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[cfg(unix)]
#[test]
fn without_a_file_it_says_what_it_does_and_does_it() {
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = format!("http://{}", server.local_addr().expect("an address"));
    let answers = std::thread::spawn(move || {
        let (stream, _) = server.accept().expect("a connection");
        let mut stream = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            stream.read_line(&mut head).expect("a line");
        }
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello";
        stream.get_mut().write_all(answer).expect("written");
        head
    });
    let args = [
        "--to",
        &to,
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
    ];
    let mut child = plimsoll(&args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let mut out = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut said = || out.next().expect("a line").expect("text");
    let gateway = said();
    let gateway = gateway
        .strip_prefix("gateway http://")
        .expect("where it listens");
    let admin = said();
    let admin = admin
        .strip_prefix("admin   http://")
        .and_then(|it| it.strip_suffix("/"));
    let admin = admin.expect("where it listens for operators").to_owned();
    let mut limits = Vec::new();
    while !limits.iter().any(|line: &String| line.contains("match:")) {
        limits.push(said());
    }
    for limit in ["per_client:", "in_flight:"] {
        assert!(limits.iter().any(|line| line.contains(limit)), "{limits:?}");
    }
    assert!(get(gateway, "/hello").ends_with("hello"));
    assert!(
        answers
            .join()
            .expect("a request")
            .starts_with("GET /hello HTTP/1.1\r\n")
    );
    assert!(get(&admin, "/readyz").ends_with("ready\n"));
    let metrics = get(&admin, "/metrics");
    assert!(
        metrics.contains("plimsoll_gateway_requests_total 1\n"),
        "{metrics}"
    );
    assert!(
        metrics.contains("plimsoll_granted_total{limit=\"per_client\"} 1\n"),
        "{metrics}"
    );
    let mut stream = TcpStream::connect(gateway).expect("a connection");
    stream
        .write_all(b"GET / HTTP/1.1\nhost: a\n\n")
        .expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.contains("\"fault\":\"bare_line_feed\""), "{answer}");
    // The server is gone by now.
    assert!(get(gateway, "/").starts_with("HTTP/1.1 502"));
    let pid = child.id().to_string();
    let sent = Command::new("kill").args(["-TERM", &pid]).status();
    assert!(sent.expect("sent").success());
    let ended = child.wait_with_output().expect("ended");
    assert!(ended.status.success());
    // What was malformed is told once.
    let log = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(log.matches("bare_line_feed").count(), 1, "{log}");
    assert_eq!(log.matches("a request failed").count(), 1, "{log}");
}

#[test]
fn what_it_cannot_do_it_says_with_a_remedy() {
    let run = |args: &[&str]| {
        let output = plimsoll(args).output().expect("run");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    let (status, said) = run(&[]);
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("--to http://127.0.0.1:9000"), "{said}");
    let (status, said) = run(&["--to", "127.0.0.1:9000"]);
    assert_eq!(status, Some(2), "{said}");
    assert!(
        said.contains("did you mean `http://127.0.0.1:9000`?"),
        "{said}"
    );
    let (status, said) = run(&[
        "--to",
        "http://127.0.0.1:1",
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "0.0.0.0:0",
    ]);
    assert_eq!(status, Some(2), "{said}");
    assert!(
        said.contains("expected a token for it, or a loopback address"),
        "{said}"
    );
    let (status, said) = run(&["/none.yaml"]);
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("/none.yaml"), "{said}");
    // The arguments are right, and somebody else listens there: as with `serve`, that is another status.
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("its number").to_string();
    let (status, said) = run(&[
        "--to",
        "http://127.0.0.1:1",
        "--listen",
        &taken,
        "--admin",
        "off",
    ]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains(&taken) && said.contains("--listen"), "{said}");
    let any = "127.0.0.1:0";
    let (status, said) = run(&[
        "--to",
        "http://127.0.0.1:1",
        "--listen",
        any,
        "--admin",
        &taken,
    ]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains(&taken) && said.contains("--admin"), "{said}");
    let (status, said) = run(&["--to", "http://anna:sesame@127.0.0.1:1"]);
    assert_eq!(status, Some(2), "{said}");
    assert!(
        said.contains("a server has no user") && !said.contains("sesame"),
        "{said}"
    );
}

/// A file of its own for one test, removed with it.
struct Written(std::path::PathBuf);

impl Written {
    fn new(name: &str, text: &str) -> Self {
        let name = format!("plimsoll-{name}-{}.yaml", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).expect("written");
        Self(path)
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

const FILE: &str = "gateway:
  listen: 127.0.0.1:0
  upstreams: { app: { to: http://127.0.0.1:1 } }
limits: { all: { rate: 100/s } }
routes: [{ match: /**, limits: [all] }]
";

#[cfg(unix)]
#[test]
fn a_signal_has_it_read_its_file_again() {
    let file = Written::new("gateway-hup", FILE);
    let mut child = plimsoll(&[&file.0.display().to_string(), "--admin", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut lines = lines.map(|line| line.expect("text"));
    let admin = lines.find_map(|line| Some(line.strip_prefix("admin   http://")?.to_owned()));
    let admin = admin.expect("where it listens for operators");
    let admin = admin.trim_end_matches('/');
    let send = |signal: &str| {
        let pid = child.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status();
        assert!(sent.expect("sent").success());
    };
    // Nothing has changed, so only the signal can have it read.
    assert!(get(admin, "/reload").contains("\"done\":0"));
    send("-HUP");
    while !get(admin, "/reload").contains("\"done\":1") {}
    std::fs::write(&file.0, FILE.replace("rate: 100/s", "rate: 7/s")).expect("written");
    send("-HUP");
    while !get(admin, "/reload").contains("100/s → 7/s") {}
    std::fs::write(&file.0, "gateway: {").expect("written");
    send("-HUP");
    while !get(admin, "/reload").contains("\"errors\"") {}
    assert!(get(admin, "/limits").contains("\"limit\":7"));
    send("-TERM");
    assert!(child.wait().expect("ended").success());
}

/// One process for each: a server says what the gateway of its file needs.
#[test]
fn serve_says_what_a_gateway_of_its_file_needs() {
    let file = Written::new("gateway-serve", FILE);
    let path = file.0.display().to_string();
    let ports = ["--http", "--resp", "--grpc", "--admin"].map(|it| [it, "off"]);
    let mut child = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args(["serve", &path])
        .args(ports.as_flattened())
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let wanted = format!("plimsoll gateway {path}");
    assert!(lines.any(|line| line.expect("text").ends_with(&wanted)));
    child.kill().expect("killed");
    let _ = child.wait();
}
