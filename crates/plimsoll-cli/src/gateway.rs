//! `plimsoll gateway`: a reverse proxy with limits.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use plimsoll_config::gateway::Origin;
use plimsoll_gateway::{Gateway, Settings, StartError};

use crate::process::{Port, Process, Signals, log};

/// Passes requests on to other servers, behind limits
///
/// The section `gateway` of the file has the addresses to listen on and the servers, the section `routes` the limits of
/// requests. Without a file, `--to` names the server: then requests of each client have a generous rate limit, and an adaptive limit
/// finds how many requests the server can serve at once; others wait by priority (X-Priority). A file is read again when it
/// changes and on SIGHUP; an invalid file changes nothing. SIGTERM stops it gracefully: it accepts no new requests and finishes those in progress.
///
/// Exit status: 0 when it was stopped, 1 if it cannot serve (a port is taken), 2 if the arguments or the file are invalid.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The file of limits and of the gateway (YAML, TOML or JSON)
    file: Option<PathBuf>,
    /// The server behind it, such as `http://127.0.0.1:9000`
    #[arg(long, value_name = "URL", env = "PLIMSOLL_GATEWAY_TO")]
    to: Option<String>,
    /// The address to listen on: that of the file, or else 127.0.0.1:8080
    #[arg(long, value_name = "ADDRESS", env = "PLIMSOLL_GATEWAY_LISTEN")]
    listen: Option<SocketAddr>,
    /// The address for operators: the live page, /healthz, /readyz, /metrics, /limits; `off` closes it
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8424",
        env = "PLIMSOLL_GATEWAY_ADMIN"
    )]
    admin: Port,
    #[command(flatten)]
    process: Process,
}

/// Parses the origin here and not with clap, which would print an invalid value that may contain a password.
fn origin(text: &str) -> Result<Origin, String> {
    Origin::parse(text).map_err(|hint| format!("--to: expected {}{hint}", Origin::WANTED))
}

pub(crate) fn run(args: &Args, out: &mut impl Write, err: &mut impl Write) -> io::Result<ExitCode> {
    log(args.process.log);
    let mut settings = Settings::default();
    settings.file.clone_from(&args.file);
    settings.to = match args.to.as_deref().map(origin).transpose() {
        Ok(to) => to,
        Err(message) => {
            writeln!(err, "plimsoll: {message}")?;
            return Ok(ExitCode::from(2));
        }
    };
    settings.listen = args.listen;
    settings.admin = args.admin.address();
    settings.admin_token.clone_from(&args.process.admin_token);
    settings.drain = args.process.drain;
    let gateway = match Gateway::start(&settings) {
        Ok(gateway) => gateway,
        Err(StartError::Config(error)) => {
            for line in error.lines() {
                writeln!(err, "{line}")?;
            }
            return Ok(ExitCode::from(2));
        }
        Err(error) => {
            writeln!(err, "plimsoll: {error}")?;
            let serves_nothing =
                matches!(error, StartError::Listen(..) | StartError::ListenAdmin(..));
            return Ok(ExitCode::from(if serves_nothing { 1 } else { 2 }));
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let signals = runtime.block_on(async { Signals::new() })?;
    greet(&gateway, args, out)?;
    runtime.block_on(gateway.run(signals.next()))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the addresses, the origins and the limits.
fn greet(gateway: &Gateway, args: &Args, out: &mut impl Write) -> io::Result<()> {
    for address in gateway.addresses() {
        writeln!(out, "gateway http://{address}")?;
    }
    if let Some(admin) = gateway.admin_address() {
        writeln!(out, "admin   http://{admin}/")?;
    }
    if args.file.is_some() {
        writeln!(out, "limits  {}", gateway.limits().names().join(", "))?;
    } else {
        writeln!(
            out,
            "\nNo file was given. This is what it does, as a file says it:\n"
        )?;
        write!(out, "{}", gateway.limits().limiters().current().config())?;
    }
    out.flush()
}
