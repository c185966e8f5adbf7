//! Arguments, logging and signals that `serve` and `gateway` share.

use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;

/// An address to listen on, or `off`.
#[derive(Clone, Copy)]
pub(crate) struct Port(Option<SocketAddr>);

impl Port {
    pub(crate) const fn address(self) -> Option<SocketAddr> {
        self.0
    }
}

impl FromStr for Port {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self(None));
        }
        let address = text.parse().map(Some).map(Self);
        address.map_err(|_| {
            "expected an address and a port, such as 127.0.0.1:8420, or `off`".to_owned()
        })
    }
}

/// The format of log lines.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Log {
    /// For people
    Text,
    /// For programs: one object a line
    Json,
}

/// The arguments that `serve` and `gateway` share.
#[derive(clap::Args)]
pub(crate) struct Process {
    /// The token that operators must send. Required if the admin port is not on a loopback address
    #[arg(long, env = "PLIMSOLL_ADMIN_TOKEN", hide_env_values = true)]
    pub(crate) admin_token: Option<String>,
    /// The time for which requests in progress may continue after it begins to stop
    #[arg(
        long,
        value_name = "TIME",
        default_value = "10s",
        value_parser = duration,
        env = "PLIMSOLL_DRAIN"
    )]
    pub(crate) drain: Duration,
    /// The form of log lines, which go to the standard error. `PLIMSOLL_LOG` says which there are: `debug`, `warn`, `plimsoll_engine=debug`
    #[arg(
        long,
        value_name = "FORM",
        default_value = "text",
        env = "PLIMSOLL_LOG_FORM"
    )]
    pub(crate) log: Log,
}

/// Parses a duration in the syntax of files.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a time above 0 with its unit, such as 500ms, 30s or 5m".to_owned();
    let node = plimsoll_spec::parse(text)
        .ok()
        .flatten()
        .ok_or_else(wrong)?;
    plimsoll_spec::scalar::period(&node).map_err(|_| wrong())
}

/// Logs to stderr, at the level that the environment sets.
pub(crate) fn log(form: Log) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("PLIMSOLL_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr);
    match form {
        Log::Json => logs.json().init(),
        Log::Text => logs.with_ansi(io::stderr().is_terminal()).init(),
    }
}

/// A listener for SIGINT and SIGTERM. Once it is created, they no longer end the process.
pub(crate) struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    #[cfg(unix)]
    pub(crate) fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    #[cfg(not(unix))]
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Waits for a signal.
    pub(crate) async fn next(mut self) {
        #[cfg(unix)]
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
        #[cfg(not(unix))]
        let _ = tokio::signal::ctrl_c().await;
    }
}
