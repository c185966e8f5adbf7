//! Drawn logs under limits of all kinds: the reports are those in `drawn/`, to the last figure.
//!
//! They were written before replays were made faster, and show that nothing but the time has changed. With `PLIMSOLL_REWRITE` they
//! are written anew.

use std::fmt::Write as _;
use std::path::Path;

use plimsoll_replay::{Logs, Replay};

use crate::support::{Dir, config};

/// Rates and slots, in the usual way.
const PLAIN: &str = "
limits:
  per_client: { rate: 2/s, burst: 6, key: client }
  slots: { concurrency: 12 }
routes:
  - { match: /login, methods: [POST], limits: [per_client] }
  - { match: /**, limits: [per_client, slots] }
";

/// Everything that a log can be asked about: queues, costs that are known later, shadows, tiers, keys of several parts.
const ALL: &str = "
limits:
  per_client: { rate: 3/s, burst: 5, key: client }
  per_user: { kind: sliding_log, limit: 9, window: 10s, key: header:x-user, without_key: skip }
  failed: { kind: fixed_window, limit: 8, window: 10s, key: [client, path], cost: { status: [401] } }
  bytes: { rate: 300000/s, cost: response_bytes }
  tiered: { rate: 4/s, key: client, tiers: { by: header:x-plan, pro: { rate: 40/s }, free: { rate: 1/s } } }
  watched: { rate: 1/s, burst: 3, key: client, mode: shadow }
  slots: { concurrency: 6, queue: { bound: 4, timeout: 80ms } }
  each: { concurrency: 2, key: client }
  learned: { kind: adaptive, algorithm: aimd, initial: 4, min: 2, max: 40 }
routes:
  - { match: /login, methods: [POST], limits: [per_client, failed] }
  - { match: '/items/**', hosts: [a.example.com], limits: [tiered, per_user, slots] }
  - { match: '/items/**', limits: [per_client, per_user, slots, watched] }
  - { match: '/files/**', limits: [bytes, each] }
  - { match: '/learn/**', limits: [learned, watched] }
  - { match: /alone, limits: [watched] }
";

/// The same with other numbers.
fn old() -> String {
    ALL.replace("rate: 3/s, burst: 5", "rate: 2/s, burst: 9")
        .replace("concurrency: 6", "concurrency: 9")
        .replace("match: /alone", "match: /other")
}

/// Numbers that are the same in every run.
struct Draw(u64);

impl Draw {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % most
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        let at = self.below(of.len() as u64);
        of[usize::try_from(at).expect("a small number")]
    }
}

/// One request of a drawn log.
struct Drawn {
    end_ms: u64,
    took_ms: u64,
    client: String,
    user: &'static str,
    plan: &'static str,
    host: &'static str,
    method: &'static str,
    target: String,
    status: &'static str,
    sent: u64,
}

fn requests(seed: u64, count: u64) -> Vec<Drawn> {
    let mut draw = Draw(seed);
    let mut at = 0;
    let mut all = Vec::new();
    for _ in 0..count {
        // Sometimes nobody comes for a while, and sometimes many at once.
        at += match draw.below(200) {
            0 => 2000 + draw.below(20_000),
            1..=60 => 0,
            _ => draw.below(60),
        };
        let took_ms = match draw.below(25) {
            0 => draw.below(9000),
            1 => 0,
            _ => 3 + draw.below(120),
        };
        let number = draw.below(90).min(draw.below(90));
        let client = match number % 9 {
            0 => format!("2001:db8::{number:x}"),
            _ => format!("192.0.2.{number}"),
        };
        let (method, target) = match draw.below(10) {
            0 => ("POST", "/login".to_owned()),
            1 => ("GET", format!("/files/{}", draw.below(30))),
            2 => ("GET", format!("/learn/{}", draw.below(9))),
            3 => ("HEAD", "/alone".to_owned()),
            4 => (
                "GET",
                format!("/odd/{{{}}}?q=a b|c", draw.below(9)).replace(' ', "%20"),
            ),
            _ => (
                "GET",
                format!("/items/{}?page={}", draw.below(50), draw.below(3)),
            ),
        };
        all.push(Drawn {
            end_ms: at + took_ms,
            took_ms,
            client,
            user: draw.one(&["anna", "bert", "carl", "dora", "", ""]),
            plan: draw.one(&["pro", "free", ""]),
            host: draw.one(&["a.example.com", "b.example.com"]),
            method,
            target,
            status: draw.one(&["200", "200", "200", "200", "401", "404", "429", "503"]),
            sent: draw.below(60_000),
        });
    }
    all.sort_by_key(|it| it.end_ms);
    all
}

/// What stands between requests: lines that are cut off, empty ones, other bytes.
fn garbage(draw: &mut Draw, text: &mut Vec<u8>) {
    if draw.below(150) == 0 {
        let odd: [&[u8]; 5] = [
            b"\n",
            b"# a comment\n",
            b"\xff\xfe\x00\n",
            b"{\"ts\":1",
            b"[15/Nov\n",
        ];
        text.extend(odd[usize::try_from(draw.below(5)).expect("a small number")]);
    }
}

fn combined(seed: u64, count: u64) -> Vec<u8> {
    let (mut text, mut draw) = (Vec::new(), Draw(seed | 1));
    for it in requests(seed, count) {
        let second = it.end_ms / 1000;
        let (hour, minute, second) = (12 + second / 3600, second / 60 % 60, second % 60);
        let mut line = format!(
            "{} - - [15/Nov/2026:{hour:02}:{minute:02}:{second:02} +0000] \"{} {} HTTP/1.1\" {} {}",
            it.client, it.method, it.target, it.status, it.sent
        );
        let took = it.took_ms;
        let _ = match draw.below(12) {
            0 => Ok(()),
            1 => write!(line, " \"-\" \"ua\" rt={}.{:03}", took / 1000, took % 1000),
            _ => write!(
                line,
                " \"https://{}/\" \"a \\\"b\\\" c\" {}.{:03}",
                it.host,
                took / 1000,
                took % 1000
            ),
        };
        text.extend(line.bytes());
        text.extend(if draw.below(9) == 0 {
            &b"\r\n"[..]
        } else {
            b"\n"
        });
        garbage(&mut draw, &mut text);
    }
    text
}

fn json(seed: u64, count: u64) -> Vec<u8> {
    let (mut text, mut draw) = (Vec::new(), Draw(seed | 1));
    for it in requests(seed, count) {
        let (end, took) = (1_794_744_000_000 + it.end_ms, it.took_ms);
        let agent = draw.one(&["curl/8", "a \\\"b\\\" \\u00e9", "Mozilla/5.0"]);
        let line = format!(
            r#"{{"level":"info","ts":{}.{:03},"logger":"http.log.access","request":{{"remote_ip":"10.0.0.1","client_ip":"{}","proto":"HTTP/2.0","method":"{}","host":"{}","uri":"{}","headers":{{"User-Agent":["{agent}"],"X-User":["{}"],"X-Plan":["{}","other"],"Accept":["*/*"]}},"tls":{{"resumed":false}}}},"bytes_read":{},"duration":{}.{:03},"size":{},"status":{},"resp_headers":{{"Server":["Caddy"]}}}}"#,
            end / 1000,
            end % 1000,
            it.client,
            it.method,
            it.host,
            it.target,
            it.user,
            it.plan,
            draw.below(100),
            took / 1000,
            took % 1000,
            it.sent,
            it.status,
        );
        text.extend(line.bytes());
        text.push(b'\n');
        garbage(&mut draw, &mut text);
    }
    text
}

/// Whether a report is the one that is kept.
fn is_kept(name: &str, replay: &Replay) {
    let report = replay.run().unwrap_or_else(|error| panic!("{error}"));
    assert!(
        report.refused > 100 && report.admitted > 1000,
        "{}",
        report.text()
    );
    let text = serde_json::to_string(&report).expect("JSON") + "\n";
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/replay/drawn/{name}.json"));
    if std::env::var_os("PLIMSOLL_REWRITE").is_some() {
        std::fs::write(&path, &text).expect("a file that can be written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let [kept, text]: [serde_json::Value; 2] =
        [&kept, &text].map(|it| serde_json::from_str(it).unwrap_or_default());
    // The notes are words.
    for field in text.as_object().expect("an object").keys() {
        if field != "notes" {
            assert_eq!(text[field], kept[field], "{name}: {field}");
        }
    }
}

#[test]
fn a_combined_log_under_rates_and_slots() {
    let dir = Dir::new("drawn-plain");
    let logs = dir.log(combined(0x9E37_79B9, 8000));
    is_kept("plain", &Replay::new(config(PLAIN), logs.clone()));
    is_kept(
        "plain-suggest",
        &Replay::new(config(PLAIN), logs).suggest(0.01),
    );
}

#[test]
fn lines_of_json_under_limits_of_all_kinds_against_others() {
    let dir = Dir::new("drawn-all");
    let logs = dir.log(json(0x7F4A_7C15, 8000));
    is_kept(
        "all",
        &Replay::new(config(ALL), logs)
            .against(config(&old()))
            .top(9),
    );
}

#[test]
fn two_logs_of_different_formats_merged() {
    let dir = Dir::new("drawn-merged");
    let one = dir.file("one.log", combined(0x51ED_270B, 4000));
    let two = dir.file("two.log", json(0x2545_F491, 4000));
    is_kept(
        "merged",
        &Replay::new(config(ALL), Logs::of([one, two])).reveal_keys(true),
    );
}
