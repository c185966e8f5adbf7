//! # How it works
//!
//! A server with free workers takes the same time for a piece of work, however many it has. Once all are busy, more
//! work only waits. The limit belongs just above that knee, and two numbers tell where it is: the latency
//! without a queue, and the throughput. By Little's law as much work waits as comes through in the time by which it is
//! late,
//!
//! > queue = throughput · (latency − baseline),
//!
//! and the knee is the limit less the queue. The law lets a handful wait, so that no worker ever looks for work, and keeps
//! the limit there.
//!
//! *The signal* is the lower quartile of a window's latencies. Work that waits is late as a whole, the quick half as much as
//! the slow one; and the quick half is where latencies lie close together, so it shows a given delay with the least
//! noise. Its error is known from the sample itself, and what lies within the error is not acted upon.
//!
//! *The baseline* is the hard part: a server that is always busy never shows it, and what a slow dependency adds looks like a queue.
//! So it is only believed where throughput bears witness.
//!
//! - Whenever the limit was not in the way, the latency was the server's own.
//! - If a larger limit brought as much more throughput, nothing had queued before.
//! - The *verdict*: if a smaller limit took throughput, nothing queues under it. The latency that is left is not of our
//!   making and becomes the baseline; the limit goes back to where the larger one began to queue, or beyond, to what was asked
//!   for before the limit was in the way. Before the first cut after a leap of the latency the law looks again: a window
//!   that lies across a change can be compared with nothing.
//! - The same from many small steps: over the last hundred windows or so, does throughput go with the limit ([`slope`])?
//!   If it rises with it, nothing queues. If it does not care, something does. If it *falls*, even the little that was
//!   allowed to wait is in the way, and less is allowed.
//! - If nothing of this happened for a while, a *probe* lowers the limit for a window to see what latency is left. The
//!   less news it brings, the rarer it gets. Where all that it took away had queued it goes further down.
//! - A latency that rose as the limit rose is not believed: where several limits share a server, each can take throughput
//!   from the others, and all of them together make the latency. Nor is it believed often: each time a slower server is, the next
//!   time is twice as far away, so that limits that share a server do not drift up together ([`raises`]).
//! - The *shape* of the latencies: work that waits is late by the same, work that takes longer is slower in proportion. Where the mean and the
//!   quartile both rose in proportion, *more* is tried before anything is cut.
//! - A limit that rests where what may queue is all of it learns nothing from less. There *more* is tried: if as much more comes
//!   through, and as fast, nothing had queued.
//!
//! What the quartile does not see, the mean may: where less than three quarters of the work waits, the quartile stays where it was and the
//! mean latency rises above its own baseline. Its error is larger, so it counts only where it is beyond chance and more waits than may.
//! And throughput does: if half as much again brought no more, something queues that only a part of
//! the work needs, and what is above goes. What only *looks* like overload is judged as well. If a smaller limit takes successes away and leaves the
//! share of failures, they come from elsewhere (a dependency of which nothing succeeds is not excused; when it is back, so is half of
//! the limit). Work that ends unheard, because who asked for it has left, is late too: it shows as more in flight than what is heard of
//! accounts for. A queue that has gone
//! by itself within four seconds, and left the server with little to do, was a burst: of the next one as much more is let in as the server had
//! left, up to what comes through in a second or to what was late, and nothing is cut for twice as long as the last one took. And where
//! more in flight brings less through, that is remembered as a ceiling.
//!
//! Steps are judged only where they are larger than the error of what is compared.
//!
//! After every cut as many ends are passed over as were in flight: what was let in before has waited for each other.

mod failures;
mod law;
mod probes;
mod raises;
mod slope;
mod window;

use std::fmt;
use std::time::Duration;

use self::law::Law;
use self::window::{Asks, Window};
use super::builder::{Builder, Tunable};
use super::range::Range;
use super::{Insight, Limit, Sample};
use crate::InvalidLimit;

/// Finds the limit from how much work waits behind it, and checks that the waiting is of its own making.
///
/// This is the default, and needs no tuning: latencies of microseconds or minutes, one worker or a thousand. It
/// neither takes a slow dependency for a queue nor a queue for a slow server, and does not drift when the server is
/// overloaded for long.
///
/// ```
/// use plimsoll::adaptive::{Limit, Verdict};
///
/// let verdict = Verdict::new();
/// assert_eq!(verdict.limit(), 20);
///
/// let verdict = Verdict::builder().initial(50).min(10).max(5_000).build()?;
/// assert_eq!(verdict.limit(), 50);
/// # Ok::<(), plimsoll::InvalidLimit>(())
/// ```
///
/// The head of its module explains what it does and why.
#[must_use]
#[derive(Clone)]
pub struct Verdict {
    law: Law,
    window: Window,
    /// What the law asks of a window.
    asks: Asks,
    range: Range,
    signal: Option<f64>,
    decision: &'static str,
}

impl Verdict {
    /// Starts with 20, and stays within 1 and 100,000.
    pub const fn new() -> Self {
        Self::within(Range {
            min: 1,
            initial: 20,
            max: 100_000,
        })
    }

    /// Settings, at first from 1 to 100,000, at first 20.
    pub const fn builder() -> Builder<Self> {
        Builder::new((1, 20, 100_000), ())
    }

    const fn within(range: Range) -> Self {
        let law = Law::new(range.initial as f64, range.min as f64);
        Self {
            asks: law.asks(),
            law,
            window: Window::new(),
            range,
            signal: None,
            decision: "start",
        }
    }
}

impl Tunable for Verdict {
    type Own = ();

    fn check(range: Range, (): &()) -> Result<(), InvalidLimit> {
        range.check()
    }

    fn assemble(range: Range, (): ()) -> Self {
        Self::within(range)
    }
}

impl Default for Verdict {
    fn default() -> Self {
        Self::new()
    }
}

impl Limit for Verdict {
    fn limit(&self) -> u64 {
        self.range.whole(self.law.limit())
    }

    #[inline]
    fn sample(&mut self, sample: &Sample) {
        let before = self.law.limit();
        let most = self.limit();
        let base = self.law.base();
        let Some(seen) = self.window.add(sample, before, base, &self.asks) else {
            return;
        };
        let decision = self.law.decide(&seen);
        let Range { min, max, .. } = self.range;
        let limit = decision.limit.clamp(min as f64, max as f64);
        // What is compared with a larger limit begins when that is full.
        if limit < before || self.law.tries() {
            self.window.pass_over(sample.in_flight.min(most));
        }
        self.law.set(limit);
        self.asks = self.law.asks();
        self.signal = seen.latency.map(|latency| latency.value).or(self.signal);
        self.decision = decision.reason;
    }

    fn insight(&self) -> Insight {
        let span = |nanos: f64| Duration::from_secs_f64(nanos / 1e9);
        Insight {
            baseline: self.law.base().map(span),
            signal: self.signal.map(span),
            decision: self.decision,
            doubt: if self.limit() == self.range.max {
                Some("at its maximum: more might be better")
            } else {
                self.law.doubt()
            },
            ..Insight::default()
        }
    }
}

impl fmt::Debug for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verdict")
            .field("limit", &self.law.limit())
            .field("insight", &self.insight())
            .finish_non_exhaustive()
    }
}
