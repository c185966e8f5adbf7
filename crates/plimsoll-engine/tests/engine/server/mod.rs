//! The example server over sockets: every line of `examples/config/server.yaml` is shown by requests.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plimsoll::ManualClock;
use plimsoll_ambient::{MemoryReading, Sampler};
use plimsoll_config::{Config, Format};
use plimsoll_engine::Limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use self::table::TABLE;

#[path = "../../../examples/server/app.rs"]
mod app;
mod table;

const FILE: &str = include_str!("../../../../../examples/config/server.yaml");

#[test]
fn every_line_of_the_file_has_a_row() {
    let named: Vec<&str> = TABLE
        .iter()
        .flat_map(|(lines, _)| *lines)
        .copied()
        .collect();
    let sections = ["limits:", "providers:", "middleware:", "routes:"];
    let says = |line: &&str| !line.is_empty() && !line.starts_with('#') && !sections.contains(line);
    let lines: Vec<&str> = FILE.lines().map(str::trim).filter(says).collect();
    for line in &lines {
        assert!(
            named.iter().any(|name| line.starts_with(name)),
            "no request shows: {line}"
        );
    }
    for name in named {
        assert!(
            lines.iter().any(|line| line.starts_with(name)),
            "no line begins with: {name}"
        );
    }
}

#[tokio::test]
async fn every_line_of_the_file_is_shown_by_requests() {
    for (lines, steps) in TABLE {
        let mut server = Server::start().await;
        for step in *steps {
            println!("{step}");
            server
                .step(step)
                .await
                .unwrap_or_else(|said| panic!("{lines:?}: {step}\nsaid: {said}"));
        }
    }
}

struct Server {
    address: SocketAddr,
    limits: Limits,
    time: ManualClock,
    sampler: Sampler,
    /// How many percent of the memory are used.
    memory: Arc<AtomicU64>,
    held: std::collections::VecDeque<TcpStream>,
    waiting: Vec<TcpStream>,
}

/// A request of the table.
struct Asked {
    text: String,
    body: String,
    times: usize,
    expected: Vec<String>,
}

impl Asked {
    /// The request of this number: a `*` in the address of its client is that number.
    fn head(&self, number: usize) -> String {
        let numbers = format!("{}.{}", number / 250, number % 250);
        let text = self
            .text
            .replace("*.7", &numbers)
            .replace('*', &(number + 10).to_string());
        format!("{text}content-length: {}\r\n\r\n", self.body.len())
    }
}

fn read(step: &str) -> Asked {
    let (asked, expected) = step.split_once(" = ").unwrap_or((step, ""));
    let mut words = asked.split(' ').peekable();
    let (method, path) = (
        words.next().expect("a method"),
        words.next().expect("a path"),
    );
    let (mut head, mut body, mut times, mut host) = (String::new(), String::new(), 1, "localhost");
    while let Some(word) = words.next() {
        let kind = |kind: &str| format!("content-type: {kind}\r\n");
        if word == "from" {
            let mut from = words.next().expect("an address").to_owned();
            while from.ends_with(',') {
                from += words.next().expect("an address");
            }
            head += &format!("x-forwarded-for: {from}\r\n");
        } else if let Some(form) = word.strip_prefix("form=") {
            head += &kind("application/x-www-form-urlencoded");
            body = form.to_owned();
        } else if let Some(json) = word.strip_prefix("json=") {
            head += &kind("application/json");
            body = match json.parse::<usize>() {
                Ok(length) => format!("\"{}\"", "x".repeat(length)),
                Err(_) => json.to_owned(),
            };
        } else if let Some(bytes) = word.strip_prefix("bytes=") {
            body = "x".repeat(bytes.parse().expect("a number"));
        } else if let Some((name, value)) = word.split_once(':') {
            match name {
                "host" => host = value,
                _ => head += &format!("{name}: {}\r\n", value.replace('_', " ")),
            }
        } else {
            times = word
                .strip_prefix('x')
                .expect("how often")
                .parse()
                .expect("a number");
        }
    }
    let mut expected = expected.splitn(2, ' ').map(ToOwned::to_owned);
    Asked {
        text: format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\n{head}"),
        body,
        times,
        expected: expected.by_ref().collect(),
    }
}

impl Server {
    async fn start() -> Self {
        let time = ManualClock::new();
        let config = Config::from_str("server.yaml", FILE, Format::Yaml).expect("the file is fine");
        let (sampler, memory) = (Sampler::new(time.clock()), Arc::new(AtomicU64::new(20)));
        let used = Arc::clone(&memory);
        sampler.memory_source(move || {
            Ok(MemoryReading {
                used: used.load(Ordering::Relaxed),
                total: Some(100),
            })
        });
        let limits = Limits::of(config.build_sampled(&sampler).expect("it can be built"));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let served = limits.clone();
        tokio::spawn(async move { app::serve(listener, &served).await });
        Self {
            address,
            limits,
            time,
            sampler,
            memory,
            held: std::collections::VecDeque::new(),
            waiting: Vec::new(),
        }
    }

    /// A connection from this address of this machine.
    async fn connect(&self, from: [u8; 4]) -> TcpStream {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket
            .bind((IpAddr::from(from), 0).into())
            .expect("an address of this machine");
        socket.connect(self.address).await.expect("a connection")
    }

    /// Does what a row says. What was answered otherwise is the error.
    async fn step(&mut self, step: &str) -> Result<(), String> {
        const PROXY: [u8; 4] = [127, 0, 0, 1];
        let (word, rest) = step.split_once(' ').expect("several words");
        match word {
            "advance" => self
                .time
                .advance(Duration::from_millis(rest.parse().expect("a number"))),
            "hold" => self.hold(&read(rest), read(rest).times).await,
            "fill" => {
                let (name, request) = rest.split_once(' ').expect("a limit and a request");
                let all = self.limits.snapshot();
                let of = all.iter().find(|it| it.name == name).expect("the limit");
                let room = usize::try_from(of.snapshot.available()).expect("not many");
                self.hold(&read(request), room).await;
            }
            "wait" => {
                let asked = read(rest);
                let mut stream = self.connect(PROXY).await;
                let waiting = self.in_queues();
                let text = asked.head(0) + &asked.body;
                stream.write_all(text.as_bytes()).await.expect("sent");
                self.until("it waits", |server| server.in_queues() > waiting)
                    .await;
                self.waiting.push(stream);
            }
            "release" => {
                let mut stream = self.held.pop_front().expect("one is held");
                stream.write_all(b"body").await.expect("sent");
                return is(&answer(&mut stream).await, &[rest.to_owned()]);
            }
            "answered" => {
                let mut stream = self.waiting.pop().expect("one waits");
                let expected: Vec<String> = rest.splitn(2, ' ').map(ToOwned::to_owned).collect();
                return is(&answer(&mut stream).await, &expected);
            }
            "shadow" => {
                let (name, count) = rest.split_once(' ').expect("a limit and a number");
                let all = self.limits.snapshot();
                let would = all
                    .iter()
                    .find(|it| it.name == name)
                    .map(|it| it.would_refuse);
                assert_eq!(would, count.parse().ok());
            }
            "memory" => {
                let used = rest.parse().expect("a number");
                self.memory.store(used, Ordering::Relaxed);
                self.sampler.sample().expect("measured");
            }
            "paced" => return self.ask(rest, PROXY, 100).await,
            "direct" => return self.ask(rest, [127, 0, 0, 2], 0).await,
            _ => return self.ask(step, PROXY, 0).await,
        }
        Ok(())
    }

    /// Sends requests one after the other over one connection, and compares what is answered.
    async fn ask(&self, step: &str, from: [u8; 4], pace: u64) -> Result<(), String> {
        let asked = read(step);
        let mut stream = self.connect(from).await;
        for number in 0..asked.times {
            let text = asked.head(number) + &asked.body;
            stream.write_all(text.as_bytes()).await.expect("sent");
            let said = answer(&mut stream).await;
            is(&said, &asked.expected).map_err(|said| format!("{number}: {said}"))?;
            self.time.advance(Duration::from_millis(pace));
        }
        Ok(())
    }

    /// Sends heads without their bodies, until all of them are served.
    async fn hold(&mut self, asked: &Asked, times: usize) {
        for number in 0..times {
            let in_use = self.in_use();
            let mut stream = self.connect([127, 0, 0, 1]).await;
            let head = asked
                .head(number)
                .replace("content-length: 0", "content-length: 4");
            stream.write_all(head.as_bytes()).await.expect("sent");
            self.until("it is served", |server| server.in_use() > in_use)
                .await;
            self.held.push_back(stream);
        }
    }

    fn in_use(&self) -> u64 {
        self.limits
            .snapshot()
            .iter()
            .map(|it| it.snapshot.in_use())
            .sum()
    }

    fn in_queues(&self) -> u64 {
        self.limits
            .snapshot()
            .iter()
            .map(|it| it.snapshot.waiters())
            .sum()
    }

    async fn until(&self, what: &str, is: impl Fn(&Self) -> bool) {
        for _ in 0..1_000_000 {
            if is(self) {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("{what}: not yet");
    }
}

/// Whether an answer has this status, and contains this text.
fn is(said: &str, expected: &[String]) -> Result<(), String> {
    let status = said.split(' ').nth(1).unwrap_or_default();
    let text = expected.get(1).map_or("", String::as_str);
    let short: String = said.chars().take(600).collect();
    match status == expected[0] && said.contains(text) {
        true => Ok(()),
        false => Err(short),
    }
}

/// One answer: its head, and as much of a body as it says.
async fn answer(stream: &mut TcpStream) -> String {
    let mut said = Vec::new();
    let mut part = vec![0; 64 * 1024];
    loop {
        let text = String::from_utf8_lossy(&said);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.and_then(|it| it.parse().ok()).unwrap_or(0);
            if body.len() >= length {
                return text.into_owned();
            }
        }
        match stream.read(&mut part).await.expect("an answer") {
            0 => return String::from_utf8_lossy(&said).into_owned(),
            read => said.extend_from_slice(&part[..read]),
        }
    }
}
