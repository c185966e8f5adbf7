//! A server that says hello, under the load of `wrk`, with and without layers.
//!
//! Every server is a process of its own with one thread of work, so that the other processor is left to `wrk`. All are
//! there the whole time, and are asked in turns.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Read, stdin};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::thread;

use axum::Router;
use axum::routing::get;
use plimsoll::adaptive::{Adaptive, Verdict};
use plimsoll::{Clock, Gate, Queue};
use plimsoll_tower::answer::Fields;
use plimsoll_tower::{HttpLimitLayer, RequestLimit};
use tokio::net::TcpListener;
use tower::layer::layer_fn;

use super::by_hand::{Later, same_lines};
use super::web::{by_peer, governed, governor, keyed, told};
use crate::contender::Role::{self, Floor, Ours, Peer};
use crate::contender::{Contender, Rounds};
use crate::report::{Series, Table, marked, quantile};
use crate::targets::{Target, at_most};

/// The argument that makes this program such a server.
pub(crate) const SERVE: &str = "--serve";

const NONE: &str = "no layer";
const LINES: &str = "no layer, five more lines that are always the same";
const BY_HAND: &str = "a layer by hand, by address, all 5 fields";
const RATE: &str = "HttpLimitLayer, a rate by address";
const FIELDS: &str = "HttpLimitLayer, a rate by address, all 5 fields";
const SHED: &str = "HttpLimitLayer, adaptive with a queue";
const GOVERNOR: &str = "tower_governor, by address";
const GOVERNOR_FIELDS: &str = "tower_governor, by address, 2 fields";

const SERVERS: [(Role, &str); 8] = [
    (Floor, NONE),
    (Floor, LINES),
    (Floor, BY_HAND),
    (Ours, RATE),
    (Ours, FIELDS),
    (Ours, SHED),
    (Peer, GOVERNOR),
    (Peer, GOVERNOR_FIELDS),
];

const CONNECTIONS: &str = "32";

/// What a server got done.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    per_second: f64,
    /// Microseconds of processor time for each request.
    cpu: f64,
    /// The share that was refused.
    refused: f64,
}

pub(crate) struct Loaded(Vec<Series<Load>>);

/// Serves until nobody listens any more. The address is the first line that is said.
pub(crate) fn serve(name: &str, say: impl FnOnce(SocketAddr)) -> Option<()> {
    let app = Router::new().route("/", get(async || "hello"));
    let app = match name {
        NONE => app,
        LINES => Router::new().route("/", get(async || (same_lines(), "hello"))),
        BY_HAND => {
            let limit = &*Box::leak(Box::new(keyed()));
            app.layer(layer_fn(move |service| Later { service, limit }))
        }
        RATE => app.layer(HttpLimitLayer::new(by_peer(Clock::system()))),
        FIELDS => app.layer(told(Fields::ALL)),
        SHED => {
            let gate = Gate::builder(Adaptive::new(Verdict::default()));
            let gate = gate.queue(Queue::fifo(1000)).build();
            app.layer(HttpLimitLayer::new(RequestLimit::new(gate)))
        }
        GOVERNOR => app.layer(governed(governor().finish())),
        GOVERNOR_FIELDS => app.layer(governed(governor().use_headers().finish())),
        _ => return None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .ok()?;
    // Whoever started this keeps its end open for as long as it wants to be served.
    thread::spawn(|| {
        let _ = stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    runtime.block_on(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.ok()?;
        say(listener.local_addr().ok()?);
        let app = app.into_make_service_with_connect_info::<SocketAddr>();
        axum::serve(listener, app).await.ok()
    })
}

/// A server in a process of its own, which ends with this.
struct Server {
    process: Child,
    address: String,
}

impl Server {
    fn start(name: &str) -> Option<Self> {
        let mut process = Command::new(env::current_exe().ok()?)
            .args([SERVE, name])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let mut address = String::new();
        let mut said = BufReader::new(process.stdout.take()?);
        said.read_line(&mut address).ok()?;
        let address = address.trim_end().to_owned();
        Some(Self { process, address })
    }

    fn load(&self, seconds: u32) -> Option<Load> {
        let before = self.cpu();
        let output = Command::new("wrk")
            .args(["-t1", "-c", CONNECTIONS, "-d", &format!("{seconds}s")])
            .arg(format!("http://{}/", self.address))
            .output()
            .ok()?;
        let cpu = self.cpu() - before;
        let said = String::from_utf8(output.stdout).ok()?;
        let after = |mark: &str| Some(said.split_once(mark)?.1.trim_start());
        let number = |text: &str| text.split_whitespace().next()?.parse::<f64>().ok();
        let per_second = number(after("Requests/sec:")?)?;
        // "12345 requests in 1.00s", in the line after the percentiles.
        let line = said.lines().find(|line| line.contains(" requests in "))?;
        let requests = number(line)?;
        let refused = after("Non-2xx or 3xx responses:").and_then(number);
        let refused = refused.unwrap_or(0.0) / requests;
        Some(Load {
            per_second: per_second * (1.0 - refused),
            cpu: cpu / requests * 1e6,
            refused,
        })
    }

    /// Seconds of processor time so far.
    fn cpu(&self) -> f64 {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.process.id()));
        let tasks = tasks.into_iter().flatten().flatten();
        let nanos = tasks.filter_map(|task| {
            let times = fs::read_to_string(task.path().join("schedstat")).ok()?;
            times.split_whitespace().next()?.parse::<f64>().ok()
        });
        nanos.sum::<f64>() / 1e9
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Nothing without `wrk`.
pub(super) fn run(rounds: &Rounds, seconds: u32) -> Option<Loaded> {
    if Command::new("wrk").arg("-v").output().is_err() {
        eprintln!("tower-wrk needs wrk: apt-get install wrk");
        return None;
    }
    let servers = SERVERS.into_iter().filter_map(|(role, name)| {
        let server = Server::start(name)?;
        // Until everything is warm.
        server.load(1)?;
        Some(Contender::new(role, name, move |seconds| {
            server.load(seconds).unwrap_or(Load {
                per_second: f64::NAN,
                cpu: f64::NAN,
                refused: f64::NAN,
            })
        }))
    });
    Some(Loaded(Contender::in_turns(
        servers.collect(),
        rounds,
        seconds,
    )))
}

impl Loaded {
    fn find(&self, name: &str) -> Option<&Series<Load>> {
        self.0.iter().find(|series| series.name == name)
    }

    /// What is lost against the server without layers, in percent, round by round.
    fn lost(&self, series: &Series<Load>) -> Option<Series> {
        let with = series.each(|load| load.per_second);
        let without = self.find(NONE)?.each(|load| load.per_second);
        let pairs = with.samples.iter().zip(&without.samples);
        let samples = pairs.map(|(with, without)| 100.0 * (1.0 - with / without));
        Some(Series {
            role: series.role,
            name: series.name,
            samples: samples.collect(),
        })
    }

    pub(super) fn targets(&self) -> Vec<Target> {
        let ours = self.0.iter().filter(|series| series.role == Ours);
        let targets = ours.filter_map(|series| {
            let lost = self.lost(series)?.median();
            let what = format!("{}: requests a second lost", series.name);
            Some(at_most(&what, lost, 5.0, " %"))
        });
        targets.collect()
    }

    pub(super) fn markdown(&self) -> String {
        let head = ["", "a second", "lost", "p10 – p90", "processor", "refused"];
        let mut table = Table::new(&head);
        for series in &self.0 {
            let median = |figure: fn(&Load) -> f64| series.each(figure).median();
            let mut row = vec![
                marked(series),
                format!("{:.0}", median(|load| load.per_second)),
            ];
            if let Some(lost) = self.lost(series) {
                let [low, high] = [0.1, 0.9].map(|share| quantile(&lost.samples, share));
                row.push(format!("{:.1} %", lost.median()));
                row.push(format!("{low:.1} – {high:.1}"));
            } else {
                row.extend(["", ""].map(str::to_owned));
            }
            row.push(format!("{:.2} µs", median(|load| load.cpu)));
            row.push(format!("{:.2} %", 100.0 * median(|load| load.refused)));
            table.rows.push(row);
        }
        let title = "An axum server that says hello, under the load of wrk";
        let text = format!("{CONNECTIONS} connections; the server has one thread.");
        format!("### {title}\n\n{text}\n\n{}", table.markdown())
    }
}
