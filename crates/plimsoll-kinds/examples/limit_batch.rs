//! Limits a batch by the number of its items and by their bytes, before anything is unpacked.
//!
//! The header says how large a batch will be in memory, so that can be asked for before it is. How many items there
//! are is a rate; the memory they take is held until the batch has been used.
//!
//! Run: `cargo run -p plimsoll-kinds --example limit_batch`

#![expect(clippy::print_stdout, reason = "an example that shows what it does")]

use std::error::Error;
use std::time::Duration;

use plimsoll::{Clock, Concurrency, Gate, InvalidLimit, Queue, Quota, TokenBucket};
use plimsoll_kinds::{Demands, Provider, Weight};

/// What is known of a batch before it is unpacked.
pub(crate) struct Packed {
    pub(crate) items: u64,
    pub(crate) bytes: u64,
}

/// 100 items a second, for which others may wait, and 64 KiB of them at once.
pub(crate) fn limits(clock: &Clock) -> Result<Provider, InvalidLimit> {
    let items = Gate::builder(TokenBucket::greedy(Quota::per_second(100)))
        .name("items")
        .queue(Queue::fifo(100))
        .clock(clock.clone());
    let memory = Gate::builder(Concurrency::new(64 * 1024))
        .name("memory")
        .clock(clock.clone());
    Provider::builder()
        .limit(Weight::REQUEST_ITEMS, items.build())
        .limit(Weight::MEMORY_SIZE, memory.build())
        .build()
}

/// Unpacks and uses a batch if there is room for it: for all of it, or it is left as it is.
pub(crate) fn consume<T>(
    limits: &Provider,
    batch: &Packed,
    work: impl FnOnce(Vec<u8>) -> Result<T, Box<dyn Error>>,
) -> Result<T, Box<dyn Error>> {
    let costs = [
        (Weight::REQUEST_ITEMS, batch.items),
        (Weight::MEMORY_SIZE, batch.bytes),
    ];
    let demands = Demands::of(&costs).within(Duration::from_millis(100));
    limits.limit_call(demands, || {
        work(vec![0; usize::try_from(batch.bytes).unwrap_or(usize::MAX)])
    })
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let limits = limits(&Clock::system())?;
    let batches = [(60, 40_000), (10, 70_000), (45, 1000), (40, 1000)];
    for (items, bytes) in batches {
        let used = consume(&limits, &Packed { items, bytes }, |unpacked| {
            Ok(unpacked.len())
        });
        match used {
            Ok(len) => println!("{items} items, {len} bytes: used"),
            Err(refused) => println!("{items} items, {bytes} bytes: {refused}"),
        }
    }
    Ok(())
}
