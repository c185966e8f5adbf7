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
pub(crate) const DEADLINE: Duration = Duration::from_secs(1);

type Idle = Arc<Mutex<Vec<BufReader<TcpStream>>>>;

/// When each answer came that came in time, from the start.
pub(crate) async fn run(to: SocketAddr, per_second: u64, time: Duration) -> Vec<Duration> {
    let idle = Idle::default();
    let start = Instant::now();
    let mut sent = JoinSet::new();
    for number in 0..per_second * time.as_secs() {
        let due = start + Duration::from_nanos(number * 1_000_000_000 / per_second);
        sleep_until(due).await;
        let idle = Arc::clone(&idle);
        sent.spawn(async move {
            let answer = timeout_at(due + DEADLINE, exchange(to, &idle)).await;
            matches!(answer, Ok(Ok(200))).then(|| start.elapsed())
        });
    }
    sent.join_all().await.into_iter().flatten().collect()
}

/// The status of the answer. A connection on which something fails is not used again.
async fn exchange(to: SocketAddr, idle: &Idle) -> io::Result<u16> {
    let kept = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let mut stream = match kept {
        Some(stream) => stream,
        None => {
            let stream = TcpStream::connect(to).await?;
            stream.set_nodelay(true)?;
            BufReader::new(stream)
        }
    };
    let request = format!("GET / HTTP/1.1\r\nhost: {to}\r\n\r\n");
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
