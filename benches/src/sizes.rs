//! How large limiters and their wait futures are.

use std::mem::size_of_val;
use std::num::NonZeroU32;

use plimsoll::{Concurrency, Gate, Queue, TokenBucket};
use tokio::sync::Semaphore;

use crate::counting::allocated;
use crate::report::Table;

const OURS: &str = "**plimsoll TokenBucket, with a queue**";

pub(crate) struct Sizes(Vec<Size>);

struct Size {
    name: &'static str,
    /// Bytes of the limiter, in place and allocated.
    memory: usize,
    /// Bytes of the future that waits.
    future: usize,
}

pub(crate) fn measure() -> Sizes {
    let bucket = || Gate::builder(TokenBucket::per_second(100)).queue(Queue::fifo(100));
    let quota = governor::Quota::per_second(NonZeroU32::MIN);
    Sizes(vec![
        size(
            OURS,
            || bucket().build(),
            |gate| size_of_val(&gate.acquire(1)),
        ),
        size(
            "**plimsoll TokenBucket, no totals**",
            || bucket().totals(false).build(),
            |gate| size_of_val(&gate.acquire(1)),
        ),
        size(
            "**plimsoll Concurrency, no totals**",
            || Gate::builder(Concurrency::new(10)).totals(false).build(),
            |gate| size_of_val(&gate.acquire(1)),
        ),
        size(
            "governor",
            || governor::RateLimiter::direct(quota),
            |limiter| size_of_val(&limiter.until_ready()),
        ),
        size(
            "leaky-bucket",
            || leaky_bucket::RateLimiter::builder().build(),
            |limiter| size_of_val(&limiter.acquire(1)),
        ),
        size(
            "rate-net",
            || rate_net::DirectLimiter::per_second(100),
            |limiter| size_of_val(&limiter.try_until_ready()),
        ),
        size(
            "throttle-net",
            || throttle_net::Throttle::per_second(100),
            |limiter| size_of_val(&limiter.acquire()),
        ),
        size(
            "async-rate-limiter",
            || async_rate_limiter::RateLimiter::new(100),
            |limiter| size_of_val(&limiter.acquire()),
        ),
        size(
            "tokio Semaphore",
            || Semaphore::new(10),
            |semaphore| size_of_val(&semaphore.acquire()),
        ),
    ])
}

fn size<L>(name: &'static str, make: impl Fn() -> L, future: impl Fn(&L) -> usize) -> Size {
    // The first of its kind may set up what all share.
    drop(make());
    let (limiter, allocated) = allocated(make);
    Size {
        name,
        memory: size_of_val(&limiter) + allocated,
        future: future(&limiter),
    }
}

impl Sizes {
    pub(crate) fn our_future(&self) -> usize {
        let ours = self.0.iter().find(|size| size.name == OURS);
        ours.map_or(0, |size| size.future)
    }

    pub(crate) fn markdown(&self) -> String {
        let mut table = Table::new(&["", "wait future", "limiter"]);
        for size in &self.0 {
            let future = format!("{}", size.future);
            let memory = format!("{}", size.memory);
            table.rows.push(vec![size.name.to_owned(), future, memory]);
        }
        let text = "A limiter with all it allocates when it is built.";
        format!("### Sizes in bytes\n\n{text}\n\n{}", table.markdown())
    }
}
