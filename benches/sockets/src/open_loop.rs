//! An open loop: requests are sent at their times, whatever became of those before them.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};

/// Who has no answer by then has left.
const PATIENCE: Duration = Duration::from_secs(1);

/// What became of a request.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// Of the request, from 0 on.
    pub number: u64,
    /// When it was to be sent, from the start.
    pub at: Duration,
    /// How long after that there was an answer.
    pub latency: Duration,
    /// `None` where nothing was answered in time, or nothing at all.
    pub status: Option<u16>,
}

type Idle = Arc<Mutex<Vec<BufReader<TcpStream>>>>;

/// Sends so many requests a second. `field` is a line of the header for the request of that number, or empty.
pub async fn open_loop(
    to: SocketAddr,
    per_second: u64,
    time: Duration,
    field: fn(u64) -> &'static str,
) -> Vec<Answer> {
    let idle = Idle::default();
    let start = Instant::now();
    let mut sent = JoinSet::new();
    for number in 0..per_second * time.as_secs() {
        let at = Duration::from_nanos(number * 1_000_000_000 / per_second);
        let due = start + at;
        sleep_until(due).await;
        let idle = Arc::clone(&idle);
        sent.spawn(async move {
            let answer = timeout_at(due + PATIENCE, exchange(to, field(number), &idle)).await;
            Answer {
                number,
                at,
                latency: due.elapsed(),
                status: answer.ok().and_then(Result::ok),
            }
        });
    }
    sent.join_all().await
}

/// The status of the answer. A connection on which something fails is not used again.
async fn exchange(to: SocketAddr, field: &str, idle: &Idle) -> io::Result<u16> {
    let kept = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let mut stream = match kept {
        Some(stream) => stream,
        None => {
            let stream = TcpStream::connect(to).await?;
            stream.set_nodelay(true)?;
            BufReader::new(stream)
        }
    };
    let request = format!("GET / HTTP/1.1\r\nhost: {to}\r\n{field}\r\n");
    stream.write_all(request.as_bytes()).await?;
    let (mut line, mut status, mut length, mut closes) = (String::new(), 0, 0, false);
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let text = line.trim_end().to_ascii_lowercase();
        if text.is_empty() {
            break;
        }
        if let Some(rest) = text.strip_prefix("http/1.1 ") {
            status = rest.get(..3).and_then(|it| it.parse().ok()).unwrap_or(0);
        } else if let Some(rest) = text.strip_prefix("content-length:") {
            length = rest.trim().parse().map_err(io::Error::other)?;
        }
        closes |= text == "connection: close";
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    if !closes {
        let mut idle = idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(stream);
    }
    Ok(status)
}
