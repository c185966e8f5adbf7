//! nginx's leaky bucket, in its own terms.

use crate::{Gate, GateBuilder, Queue, Quota, TokenBucket};

/// The limit of nginx's `limit_req`: a rate, a burst, and the part of the burst that is not delayed.
///
/// nginx describes a leaky bucket: requests above the rate are delayed until their turn comes, up to a burst; further
/// ones are refused. Here a [`TokenBucket`] limits the requests that pass at once and a [`Queue`] holds the delayed
/// ones:
///
/// | nginx | here | the bucket holds | may wait |
/// |---|---|--:|--:|
/// | `rate=10r/s` | `LimitReq::per_second(10)` | 1 | 0 |
/// | `rate=10r/s`, `burst=20` | `.burst(20)` | 1 | 20 |
/// | `burst=20 nodelay` | `.burst(20).nodelay()` | 21 | 0 |
/// | `burst=20 delay=8` | `.burst(20).delay(8)` | 9 | 12 |
/// | `rate=30r/m` | `LimitReq::new(Quota::new(30, minute))` | | |
///
/// ```
/// use plimsoll::{Keyed, LimitReq};
///
/// // limit_req zone=api burst=20 delay=8;
/// let api = LimitReq::per_second(10).burst(20).delay(8);
/// let gate = api.gate().name("api").build();
/// assert_eq!(gate.snapshot().limit(), 9);
/// assert_eq!(gate.snapshot().queue_bound(), 12);
///
/// // limit_req_zone $binary_remote_addr …: one bucket for each key.
/// let per_address: Keyed<u32, _> = Keyed::builder(api.bucket()).queue(api.queue()).build();
/// assert!(per_address.try_acquire(&7, 1).is_ok());
/// ```
///
/// [`acquire`](Gate::acquire) delays requests as nginx does; [`try_acquire`](Gate::try_acquire) refuses requests that
/// nginx would delay. nginx counts in thousandths of a request and in milliseconds; this limiter is exact.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct LimitReq {
    rate: Quota,
    burst: u64,
    /// The part of the burst that passes at once.
    at_once: u64,
}

impl LimitReq {
    /// Creates a limit of this rate, evenly spaced, without a burst. Only the rate counts: 60 a minute is 1 a second.
    pub const fn new(rate: Quota) -> Self {
        Self {
            rate,
            burst: 0,
            at_once: 0,
        }
    }

    /// Creates a limit of `requests` per second, evenly spaced, without a burst.
    ///
    /// # Panics
    ///
    /// Panics if `requests` is 0.
    #[track_caller]
    pub const fn per_second(requests: u64) -> Self {
        Self::new(Quota::per_second(requests))
    }

    /// Sets the burst: this many more requests may come at once, each delayed until its turn. Default: 0.
    pub const fn burst(mut self, burst: u64) -> Self {
        self.burst = burst;
        self
    }

    /// Sets the part of the burst that is not delayed. Default: 0.
    pub const fn delay(mut self, at_once: u64) -> Self {
        self.at_once = at_once;
        self
    }

    /// Lets the whole burst pass at once.
    pub const fn nodelay(self) -> Self {
        self.delay(u64::MAX)
    }

    const fn passes_at_once(self) -> u64 {
        if self.at_once < self.burst {
            self.at_once
        } else {
            self.burst
        }
    }

    /// Returns the bucket of the requests that pass at once: one, and the part of the burst that is not delayed.
    pub const fn bucket(self) -> TokenBucket {
        TokenBucket::greedy(self.rate).burst(self.passes_at_once().saturating_add(1))
    }

    /// Returns the queue of the delayed requests: the rest of the burst.
    pub const fn queue(self) -> Queue {
        Queue::fifo(self.burst - self.passes_at_once())
    }

    /// Returns a gate builder with this bucket and this queue.
    pub fn gate(self) -> GateBuilder<TokenBucket> {
        Gate::builder(self.bucket()).queue(self.queue())
    }
}
