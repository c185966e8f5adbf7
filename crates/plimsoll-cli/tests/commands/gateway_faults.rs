//! Whatever clients and servers of a gateway do wrong is answered, counted once and logged once.

#[path = "../../../plimsoll-gateway/tests/gateway/shapes.rs"]
mod shapes;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};

use shapes::{BROKEN_ANSWERS, REQUESTS, SHORT_ANSWERS};

/// Sends text as it is, and returns what comes until the connection ends.
fn send(to: &str, text: &str) -> String {
    let mut stream = TcpStream::connect(to).expect("a connection");
    // It may be refused before all of it was sent.
    let _ = stream.write_all(text.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn get(to: &str, path: &str) -> String {
    send(
        to,
        &format!("GET {path} HTTP/1.1\r\nhost: {to}\r\nconnection: close\r\n\r\n"),
    )
}

/// A server that answers `/broken/N` and `/short/N` as the tables say, and hangs at `/hang`.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

fn serve(stream: TcpStream) {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).unwrap_or(0) == 0 {
            return;
        }
    }
    let path = head.split(' ').nth(1).unwrap_or_default();
    let number = |path: &str| path.parse::<usize>().expect("a number");
    let answer = if let Some(at) = path.strip_prefix("/broken/") {
        BROKEN_ANSWERS[number(at)].1
    } else if let Some(at) = path.strip_prefix("/short/") {
        SHORT_ANSWERS[number(at)].1
    } else if path == "/hang" {
        // Until the gateway has had enough.
        let _ = stream.read_to_end(&mut Vec::new());
        return;
    } else {
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok"
    };
    let _ = stream.get_mut().write_all(answer.as_bytes());
    let _ = stream.get_mut().shutdown(std::net::Shutdown::Write);
    // Not before the other end has read it: a reset would take it away.
    let _ = stream.read_to_end(&mut Vec::new());
}

#[cfg(unix)]
#[test]
fn each_is_counted_once_and_logged_once() {
    let name = format!("plimsoll-faults-{}.yaml", std::process::id());
    let file = std::env::temp_dir().join(name);
    let server = server();
    let text = format!(
        "gateway:\n  listen: 127.0.0.1:0\n  max_body: 64KiB\n  upstreams:\n    app: {{ to: \"http://{server}\", retries: {{ most: 0 }}, \
         health: {{ failures: 1000 }} }}\n    \
         slow: {{ to: \"http://{server}\", retries: {{ most: 0 }}, timeouts: {{ response: 200ms, idle: 200ms }} }}\n    \
         gone: {{ to: \"http://127.0.0.1:1\", retries: {{ most: 0 }}, health: {{ failures: 1000 }} }}\n\
         routes: [{{ match: /gone, limits: [], to: gone }}, {{ match: /hang, limits: [], to: slow }}, {{ match: /**, limits: [], to: app }}]\n",
    );
    std::fs::write(&file, text).expect("written");
    let mut child = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .arg("gateway")
        .arg(&file)
        .args(["--admin", "127.0.0.1:0", "--log", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let mut out = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut at = |word: &str| {
        let line = out.next().expect("a line").expect("text");
        let address = line.strip_prefix(word).map(|it| it.trim_end_matches('/'));
        address.expect("where it listens").to_owned()
    };
    let (gateway, admin) = (at("gateway http://"), at("admin   http://"));

    let mut expected: BTreeMap<&str, usize> = BTreeMap::new();
    let mut expect = |fault: &'static str, what: &str, answer: &str, status: u16| {
        *expected.entry(fault).or_default() += 1;
        let start = format!("HTTP/1.1 {status} ");
        assert!(answer.starts_with(&start), "{what}: {answer}");
        let word = format!("\"fault\":\"{fault}\"");
        assert!(answer.contains(&word), "{what}: {answer}");
    };
    for (what, request, status, fault) in REQUESTS {
        expect(fault, what, &send(&gateway, request), *status);
    }
    let long = "x".repeat(100_000);
    let large = format!("GET / HTTP/1.1\r\nhost: a\r\nx: {long}\r\n\r\n");
    expect(
        "head_too_large",
        "a large field",
        &send(&gateway, &large),
        431,
    );
    for (number, (what, _)) in BROKEN_ANSWERS.iter().enumerate() {
        let answer = get(&gateway, &format!("/broken/{number}"));
        expect("broken_answer", what, &answer, 502);
    }
    expect("slow_answer", "hangs", &get(&gateway, "/hang"), 504);
    expect("no_connection", "is gone", &get(&gateway, "/gone"), 502);
    let half = "POST /hang HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nhalf";
    expect("slow_body", "half a body", &send(&gateway, half), 408);
    for number in 0..SHORT_ANSWERS.len() {
        let answer = get(&gateway, &format!("/short/{number}"));
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    assert!(get(&gateway, "/").ends_with("ok"));

    let metrics = get(&admin, "/metrics");
    let pid = child.id().to_string();
    let sent = Command::new("kill").args(["-TERM", &pid]).status();
    assert!(sent.expect("sent").success());
    let ended = child.wait_with_output().expect("ended");
    std::fs::remove_file(&file).expect("removed");
    let log = String::from_utf8_lossy(&ended.stderr).into_owned();
    for (fault, count) in &expected {
        let line = format!("plimsoll_gateway_faults_total{{fault=\"{fault}\"}} {count}\n");
        assert!(metrics.contains(&line), "{line}{metrics}");
        let word = format!("\"fault\":\"{fault}\"");
        assert_eq!(log.matches(&word).count(), *count, "{fault}: {log}");
    }
    let short = SHORT_ANSWERS.len();
    let line = format!("plimsoll_gateway_aborted_total {short}\n");
    assert!(metrics.contains(&line), "{line}{metrics}");
    assert_eq!(log.matches("an answer broke off").count(), short, "{log}");
    let warned = log
        .lines()
        .filter(|line| line.contains("\"WARN\"") || line.contains("\"ERROR\""));
    let all = expected.values().sum::<usize>() + short;
    assert_eq!(warned.count(), all, "nothing is logged twice: {log}");
}
