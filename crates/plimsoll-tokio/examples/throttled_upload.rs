//! Run with `cargo run -p plimsoll-tokio --example throttled_upload`.
//!
//! Several uploads through one budget, each with a limit of its own beside it. Uploads whose programs write in small and
//! in large pieces get the same share.

#![expect(clippy::print_stdout, reason = "an example that shows what it does")]

use std::io;

use plimsoll::{Clock, Gate, Queue, TokenBucket};
use plimsoll_tokio::{Budget, Throttled};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A budget of so many bytes per second, of which a hundredth of a second's worth may be saved up.
pub(crate) fn budget(bytes_per_second: u64, clock: &Clock) -> Budget {
    let bucket = TokenBucket::per_second(bytes_per_second);
    let gate = Gate::builder(bucket.burst((bytes_per_second / 100).max(1)))
        .queue(Queue::fifo(u64::MAX))
        .clock(clock.clone())
        .build();
    Budget::new(gate).quantum(1000)
}

/// Uploads `size` bytes in pieces, as fast as its own budget and that of all uploads allow.
pub(crate) async fn upload<T: AsyncWrite + Unpin>(
    to: T,
    size: usize,
    piece: usize,
    own: &Budget,
    all: &Budget,
) -> io::Result<()> {
    // Its own first: while it waits for all the others, only its own is held.
    let mut to = Throttled::new(to).writes(own).writes(all);
    let piece = vec![0; piece.max(1)];
    let mut left = size;
    while left > 0 {
        let count = left.min(piece.len());
        to.write_all(&piece[..count]).await?;
        left -= count;
    }
    to.shutdown().await
}

/// Accepts so many uploads, and tells how large each was.
pub(crate) async fn receive(listener: TcpListener, uploads: usize) -> io::Result<Vec<u64>> {
    let mut tasks = JoinSet::new();
    for _ in 0..uploads {
        let (mut from, _) = listener.accept().await?;
        tasks.spawn(async move {
            let (mut buffer, mut sum) = (vec![0; 4096], 0);
            loop {
                match from.read(&mut buffer).await? {
                    0 => return io::Result::Ok(sum),
                    count => sum += count as u64,
                }
            }
        });
    }
    tasks.join_all().await.into_iter().collect()
}

/// Three uploads of 100 kB, in pieces of three sizes; how much of each was received.
pub(crate) async fn run(clock: Clock) -> io::Result<Vec<u64>> {
    let all = budget(1_000_000, &clock);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let pieces = [10, 1000, 100_000];
    let server = tokio::spawn(receive(listener, pieces.len()));
    let start = clock.precise_now();
    let mut uploads = JoinSet::new();
    for piece in pieces {
        let (all, clock) = (all.clone(), clock.clone());
        uploads.spawn(async move {
            let own = budget(500_000, &clock);
            let to = TcpStream::connect(address).await?;
            upload(to, 100_000, piece, &own, &all).await?;
            let took = clock.precise_now().since(start);
            println!("in pieces of {piece:6}: 100 kB after {took:.1?}");
            io::Result::Ok(())
        });
    }
    for upload in uploads.join_all().await {
        upload?;
    }
    server.await?
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> io::Result<()> {
    println!("received: {:?}", run(Clock::system()).await?);
    Ok(())
}
