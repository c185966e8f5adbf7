//! Runs the demo: an upstream, a gateway in front of it, clients, two runs.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use plimsoll_config::uses::Mode;
use plimsoll_gateway::{Gateway, Settings as GatewaySettings, StartError as GatewayError};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep, timeout};

use crate::directory::Directory;
use crate::report::{Phase, Report};
use crate::samples::{Run, Sums};
use crate::script::{Class, Stage, WORKERS};
use crate::traffic::Clients;
use crate::upstream::Upstream;

/// The file of limits, with placeholders for the mode and the address of the upstream.
const FILE: &str = include_str!("gateway.yaml");
/// The usual admin port.
const PAGE: u16 = 8422;
/// The time-out for steps that take next to no time.
const SOON: Duration = Duration::from_secs(30);

/// The settings of a demo.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The duration of both runs together. Default: two minutes.
    pub length: Duration,
    /// The address of the live page. Default: 127.0.0.1:8422, or another port if that is taken.
    pub admin: Option<SocketAddr>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            length: Duration::from_secs(120),
            admin: None,
        }
    }
}

/// An error of a demo.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The gateway cannot start.
    Gateway(GatewayError),
    /// An I/O error.
    Io(&'static str, io::Error),
    /// The gateway did not reload the changed file.
    NotRead,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gateway(error) => error.fmt(f),
            Self::Io(what, error) => write!(f, "{what}: {error}"),
            Self::NotRead => f.write_str(
                "the gateway did not read the file with enforced limits: was it changed meanwhile?",
            ),
        }
    }
}

impl std::error::Error for StartError {}

impl From<GatewayError> for StartError {
    fn from(error: GatewayError) -> Self {
        Self::Gateway(error)
    }
}

/// An event of a running demo.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A run starts.
    Begins(Phase),
    /// A stage starts, this long after the start of its run.
    Stage(Stage, Duration),
    /// The results of requests since the last event of this kind.
    Sums(Vec<(Class, Sums)>),
}

/// A demo that is ready to run, with its live page.
#[derive(Debug)]
pub struct Demo {
    length: Duration,
    directory: Directory,
    upstream: Upstream,
    gateway: Gateway,
}

impl Demo {
    /// Starts the upstream, the gateway and the live page.
    ///
    /// # Errors
    ///
    /// If an address cannot be bound, or the file of limits cannot be written.
    pub async fn start(settings: &Settings) -> Result<Self, StartError> {
        let upstream = Upstream::start().await;
        let upstream = upstream.map_err(|error| StartError::Io("cannot listen", error))?;
        let failed = |error| StartError::Io("cannot write the file of limits", error);
        let directory = Directory::new().map_err(failed)?;
        directory
            .write(&file(&upstream, Mode::Shadow))
            .map_err(failed)?;
        let start = |admin: SocketAddr| {
            let mut of_gateway = GatewaySettings::default();
            of_gateway.file = Some(directory.file());
            of_gateway.admin = Some(admin);
            of_gateway.drain = Duration::from_secs(1);
            Gateway::start(&of_gateway)
        };
        let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let gateway = match settings.admin {
            Some(admin) => start(admin)?,
            None => start(local(PAGE)).or_else(|_| start(local(0)))?,
        };
        Ok(Self {
            length: settings.length,
            directory,
            upstream,
            gateway,
        })
    }

    /// The URL of the live page.
    #[must_use]
    pub fn page(&self) -> String {
        let admin = self.gateway.admin_address();
        admin.map_or_else(String::new, |admin| format!("http://{admin}/"))
    }

    /// The file of limits. The gateway reloads it when it changes; the demo removes it at the end.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.directory.file()
    }

    /// Runs the demo, and returns its report. If `stop` is ready before the end, the report covers the time until then.
    ///
    /// # Errors
    ///
    /// If the gateway does not reload its file.
    pub async fn run(
        self,
        stop: impl Future<Output = ()>,
        mut tell: impl FnMut(Event),
    ) -> Result<Report, StartError> {
        let Self {
            length,
            directory,
            upstream,
            gateway,
        } = self;
        let none = || StartError::Io("cannot listen", io::ErrorKind::AddrNotAvailable.into());
        let to = gateway.addresses().next().ok_or_else(none)?;
        let limits = gateway.limits().clone();
        let (end, ended) = oneshot::channel::<()>();
        let serving = tokio::spawn(gateway.run(async {
            let _ = ended.await;
        }));
        let mut stop = pin!(stop);
        let mut report = Report::default();
        for phase in [Phase::Without, Phase::With] {
            tell(Event::Begins(phase));
            let runs = run(&upstream, to, length / 2, &mut tell, stop.as_mut());
            let (run, is_stopped) = runs.await;
            report.add(run);
            if is_stopped {
                break;
            }
            if phase == Phase::Without {
                // Both runs start with an idle upstream.
                upstream.set_workers(WORKERS);
                until(|| upstream.is_idle()).await;
                let failed = |error| StartError::Io("cannot write the file of limits", error);
                directory
                    .write(&file(&upstream, Mode::Enforce))
                    .map_err(failed)?;
                let enforced = || limits.snapshot().iter().all(|it| it.mode == Mode::Enforce);
                if !until(enforced).await {
                    return Err(StartError::NotRead);
                }
            }
        }
        let _ = end.send(());
        let _ = serving.await;
        Ok(report)
    }
}

fn file(upstream: &Upstream, mode: Mode) -> String {
    let mode = match mode {
        Mode::Shadow => "shadow",
        _ => "enforce",
    };
    let to = format!("http://{}", upstream.address);
    FILE.replace("UPSTREAM", &to).replace("MODE", mode)
}

/// Waits a short time for a condition. Returns whether it holds.
async fn until(is_so: impl Fn() -> bool) -> bool {
    let waits = async {
        while !is_so() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(SOON, waits).await.is_ok()
}

/// Makes one run. Returns its results, and whether it was ended early.
async fn run(
    upstream: &Upstream,
    to: SocketAddr,
    whole: Duration,
    tell: &mut impl FnMut(Event),
    mut stop: std::pin::Pin<&mut impl Future<Output = ()>>,
) -> (Run, bool) {
    let start = Instant::now();
    let clients = Clients::new(to);
    let (say, mut said) = mpsc::unbounded_channel();
    let mut asking = JoinSet::new();
    for class in Class::ALL {
        let clients = std::sync::Arc::clone(&clients);
        asking.spawn(clients.ask(class, start, whole, say.clone()));
    }
    drop(say);
    let mut run = Run {
        whole,
        ..Run::default()
    };
    let mut stages = Stage::ALL.into_iter().peekable();
    let mut ticks = interval(whole / 20);
    let mut told = Duration::ZERO;
    let is_stopped = loop {
        tokio::select! {
            sample = said.recv() => match sample {
                Some(sample) => run.samples.push(sample),
                // All clients have ended. On a machine that stalled, the last stage may not have been reported.
                None => {
                    stages.for_each(|stage| tell(Event::Stage(stage, start.elapsed())));
                    break false;
                }
            },
            _ = ticks.tick() => {
                let now = start.elapsed();
                run.length = now.min(whole);
                let begins = |stage: &Stage| whole.mul_f64(stage.span().0) <= now;
                while let Some(stage) = stages.next_if(begins) {
                    upstream.set_workers(stage.workers());
                    tell(Event::Stage(stage, now));
                }
                // Requests that were just sent are still in flight.
                let until = now.saturating_sub(crate::script::PATIENCE).min(whole);
                if until > told {
                    let sums = |class| (class, run.sums_between(class, told, until));
                    tell(Event::Sums(Class::ALL.map(sums).into()));
                    told = until;
                }
            }
            () = &mut stop => {
                asking.abort_all();
                break true;
            }
        }
    };
    run.length = start.elapsed().min(whole);
    (run, is_stopped)
}
