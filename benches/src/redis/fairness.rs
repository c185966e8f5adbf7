//! Several processes on one key: what each gets of a limit that is not enough for all.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use std::{array, env};

use plimsoll::{Demand, PerKey, Quota, TokenBucket};
use plimsoll_redis::{Borrow, Fleet, Store};
use tokio::runtime::Builder;

use super::contenders::KEY;
use super::load::Bench;
use crate::asking::now;
use crate::contender::{Role, Rounds};
use crate::keyed::child::CHILD;
use crate::report::{Series, Table, marked, quantile};

const UNBORROWED: &str = "plimsoll token bucket";
const BORROWED: &str = "plimsoll token bucket, borrowed";

/// What such a process is asked for.
pub(crate) const FAIRNESS: &str = "fairness";

const PROCESSES: u32 = 4;
/// In each process.
const CALLERS: u32 = 16;
const RATE: u32 = 4_000;
const BURST: u32 = 200;
/// The most that a process holds for the key, as [`Borrow`] has it unless said otherwise.
const HELD: u32 = BURST / 20;

/// What the processes got, for each round.
pub(super) struct Fairness {
    span: Duration,
    series: Vec<Series<Sample>>,
}

struct Sample {
    /// Of the rate, what all got together.
    reached: f64,
    /// What the one with the least got, of what the one with the most got.
    least: f64,
}

pub(super) fn run(bench: &Bench, rounds: &Rounds, span: Duration) -> Fairness {
    let wanted = [UNBORROWED, BORROWED].into_iter();
    let wanted = wanted.filter(|name| name.contains(&rounds.who));
    let mut series: Vec<_> = wanted.map(|name| Series::new(Role::Ours, name)).collect();
    for _ in 0..rounds.count {
        for each in &mut series {
            bench.server.clear();
            match grants(&bench.server.url(), each.name, span) {
                Ok(granted) => each.samples.push(Sample::of(&granted, each.name, span)),
                Err(error) => eprintln!("{}, {PROCESSES} processes: no result: {error}", each.name),
            }
        }
    }
    Fairness { span, series }
}

/// What each process was granted, and how long that took from the first to the last.
struct Granted {
    each: Vec<u32>,
    wall: Duration,
}

fn grants(url: &str, who: &str, span: Duration) -> io::Result<Granted> {
    let program = env::current_exe()?;
    let span = span.as_millis().to_string();
    let mut all: Vec<Process> = Vec::new();
    for _ in 0..PROCESSES {
        let mut command = Command::new(&program);
        command.args([CHILD, FAIRNESS, url, who, &span]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        all.push(Process::start(&mut command)?);
    }
    // All are connected before the first begins.
    for each in &mut all {
        each.line()?;
    }
    let start = now();
    for each in &mut all {
        let input = each.child.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        input.write_all(b"\n")?;
    }
    let mut each = Vec::new();
    for process in &mut all {
        each.push(process.line()?.trim().parse().map_err(io::Error::other)?);
    }
    let wall = now() - start;
    Ok(Granted { each, wall })
}

struct Process {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(command: &mut Command) -> io::Result<Self> {
        let mut child = command.spawn()?;
        let output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let output = BufReader::new(output);
        Ok(Self { child, output })
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that waits for its beginning ends without it.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// `URL WHO MILLIS`: says when it is ready, waits for a line, and says what it was granted within the time.
pub(crate) fn child(args: &[&str]) -> Option<String> {
    let [url, who, millis] = args else {
        return None;
    };
    let span = Duration::from_millis(millis.parse().ok()?);
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .ok()?;
    let store = Store::builder(url).deadline(Duration::from_secs(20));
    let store = store.open().ok()?;
    let rule = TokenBucket::greedy(Quota::per_second(RATE.into())).burst(BURST.into());
    let fleet = store
        .limiter("fair", rule)
        .ok()?
        .fleet()
        .waiting(CALLERS.into());
    let fleet = match *who {
        BORROWED => fleet.borrowing(Borrow::new()),
        _ => fleet,
    };
    let fleet = Arc::new(fleet.build().ok()?);
    runtime.block_on(store.ping()).ok()?;
    println!("ready");
    let mut line = String::new();
    if io::stdin().read_line(&mut line).ok()? == 0 {
        return None;
    }
    let granted = runtime.block_on(async {
        let end = now() + span;
        let callers: [_; CALLERS as usize] =
            array::from_fn(|_| tokio::spawn(call_until(end, Arc::clone(&fleet))));
        let mut granted = 0;
        for caller in callers {
            granted += caller.await.expect("a caller that does not panic");
        }
        granted
    });
    Some(granted.to_string())
}

/// How often one caller is granted, who waits as long as it takes and asks again at once.
async fn call_until(end: std::time::Instant, fleet: Arc<Fleet>) -> u32 {
    let mut granted = 0;
    loop {
        let left = end.saturating_duration_since(now());
        let permit = fleet.acquire_owned(KEY, Demand::ONE.within(left)).await;
        // What comes late does not count.
        if now() >= end {
            return granted;
        }
        granted += u32::from(permit.is_ok());
        tokio::task::consume_budget().await;
    }
}

impl Sample {
    fn of(granted: &Granted, who: &str, span: Duration) -> Self {
        let sum = f64::from(granted.each.iter().sum::<u32>());
        // What a process holds it may use a little later than the store thinks.
        let held = if who == BORROWED { HELD } else { 0 } * PROCESSES;
        let bound = f64::from(RATE) * granted.wall.as_secs_f64() + f64::from(BURST + held);
        assert!(sum <= bound, "{who}: granted {sum}, at most {bound}");
        let [least, most] = [granted.each.iter().min(), granted.each.iter().max()]
            .map(|grants| f64::from(grants.copied().unwrap_or(0)));
        Self {
            reached: sum / (f64::from(RATE) * span.as_secs_f64()),
            least: least / most,
        }
    }
}

impl Fairness {
    pub(super) fn markdown(&self) -> String {
        let mut table = Table::new(&["", "of the rate", "least ÷ most", "worst round"]);
        for series in &self.series {
            let least = series.each(|sample| sample.least);
            table.rows.push(vec![
                marked(series),
                format!("{:.3}", series.each(|sample| sample.reached).median()),
                format!("{:.3}", least.median()),
                format!("{:.3}", quantile(&least.samples, 0.0)),
            ]);
        }
        format!(
            "### In Redis, one key of {PROCESSES} processes, {RATE} a second, {:?}\n\n{}",
            self.span,
            table.markdown()
        )
    }
}
