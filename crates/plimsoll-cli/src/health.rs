//! `plimsoll health`: checks whether a server is ready, for images without a shell.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

/// Timeout of the request.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum length of a response.
const MAX_RESPONSE: u64 = 4096;

/// Asks a server whether it is ready
///
/// Ends with 0 if it is, with 1 if it is not or does not answer within two seconds. For the health check of a container: it needs
/// neither a shell nor curl.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The admin port of the server
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8422",
        env = "PLIMSOLL_ADMIN"
    )]
    admin: SocketAddr,
}

pub(crate) fn run(args: &Args, out: &mut impl Write, err: &mut impl Write) -> io::Result<ExitCode> {
    match ask(args.admin) {
        Ok(answer) if is_ready(&answer) => {
            writeln!(out, "ready")?;
            Ok(ExitCode::SUCCESS)
        }
        Ok(answer) => {
            let line = answer.lines().next().unwrap_or("nothing");
            writeln!(err, "plimsoll: {} is not ready: {line}", args.admin)?;
            Ok(ExitCode::from(1))
        }
        Err(error) => {
            writeln!(err, "plimsoll: {} does not answer: {error}", args.admin)?;
            Ok(ExitCode::from(1))
        }
    }
}

fn ask(admin: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&admin, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    write!(
        stream,
        "GET /readyz HTTP/1.1\r\nhost: {admin}\r\nconnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.take(MAX_RESPONSE).read_to_string(&mut answer)?;
    Ok(answer)
}

fn is_ready(answer: &str) -> bool {
    let mut words = answer.split(' ');
    words.next().is_some_and(|it| it.starts_with("HTTP/1")) && words.next() == Some("200")
}
