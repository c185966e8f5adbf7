//! `plimsoll demo`: an overloaded server, without limits and with them.

use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use plimsoll_demo::{Class, Demo, Event, Settings};

use crate::process::{Log, Signals, log};

/// Shows an overloaded server without limits and with them, in two minutes
///
/// A sample server, clients of three priorities, one caller that asks for far too much, and a loss of three quarters of the server, all in this
/// process: first with every limit in shadow mode, so that nothing is refused, then with the same limits enforced. The live page of the gateway
/// shows it as it happens; at the end there is a report of what clients saw. It needs no network and leaves nothing behind. Ctrl-C ends it with
/// the report so far.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The duration of both runs together, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(4..=3600))]
    seconds: u64,
    /// Draws the report into this file, as SVG that needs nothing else
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Opens the live page in the browser of this machine
    #[arg(long)]
    open: bool,
    /// The address of the live page: 127.0.0.1:8422, or another port if that is taken, unless set
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<SocketAddr>,
}

pub(crate) fn run(args: &Args, out: &mut impl Write, err: &mut impl Write) -> io::Result<ExitCode> {
    // Logs only if requested: most requests of the demo fail on purpose.
    if std::env::var_os("PLIMSOLL_LOG").is_some() {
        log(Log::Text);
    }
    // Fails before the run and not after two minutes.
    if let Some(file) = &args.report
        && let Some(parent) = file.parent()
        && !(parent.as_os_str().is_empty() || parent.is_dir())
    {
        writeln!(
            err,
            "plimsoll: --report: there is no directory {}",
            parent.display()
        )?;
        return Ok(ExitCode::from(2));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(show(args, out, err))
}

async fn show(args: &Args, out: &mut impl Write, err: &mut impl Write) -> io::Result<ExitCode> {
    let mut settings = Settings::default();
    settings.length = Duration::from_secs(args.seconds);
    settings.admin = args.admin;
    let signals = Signals::new()?;
    let demo = match Demo::start(&settings).await {
        Ok(demo) => demo,
        Err(error) => {
            writeln!(err, "plimsoll: {error}")?;
            return Ok(ExitCode::from(1));
        }
    };
    let page = demo.page();
    writeln!(out, "page    {page}")?;
    writeln!(out, "limits  {}", demo.file().display())?;
    out.flush()?;
    if args.open {
        open(&page, err)?;
    }
    let mut written = Ok(());
    let mut screen = Screen::new();
    let tell = |event: Event| {
        if written.is_ok() {
            written = screen.print(&event, out);
        }
    };
    let report = demo.run(signals.next(), tell).await;
    written?;
    match report {
        Ok(report) => {
            writeln!(out, "\n{report}")?;
            if let Some(file) = &args.report {
                let drawn = std::fs::write(file, report.to_svg());
                drawn.map_err(|error| {
                    io::Error::new(error.kind(), format!("{}: {error}", file.display()))
                })?;
                writeln!(out, "\nreport  {}", file.display())?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            writeln!(err, "plimsoll: {error}")?;
            Ok(ExitCode::from(1))
        }
    }
}

/// Opens the page with the desktop's browser. If there is none, the address has been printed.
fn open(page: &str, err: &mut impl Write) -> io::Result<()> {
    let program = match std::env::consts::OS {
        "macos" => "open",
        "windows" => "explorer",
        _ => "xdg-open",
    };
    let opened = Command::new(program)
        .arg(page)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match opened {
        Ok(_) => Ok(()),
        Err(error) => writeln!(
            err,
            "plimsoll: {program} does not start ({error}): open {page} yourself"
        ),
    }
}

/// Prints a line for each stage, and on a terminal a status line that is updated between them.
struct Screen {
    moves: bool,
}

impl Screen {
    fn new() -> Self {
        Self {
            moves: io::stdout().is_terminal(),
        }
    }

    fn print(&mut self, event: &Event, out: &mut impl Write) -> io::Result<()> {
        let clear = if self.moves { "\r\x1b[K" } else { "" };
        match event {
            Event::Begins(phase) => writeln!(out, "{clear}\n{}:", phase.as_str())?,
            Event::Stage(stage, at) => {
                writeln!(
                    out,
                    "{clear}{:>5.0} s  {}",
                    at.as_secs_f64(),
                    stage.phrase()
                )?;
            }
            Event::Sums(sums) if self.moves => {
                let good = sums.iter().map(|(class, sums)| {
                    let part = (sums.good * 100).checked_div(sums.sent).unwrap_or(100);
                    format!("{} {part}%", class.as_str())
                });
                let good: Vec<String> = good
                    .filter(|it| !it.starts_with(Class::Abuser.as_str()))
                    .collect();
                write!(
                    out,
                    "{clear}         answered in time: {}",
                    good.join("   ")
                )?;
            }
            _ => {}
        }
        out.flush()
    }
}
