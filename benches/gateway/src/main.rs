//! The gateway beside nginx and Envoy before the same server, under five times the load that it can take.
//!
//! The server has a pool of workers; what comes while all are busy waits in its queue. In the middle third of a run its work takes
//! five times as long. One request in ten is important (`x-priority: critical`), the others are not. Requests are sent at their times,
//! whatever became of those before them, and their latency counts from these times.
//!
//! ```text
//! GATEWAY=target/release/examples/gateway PLIMSOLL_ENVOY=… cargo run --release -p plimsoll-benches-gateway -- [ROUNDS] [SECONDS]
//! ```

mod contender;
mod report;
mod upstream;

use std::io::{self, Write};
use std::time::Duration;

use plimsoll_benches_sockets::open_loop;

use crate::contender::{CONTENDERS, Contender};
use crate::report::{Run, table};
use crate::upstream::Upstream;

/// How many requests the server works on at once.
const WORKERS: usize = 10;
/// How long it works on one.
const WORK: Duration = Duration::from_millis(50);
/// It can take so many requests in a second.
const CAPACITY: u64 = 200;
/// So many come.
const OFFERED: u64 = 5 * CAPACITY;

/// One request in ten: spread over each ten, and not in step with anything.
const fn is_important(number: u64) -> bool {
    (number * 7 + number / 10) % 10 == 0
}

fn priority(number: u64) -> &'static str {
    if is_important(number) {
        "x-priority: critical\r\n"
    } else {
        "x-priority: non-critical\r\n"
    }
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1).map(|it| it.parse::<u64>());
    let mut next = |usual| match arguments.next() {
        None => Ok(usual),
        Some(number) => number.map_err(|_| io::Error::other("expected [ROUNDS] [SECONDS]")),
    };
    let (rounds, seconds) = (next(3)?, next(60)?);
    let mut out = io::stdout();
    writeln!(
        out,
        "{WORKERS} workers of {WORK:?} ({CAPACITY}/s, a fifth of it from {} s to {} s), {OFFERED}/s offered, {rounds} rounds of {seconds} s",
        seconds / 3,
        seconds * 2 / 3
    )?;
    let mut runs: Vec<Run> = Vec::new();
    for round in 0..rounds {
        for contender in &CONTENDERS {
            let upstream = Upstream::start(WORKERS, WORK).await?;
            let Some(started) = contender.start(upstream.address).await? else {
                if round == 0 {
                    writeln!(out, "SKIPPED: {}: {}", contender.name, contender.needs)?;
                }
                continue;
            };
            let time = Duration::from_secs(seconds);
            let load = open_loop(started.address, OFFERED, time, priority);
            let slow = upstream.slow_in_the_middle(time, 5);
            let (answers, ()) = tokio::join!(load, slow);
            let run = Run::new(contender.name, &answers, time);
            writeln!(out, "{run}")?;
            runs.push(run);
        }
    }
    let names = CONTENDERS.iter().map(|Contender { name, .. }| *name);
    write!(out, "{}", table(names, &runs))
}
