//! Adaptive limits on real sockets: an axum server with a pool, slower or smaller in the middle third, under an open loop whose
//! latencies count from when a request was to be sent. Each limit with what it has without tuning, beside the same in the simulator.
//!
//! ```text
//! PLIMSOLL_ENVOY=… cargo run --release -p plimsoll-benches-live -- [SECONDS-OF-A-PHASE] [SCENARIO]…
//! ```
//!
//! What was answered in time in each third, as a part of what the pool could do or of what was asked.

mod contender;
mod scenario;
mod server;

use std::io::{self, Write};
use std::time::Duration;

use plimsoll_benches_sockets::open_loop;

use crate::contender::CONTENDERS;
use crate::scenario::{SCENARIOS, Scenario};

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, name] = arguments.as_slice()
        && word == "serve"
    {
        return server::serve(name).await;
    }
    let wrong = |_| io::Error::other("expected [SECONDS-OF-A-PHASE] [SCENARIO]…");
    let seconds = match arguments.first() {
        Some(seconds) => seconds.parse().map_err(wrong)?,
        None => 10,
    };
    let named = arguments.get(1..).unwrap_or_default();
    let chosen = |it: &&Scenario| named.is_empty() || named.iter().any(|name| name == it.name);
    for scenario in SCENARIOS.iter().filter(chosen) {
        run(scenario, seconds).await?;
    }
    Ok(())
}

async fn run(scenario: &Scenario, seconds: u64) -> io::Result<()> {
    let mut out = io::stdout();
    writeln!(
        out,
        "{}: {}; thirds of {seconds} s",
        scenario.name, scenario.about
    )?;
    writeln!(
        out,
        "  {:28} {:>7} {:>7} {:>7}   {:>9}",
        "", "first", "middle", "last", "simulated"
    )?;
    for contender in &CONTENDERS {
        let Some(mut started) = contender.start(scenario).await? else {
            writeln!(out, "  {:28} SKIPPED: {}", contender.name, contender.needs)?;
            continue;
        };
        let third = Duration::from_secs(seconds);
        let load = open_loop(started.address, scenario.rate, 3 * third, |_| "");
        let (answers, changed) = tokio::join!(load, started.change(scenario, third));
        changed?;
        let goodput = scenario.goodput(&answers, seconds);
        write!(out, "  {:28}", contender.name)?;
        goodput
            .iter()
            .try_for_each(|share| write!(out, " {:6.1}%", 100.0 * share))?;
        if let Some(queue) = contender.simulated {
            write!(out, "  ")?;
            let shares = scenario.simulated(queue, seconds);
            shares
                .iter()
                .try_for_each(|share| write!(out, " {:6.1}%", 100.0 * share))?;
        }
        writeln!(out)?;
    }
    Ok(())
}
