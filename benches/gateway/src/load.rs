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
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

pub(crate) struct Load {
    per_second: u64,
    time: Duration,
}

/// What became of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) is_important: bool,
    /// When it was to be sent, from the start.
    pub(crate) at: Duration,
    /// How long after that there was an answer.
    pub(crate) latency: Duration,
    pub(crate) came: Came,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// The answer of the server, in time.
    Served,
    /// A refusal.
    Refused,
    /// None in time, or none at all.
    Nothing,
}

type Idle = Arc<Mutex<Vec<BufReader<TcpStream>>>>;

impl Load {
    pub(crate) const fn new(per_second: u64, time: Duration) -> Self {
        Self { per_second, time }
    }

    pub(crate) async fn run(&self, to: SocketAddr) -> Vec<Answer> {
        let idle = Idle::default();
        let start = Instant::now();
        let all = self.per_second * self.time.as_secs();
        let mut sent = JoinSet::new();
        for number in 0..all {
            let at = Duration::from_nanos(number * 1_000_000_000 / self.per_second);
            sleep_until(start + at).await;
            let (idle, due) = (Arc::clone(&idle), start + at);
            // Spread over each ten, and not in step with anything.
            let is_important = (number * 7 + number / 10) % 10 == 0;
            sent.spawn(async move {
                let exchange = timeout_at(due + PATIENCE, exchange(to, is_important, &idle));
                let came = match exchange.await {
                    Ok(Ok(200)) => Came::Served,
                    Ok(Ok(_)) => Came::Refused,
                    Ok(Err(_)) | Err(_) => Came::Nothing,
                };
                let latency = due.elapsed();
                Answer {
                    is_important,
                    at,
                    latency,
                    came,
                }
            });
        }
        sent.join_all().await
    }
}

/// The status of the answer. A connection on which something fails is not used again.
async fn exchange(to: SocketAddr, is_important: bool, idle: &Idle) -> io::Result<u16> {
    let kept = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let mut stream = match kept {
        Some(stream) => stream,
        None => {
            let stream = TcpStream::connect(to).await?;
            stream.set_nodelay(true)?;
            BufReader::new(stream)
        }
    };
    let priority = if is_important {
        "critical"
    } else {
        "non-critical"
    };
    let request = format!("GET / HTTP/1.1\r\nhost: {to}\r\nx-priority: {priority}\r\n\r\n");
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
