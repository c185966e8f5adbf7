//! Receives a stream: waits for the limit before the next frame is read, and works on frames meanwhile.
//!
//! The thread that reads waits synchronously. While it does, nothing is read, the sender's window fills up, and the
//! sender slows down. The work runs elsewhere and holds the memory of its frame until it is done.
//!
//! Run: `cargo run -p plimsoll-kinds --example stream_receiver`

#![expect(clippy::print_stdout, reason = "an example that shows what it does")]

use std::error::Error;
use std::future::Future;
use std::time::Duration;

use plimsoll::{Concurrency, Demand, Denied, Gate, LimiterExt, Outcome, Queue};
use plimsoll_kinds::Resource;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// One message of the stream.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Frame(pub(crate) Vec<u8>);

/// Works on all frames of a stream, with no more in memory than the limit allows. Blocks the thread that calls it.
pub(crate) fn receive<W: Future<Output = bool> + Send + 'static>(
    frames: impl IntoIterator<Item = Frame>,
    memory: &Resource,
    patience: Duration,
    runtime: &Runtime,
    work: impl Fn(Frame) -> W,
) -> Result<Vec<JoinHandle<()>>, Denied> {
    let mut tasks = Vec::new();
    for frame in frames {
        // Not even worth waiting when there is no room left to wait in.
        memory.check_saturation()?;
        let size = u64::try_from(frame.0.len()).unwrap_or(u64::MAX);
        let permit = memory.acquire_blocking(Demand::of(size).within(patience))?;
        let permit = permit.into_owned();
        let working = work(frame);
        tasks.push(runtime.spawn(async move {
            let outcome = if working.await {
                Outcome::Success
            } else {
                Outcome::Ignore
            };
            // Given back here; and if the work panics or the task is aborted, too.
            permit.finish(outcome);
        }));
    }
    Ok(tasks)
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::new()?;
    let gate = Gate::builder(Concurrency::new(1000)).queue(Queue::fifo(1000));
    let memory = Resource::from(gate.name("memory").build());
    let frames = (1..=9).map(|number| Frame(vec![number; 400]));
    let done = receive(
        frames,
        &memory,
        Duration::from_secs(10),
        &runtime,
        |frame| async move {
            tokio::task::yield_now().await;
            println!("frame {}: {} bytes", frame.0[0], frame.0.len());
            true
        },
    )?;
    for task in done {
        runtime.block_on(task)?;
    }
    println!("{} bytes in use", memory.snapshot().in_use());
    Ok(())
}
