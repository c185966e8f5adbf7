//! A server with a pool of workers, and a queue before them that has no bound.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    slower: Arc<AtomicU32>,
    accepting: JoinHandle<()>,
}

impl Upstream {
    pub(crate) async fn start(workers: usize, work: Duration) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let slower = Arc::new(AtomicU32::new(1));
        let (pool, factor) = (Arc::new(Semaphore::new(workers)), Arc::clone(&slower));
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (pool, factor) = (Arc::clone(&pool), Arc::clone(&factor));
                tokio::spawn(async move {
                    let _ = serve(stream, &pool, &factor, work).await;
                });
            }
        });
        Ok(Self {
            address,
            slower,
            accepting,
        })
    }

    /// From a third of `all` to two thirds, work takes so many times as long.
    pub(crate) async fn slow_in_the_middle(&self, all: Duration, times: u32) {
        tokio::time::sleep(all / 3).await;
        self.slower.store(times, Ordering::Relaxed);
        tokio::time::sleep(all / 3).await;
        self.slower.store(1, Ordering::Relaxed);
        tokio::time::sleep(all / 3).await;
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Requests of one connection, one after the other. Work that was begun is done, whether somebody still waits for it or not.
async fn serve(
    stream: TcpStream,
    pool: &Arc<Semaphore>,
    slower: &Arc<AtomicU32>,
    work: Duration,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        if line != "\r\n" {
            continue;
        }
        let (pool, slower) = (Arc::clone(pool), Arc::clone(slower));
        let done = tokio::spawn(async move {
            if let Ok(_worker) = pool.acquire().await {
                tokio::time::sleep(work * slower.load(Ordering::Relaxed)).await;
            }
        });
        let _ = done.await;
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok\n";
        stream.write_all(answer).await?;
    }
}
