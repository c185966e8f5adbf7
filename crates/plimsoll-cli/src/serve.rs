//! `plimsoll serve`: serves limits over HTTP, RESP and gRPC.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use plimsoll_server::{EnvoySettings, LimitView, LimiterKind, Server, Settings, StartError};
use serde_json::Value;

use crate::process::{Port, Process, Signals, duration, log};

/// Serves limits over HTTP, RESP and gRPC
///
/// Without a file it serves a few limits to try it out, and says which. `plimsoll check FILE` says what is in a file and what is wrong
/// with it. A limit with `store:` is kept in Redis, for all servers of a fleet together; all others are kept in memory.
///
/// Every port is on the loopback address unless an option says otherwise; `off` closes one.
#[derive(clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct Args {
    /// The file of limits (YAML, TOML or JSON). It is read again when it changes
    file: Option<PathBuf>,
    /// The address for checks, charges and leases over HTTP, which /openapi.json describes
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8420",
        env = "PLIMSOLL_HTTP"
    )]
    http: Port,
    /// The address for clients of Redis: CL.THROTTLE, PLIMSOLL.TAKE
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8421",
        env = "PLIMSOLL_RESP"
    )]
    resp: Port,
    /// The address for gRPC: Envoy's rate-limit service, health
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8423",
        env = "PLIMSOLL_GRPC"
    )]
    grpc: Port,
    /// The address for operators: /healthz, /readyz, /metrics, /limits
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8422",
        env = "PLIMSOLL_ADMIN"
    )]
    admin: Port,
    #[command(flatten)]
    envoy: Envoy,
    /// The token that clients must send (Bearer over HTTP, AUTH over RESP)
    #[arg(long, env = "PLIMSOLL_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Saves the states of limits in memory in this directory, so that a restart is not a free burst (`serve.state_dir` in a file)
    #[arg(long, value_name = "DIR", env = "PLIMSOLL_STATE")]
    state: Option<PathBuf>,
    /// The interval at which states are saved, besides at the end: a crash loses the usage since then (`serve.state_every`) [default: 30s]
    #[arg(
        long,
        value_name = "TIME",
        value_parser = duration,
        env = "PLIMSOLL_STATE_EVERY"
    )]
    state_every: Option<Duration>,
    /// The age, give or take ten per cent, at which a gRPC connection is closed gracefully, so that proxies spread over servers that
    /// were added (`serve.grpc_age`) [default: 24h]
    #[arg(
        long,
        value_name = "TIME",
        value_parser = duration,
        env = "PLIMSOLL_GRPC_AGE"
    )]
    grpc_age: Option<Duration>,
    /// Sends a span of each decision to this collector over OTLP (http/protobuf); without an address to that of
    /// `OTEL_EXPORTER_OTLP_ENDPOINT`, or to `http://localhost:4318`. The other variables `OTEL_*` are honoured
    #[arg(
        long,
        value_name = "ENDPOINT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        env = "PLIMSOLL_OTLP"
    )]
    otlp: Option<String>,
    #[command(flatten)]
    process: Process,
}

const AFTER: &str = "\
Signals:
  SIGHUP            reads the file again. What was used stays used; a file that is wrong changes nothing
  SIGTERM, SIGINT   ends in order: not ready any more, nothing new accepted, who waits is answered, what is under
                    way ends, states are written

Exit status:
  0   it ended in order
  1   it cannot serve: a port is taken, the directory for states cannot be used
  2   the arguments or the file are wrong; each mistake is a line with its place

systemd:
  It says when it is ready, reads its file again and stops, and answers the watchdog (Type=notify). Sockets that a
  unit passes on are used by their names: FileDescriptorName=http, resp, grpc or admin.

Examples:
  plimsoll serve
  plimsoll serve limits.yaml --state /var/lib/plimsoll
  plimsoll serve limits.yaml --otlp=http://127.0.0.1:4318
  PLIMSOLL_TOKEN=… plimsoll serve limits.yaml --http 0.0.0.0:8420 --resp off";

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
    /// Several files may describe one domain (`MERGE_DOMAIN_CONFIG` of the reference server)
    #[arg(long = "envoy-merge", env = "PLIMSOLL_ENVOY_MERGE")]
    merge: bool,
    /// Refuse nothing, only count (`SHADOW_MODE` of the reference server)
    #[arg(long = "envoy-shadow", env = "PLIMSOLL_ENVOY_SHADOW")]
    shadow: bool,
    /// Of all limits of a request one is enough (`QUOTA_MODE` of the reference server)
    #[arg(long = "envoy-quota", env = "PLIMSOLL_ENVOY_QUOTA")]
    quota: bool,
    /// Serve /json and /healthcheck, /rlconfig and /stats on the admin port, and its statistics and header fields too
    #[arg(long = "envoy-compat", env = "PLIMSOLL_ENVOY_COMPAT")]
    compat: bool,
    /// A Redis in which a fleet counts together, such as `redis://127.0.0.1:6379`
    #[arg(
        long = "envoy-store",
        value_name = "URL",
        env = "PLIMSOLL_ENVOY_STORE",
        hide_env_values = true
    )]
    store: Option<String>,
    /// The number of seconds after which a slot is freed that a descriptor has not returned with negative hits
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
    log(args.process.log);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(serve(args, out, err))
}

async fn serve(args: Args, out: &mut impl Write, err: &mut impl Write) -> io::Result<ExitCode> {
    let mut settings = Settings::default();
    settings.file = args.file.clone();
    settings.http = args.http.address();
    settings.resp = args.resp.address();
    settings.grpc = args.grpc.address();
    settings.admin = args.admin.address();
    settings.envoy = args.envoy.into();
    settings.token = args.token;
    settings.admin_token = args.process.admin_token;
    settings.state_dir = args.state;
    settings.state_every = args.state_every;
    settings.grpc_age = args.grpc_age;
    settings.otlp = args.otlp;
    settings.drain = args.process.drain;
    let signals = Signals::new()?;
    let server = match Server::start(settings).await {
        Ok(server) => server,
        Err(StartError::Config(error)) => {
            for line in error.lines() {
                writeln!(err, "{line}")?;
            }
            return Ok(ExitCode::from(2));
        }
        Err(error) => {
            writeln!(err, "plimsoll: {error}")?;
            let of_arguments = matches!(error, StartError::OpenAdmin(_) | StartError::Otlp(_));
            return Ok(ExitCode::from(if of_arguments { 2 } else { 1 }));
        }
    };
    greet(&server, args.file.is_none(), out)?;
    if let Some(file) = args.file.filter(|_| {
        server
            .limits()
            .limiters()
            .current()
            .config()
            .gateway()
            .is_some()
    }) {
        let file = file.display();
        writeln!(
            out,
            "The file has a `gateway`, which another process is for: plimsoll gateway {file}"
        )?;
        out.flush()?;
    }
    server.run(signals.next()).await;
    Ok(ExitCode::SUCCESS)
}

/// Describes a limit in words. `fields` are its fields in the file, `most` is the maximum that it grants at once.
fn promise(most: u64, fields: &Value) -> String {
    let amount = |name: &str| fields[name].as_u64();
    let span = |name: &str| {
        Some(match fields[name].as_str()? {
            "1s" => "a second".to_owned(),
            "1m" => "a minute".to_owned(),
            "1h" => "an hour".to_owned(),
            "1d" | "24h" => "a day".to_owned(),
            span => format!("in {span}"),
        })
    };
    if let (Some(refill), Some(every)) = (amount("refill"), span("every")) {
        return match most == refill {
            true => format!("{refill} {every}"),
            false => format!("{refill} {every}, at most {most} at once"),
        };
    }
    match (amount("limit"), span("window"), fields["rate"].as_f64()) {
        (Some(limit), Some(window), _) => format!("{limit} {window}"),
        (_, _, Some(rate)) => format!("{rate} a second"),
        _ => format!("at most {most} at once"),
    }
}

/// Maximum number of limits that are listed.
const NAMED: usize = 20;

/// Prints the limits, the addresses and commands to try.
fn greet(server: &Server, is_default: bool, out: &mut impl Write) -> io::Result<()> {
    let [http, resp, grpc, admin] = server.addresses();
    let limits = server.limits().snapshot();
    let config = server.limits().limiters().current().config().to_json();
    let config: Value = serde_json::from_str(&config).unwrap_or_default();
    let named = |it: &LimitView| {
        let fields = &config["limits"][&it.name];
        format!("{} ({})", it.name, promise(it.snapshot.limit(), fields))
    };
    let names: Vec<String> = limits.iter().take(NAMED).map(named).collect();
    let more = match limits.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let which = if is_default {
        ", the default ones in memory, since no file was given"
    } else {
        ""
    };
    writeln!(out, "limits: {}{more}{which}", names.join(", "))?;
    for (port, address) in [
        ("HTTP  http", http),
        ("RESP  redis", resp),
        ("gRPC  grpc", grpc),
        ("admin http", admin),
    ] {
        if let Some(address) = address {
            writeln!(out, "{port}://{address}")?;
        }
    }
    writeln!(out, "try:")?;
    let rate = limits.iter().find(|it| it.kind == Some(LimiterKind::Rate));
    if let (Some(http), Some(rate)) = (http, rate) {
        let ask = format!(r#"{{"limit":"{}","key":"anna"}}"#, rate.name);
        writeln!(
            out,
            "  curl -i http://{http}/v1/check -H 'content-type: application/json' -d '{ask}'"
        )?;
    }
    if let Some(resp) = resp {
        let (host, port) = (resp.ip(), resp.port());
        writeln!(
            out,
            "  redis-cli -h {host} -p {port} CL.THROTTLE anna 4 10 60"
        )?;
    }
    if let Some(admin) = admin {
        writeln!(out, "  curl http://{admin}/metrics")?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use plimsoll_config::{Config, Format};

    use super::*;

    #[test]
    fn each_kind_says_what_it_promises() {
        let text = "limits:
  even: 100/s
  bursts: { rate: 10/min, burst: 20 }
  minutes: { kind: token_bucket, refill: 10, burst: 10, every: 5m }
  log: { kind: sliding_log, limit: 5, window: 10m }
  window: { kind: fixed_window, limit: 7, window: 1d }
  paced: { kind: smooth_bursty, rate: 2.5 }
  slots: { concurrency: 3 }
  learned: { kind: adaptive, algorithm: verdict, initial: 4 }
";
        let config = Config::from_str("limits.yaml", text, Format::Yaml).expect("a file");
        let config: Value = serde_json::from_str(&config.to_json()).expect("JSON");
        let most = [
            ("even", 100),
            ("bursts", 20),
            ("minutes", 10),
            ("log", 5),
            ("window", 7),
            ("paced", 2),
            ("slots", 3),
            ("learned", 4),
        ];
        let said = most.map(|(limit, most)| promise(most, &config["limits"][limit]));
        assert_eq!(
            said,
            [
                "100 a second",
                "10 a minute, at most 20 at once",
                "10 in 5m",
                "5 in 10m",
                "7 a day",
                "2.5 a second",
                "at most 3 at once",
                "at most 4 at once",
            ]
        );
    }
}
