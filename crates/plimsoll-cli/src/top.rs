//! `plimsoll top`: shows the state of limits in a terminal.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use plimsoll_top::{Endpoint, is_coloured, plain, run as show};

/// Shows limits as they stand, in a terminal
///
/// Every limit of a server or gateway with its number, use, queue and refusals, each second; what an adaptive limit has learned; the keys
/// that come most often, masked; upstreams, proxies that share limits, and the last reload. `?` shows the keys. It changes nothing.
///
/// The server is that of this machine unless another is named; by ssh: `ssh -t HOST plimsoll top`.
#[derive(clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct Args {
    /// The admin port of the server or gateway
    #[arg(
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8422",
        env = "PLIMSOLL_ADMIN"
    )]
    address: Endpoint,
    /// The token of the admin port, where it has one
    #[arg(long, env = "PLIMSOLL_ADMIN_TOKEN", hide_env_values = true)]
    admin_token: Option<String>,
    /// Prints a plain table and ends: one limit a line, for scripts and pipes
    #[arg(long)]
    once: bool,
}

const AFTER: &str = "\
Colours are those of the terminal; there are none where NO_COLOR is set.

Exit status:
  0   the user quit, or the table was printed
  1   the server does not answer (--once)
  2   the arguments are wrong, or there is no terminal

Examples:
  plimsoll top
  plimsoll top --once | awk 'NR > 1 && $10 > 0 { print $1, $12 }'    # limits that refused, and why";

pub(crate) fn run(args: Args, out: &mut impl Write, err: &mut impl Write) -> io::Result<ExitCode> {
    let endpoint = args.address.token(args.admin_token);
    if args.once {
        return match endpoint.once() {
            Ok(tick) => {
                write!(out, "{}", plain(&tick))?;
                Ok(ExitCode::SUCCESS)
            }
            Err(error) => {
                writeln!(err, "plimsoll: {endpoint}: {error}")?;
                Ok(ExitCode::from(1))
            }
        };
    }
    if !io::stdout().is_terminal() {
        writeln!(
            err,
            "plimsoll: the output is not a terminal: expected one, or --once for a plain table"
        )?;
        return Ok(ExitCode::from(2));
    }
    show(endpoint, is_coloured())?;
    Ok(ExitCode::SUCCESS)
}
