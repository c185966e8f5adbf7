//! `plimsoll serve`: limits for every language.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use plimsoll_server::{EnvoySettings, Server, Settings, StartError};

/// Serves limits over HTTP and RESP
///
/// Without a file it serves a few limits to try it out. A file is read again when it changes, and on SIGHUP; what was used
/// stays used. SIGTERM ends it in order: it is no longer ready, nothing new is accepted, and what is under way ends.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The file of limits (YAML, TOML or JSON)
    file: Option<PathBuf>,
    /// Where to listen for checks over HTTP
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8420",
        env = "PLIMSOLL_HTTP"
    )]
    http: SocketAddr,
    /// Where to listen for clients of Redis
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8421",
        env = "PLIMSOLL_RESP"
    )]
    resp: SocketAddr,
    /// Where to listen for gRPC: Envoy's rate-limit service, health
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8423",
        env = "PLIMSOLL_GRPC"
    )]
    grpc: SocketAddr,
    /// Where to listen for operators: health, metrics, limits as they stand
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8422",
        env = "PLIMSOLL_ADMIN"
    )]
    admin: SocketAddr,
    #[command(flatten)]
    envoy: Envoy,
    /// What clients must say to be answered (Bearer over HTTP, AUTH over RESP)
    #[arg(long, env = "PLIMSOLL_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// What operators must say to be answered. Needed where the admin port is not on a loopback address
    #[arg(long, env = "PLIMSOLL_ADMIN_TOKEN", hide_env_values = true)]
    admin_token: Option<String>,
    /// Log lines as JSON
    #[arg(long)]
    json_logs: bool,
}

/// Envoy's rate-limit service. Without a configuration of its own it is served from the file of limits
#[derive(clap::Args)]
#[command(next_help_heading = "Envoy's reference server")]
struct Envoy {
    /// A directory with configurations of the reference server (envoyproxy/ratelimit); all files below it are read, and
    /// read again when they change. May be given several times
    #[arg(
        long = "envoy-config",
        value_name = "DIR",
        env = "PLIMSOLL_ENVOY_CONFIG",
        value_delimiter = ':'
    )]
    config: Vec<PathBuf>,
    /// Several files may describe one domain (MERGE_DOMAIN_CONFIG of the reference server)
    #[arg(long = "envoy-merge", env = "PLIMSOLL_ENVOY_MERGE")]
    merge: bool,
    /// Refuse nothing, only count (SHADOW_MODE of the reference server)
    #[arg(long = "envoy-shadow", env = "PLIMSOLL_ENVOY_SHADOW")]
    shadow: bool,
    /// Of all limits of a request one is enough (QUOTA_MODE of the reference server)
    #[arg(long = "envoy-quota", env = "PLIMSOLL_ENVOY_QUOTA")]
    quota: bool,
    /// Serve /json and /healthcheck, /rlconfig and /stats on the admin port, and its statistics and header fields too
    #[arg(long = "envoy-compat", env = "PLIMSOLL_ENVOY_COMPAT")]
    compat: bool,
    /// A Redis in which a fleet counts together, such as redis://127.0.0.1:6379
    #[arg(
        long = "envoy-store",
        value_name = "URL",
        env = "PLIMSOLL_ENVOY_STORE",
        hide_env_values = true
    )]
    store: Option<String>,
    /// How many seconds a descriptor holds a slot at most that it does not give back with negative hits
    #[arg(
        long = "envoy-lease",
        value_name = "SECONDS",
        default_value_t = 300,
        value_parser = clap::value_parser!(u64).range(1..=86_400),
        env = "PLIMSOLL_ENVOY_LEASE"
    )]
    lease: u64,
}

impl From<Envoy> for EnvoySettings {
    fn from(args: Envoy) -> Self {
        let mut settings = Self::default();
        settings.config = args.config;
        settings.merge = args.merge;
        settings.shadow = args.shadow;
        settings.quota = args.quota;
        settings.compat = args.compat;
        settings.store = args.store;
        settings.lease = Duration::from_secs(args.lease);
        settings
    }
}

pub(crate) fn run(args: Args, out: &mut impl Write, err: &mut impl Write) -> io::Result<ExitCode> {
    log(args.json_logs);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(serve(args, out, err))
}

/// Logs to stderr, as much as the environment says.
pub(crate) fn log(json: bool) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("PLIMSOLL_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr);
    if json {
        logs.json().init();
    } else {
        logs.init();
    }
}

async fn serve(args: Args, out: &mut impl Write, err: &mut impl Write) -> io::Result<ExitCode> {
    let mut settings = Settings::default();
    settings.file = args.file.clone();
    settings.http = Some(args.http);
    settings.resp = Some(args.resp);
    settings.grpc = Some(args.grpc);
    settings.admin = Some(args.admin);
    settings.envoy = args.envoy.into();
    settings.token = args.token;
    settings.admin_token = args.admin_token;
    let server = match Server::start(settings).await {
        Ok(server) => server,
        Err(StartError::Config(error)) => {
            for line in error.lines() {
                writeln!(err, "{line}")?;
            }
            return Ok(ExitCode::from(1));
        }
        Err(error) => {
            writeln!(err, "plimsoll: {error}")?;
            return Ok(ExitCode::from(2));
        }
    };
    greet(&server, args.file.is_none(), out)?;
    server.run(stopped()).await;
    Ok(ExitCode::SUCCESS)
}

/// Says what is served, where, and what to try.
fn greet(server: &Server, is_default: bool, out: &mut impl Write) -> io::Result<()> {
    let [http, resp, grpc, admin] = server.addresses();
    let names = server.limits().names();
    let which = if is_default {
        " (the default ones: no file was given)"
    } else {
        ""
    };
    writeln!(out, "limits: {}{which}", names.join(", "))?;
    let show = |address: Option<SocketAddr>| address.map(|it| it.to_string()).unwrap_or_default();
    writeln!(out, "HTTP  http://{}", show(http))?;
    writeln!(out, "RESP  redis://{}", show(resp))?;
    writeln!(out, "gRPC  grpc://{}", show(grpc))?;
    writeln!(out, "admin http://{}", show(admin))?;
    if let (Some(http), Some(resp), Some(admin)) = (http, resp, admin) {
        let name = names.first().map_or("default", String::as_str);
        writeln!(out, "\ntry:")?;
        writeln!(
            out,
            "  curl -i http://{http}/v1/check -H 'content-type: application/json' -d '{{\"limit\":\"{name}\",\"key\":\"anna\"}}'"
        )?;
        writeln!(
            out,
            "  redis-cli -p {} CL.THROTTLE anna 4 10 60",
            resp.port()
        )?;
        writeln!(out, "  curl http://{admin}/metrics")?;
    }
    out.flush()
}

/// Returns when the process receives a signal to end.
pub(crate) async fn stopped() {
    let interrupt = tokio::signal::ctrl_c();
    #[cfg(unix)]
    {
        let kind = tokio::signal::unix::SignalKind::terminate();
        if let Ok(mut terminate) = tokio::signal::unix::signal(kind) {
            tokio::select! {
                _ = interrupt => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    let _ = interrupt.await;
}
