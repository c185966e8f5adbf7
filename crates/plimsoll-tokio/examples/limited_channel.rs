//! Run with `cargo run -p plimsoll-tokio --example limited_channel`.
//!
//! A channel bounded by bytes, not by items: readers put documents in, workers take them out, and never is more in
//! memory than the limit, counting what is being worked on.

#![expect(clippy::print_stdout, reason = "an example that shows what it does")]

use std::error::Error;

use plimsoll::{Concurrency, Gate, Outcome, Queue};
use plimsoll_tokio::channel::{Receiver, Sender, channel_with_cost};
use tokio::task::JoinSet;

/// Something that takes memory.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) name: String,
    pub(crate) text: Vec<u8>,
}

/// A channel for documents of `limit` bytes together.
pub(crate) fn documents(limit: u64) -> (Gate<Concurrency>, Sender<Document>, Receiver<Document>) {
    let memory = Gate::builder(Concurrency::new(limit))
        .queue(Queue::fifo(u64::MAX))
        .name("memory")
        .build();
    let size = |document: &Document| u64::try_from(document.text.len()).unwrap_or(u64::MAX);
    let (sender, receiver) = channel_with_cost(memory.clone(), size);
    (memory, sender, receiver)
}

/// Works on everything that comes, each in a task of its own; returns how many bytes that was.
pub(crate) async fn work(
    mut documents: Receiver<Document>,
    each: impl Fn(&Document) + Clone + Send + 'static,
) -> usize {
    let mut tasks = JoinSet::new();
    // Not `recv`: the document counts until the work is done, so there are never too many tasks either.
    while let Some(document) = documents.recv_with_permit().await {
        let each = each.clone();
        tasks.spawn(async move {
            tokio::task::yield_now().await;
            each(&document);
            document.finish(Outcome::Success).text.len()
        });
    }
    tasks.join_all().await.into_iter().sum()
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let (memory, sender, receiver) = documents(1000);
    let reads = tokio::spawn(async move {
        for number in 1..=9 {
            let name = format!("document {number}");
            let text = vec![b'.'; number * 100];
            // Waits here while there is no room. Nothing more is read meanwhile.
            sender.send(Document { name, text }).await?;
        }
        // One that can never fit is refused at once, and comes back.
        let name = "the encyclopedia".to_owned();
        let text = vec![b'.'; 1001];
        let refused = sender.send(Document { name, text }).await;
        if let Err(refused) = refused {
            println!("{refused}");
            println!("{} stays outside", refused.into_inner().name);
        }
        Ok::<(), plimsoll_tokio::channel::SendError<Document>>(())
    });
    let seen = memory.clone();
    let bytes = work(receiver, move |document| {
        let in_use = seen.snapshot().in_use();
        println!("{}, {in_use} bytes in memory", document.name);
    })
    .await;
    reads.await??;
    println!("{bytes} bytes, {} left in use", memory.snapshot().in_use());
    Ok(())
}
