//! Measures the speed and the memory of a replay.
//!
//! ```console
//! cargo run --release -p plimsoll-replay --example replay_speed -- [LINES] [KEYS] [combined|json] [RATE]
//! ```
//!
//! Writes a log with this number of lines into the directory of temporary files, replays it, and prints the processor time and
//! the largest
//! resident size. The same numbers give the same log. The rate of each client is 5/s by default; with one such as 10/d, clients
//! are not evicted.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use plimsoll_config::{Config, Format};
use plimsoll_replay::{Logs, Replay};

const LIMITS: &str = "
limits:
  per_client: { rate: RATE, burst: 10, key: client }
  slots: { concurrency: 200 }
routes:
  - { match: /login, methods: [POST], limits: [per_client] }
  - { match: /**, limits: [per_client, slots] }
";

/// Writes the log: a thousand requests a second, with some clients much more frequent than others.
fn write_log(path: &Path, lines: u64, keys: u64, json: bool) -> std::io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % below.max(1)
    };
    for line in 0..lines {
        let (second, milli) = (line / 1000, line % 1000);
        let client = random(keys).min(random(keys)).min(random(keys));
        let [_, a, b, c] = u32::try_from(client).unwrap_or(0).to_be_bytes();
        let (hour, minute, of) = (second / 3600 % 24, second / 60 % 60, second % 60);
        let (path, status, bytes) = (
            random(500),
            if random(50) == 0 { 404 } else { 200 },
            random(50_000),
        );
        let duration = 5 + random(40) + if random(20) == 0 { random(2000) } else { 0 };
        if json {
            let at = 1_794_700_800.0 + second as f64 + milli as f64 / 1000.0;
            writeln!(
                file,
                r#"{{"level":"info","ts":{at:.3},"logger":"http.log.access","msg":"handled request","request":{{"remote_ip":"10.{a}.{b}.{c}","remote_port":"41342","client_ip":"10.{a}.{b}.{c}","proto":"HTTP/2.0","method":"GET","host":"example.com","uri":"/items/{path}?page=2","headers":{{"User-Agent":["curl/7.82.0"],"Accept":["*/*"]}}}},"bytes_read":0,"duration":{},"size":{bytes},"status":{status}}}"#,
                duration as f64 / 1000.0
            )?;
        } else {
            writeln!(
                file,
                "10.{a}.{b}.{c} - - [15/Nov/2026:{hour:02}:{minute:02}:{of:02} +0000] \"GET /items/{path}?page=2 HTTP/1.1\" {status} {bytes} \"https://example.com/items\" \"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36\" {}.{:03}",
                duration / 1000,
                duration % 1000
            )?;
        }
    }
    file.flush()
}

/// The processor time of this process in hundredths of a second, and its largest resident size in MiB.
fn used() -> (u64, u64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let stat = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let field = |at: usize| {
        stat.split_whitespace()
            .nth(at)
            .and_then(|it| it.parse::<u64>().ok())
            .unwrap_or(0)
    };
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let most = most
        .and_then(|it| it.split_whitespace().next()?.parse::<u64>().ok())
        .unwrap_or(0);
    (field(11) + field(12), most / 1024)
}

#[expect(clippy::print_stdout, reason = "it prints what it measures")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| arguments.next().map_or(Ok(default), |it| it.parse());
    let (lines, keys) = (number(1_000_000)?, number(20_000)?);
    let json = std::env::args().nth(3).is_some_and(|it| it == "json");
    let path = std::env::temp_dir().join(format!("plimsoll-replay-{}.log", std::process::id()));
    write_log(&path, lines, keys, json)?;
    let rate = std::env::args().nth(4).unwrap_or_else(|| "5/s".to_owned());
    let config = Config::from_str("limits.yaml", &LIMITS.replace("RATE", &rate), Format::Yaml)?;
    let (before, _) = used();
    let report = Replay::new(config, Logs::of([&path])).run();
    let (after, most) = used();
    let size = std::fs::metadata(&path)?.len() >> 20;
    std::fs::remove_file(&path)?;
    print!("{}", report?.text());
    let seconds = (after - before) as f64 / 100.0;
    println!(
        "{lines} lines, {size} MiB: {seconds:.2} s of processor time, at most {most} MiB resident"
    );
    Ok(())
}
