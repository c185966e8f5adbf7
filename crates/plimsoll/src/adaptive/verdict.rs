//! # How it works
//!
//! A server with free workers takes the same time for each piece of work. Once all workers are busy, more work only
//! waits. The limit belongs just above that knee, and two numbers tell where it is: the latency without a queue, and the
//! throughput. By Little's law,
//!
//! > queue = throughput · (latency − baseline),
//!
//! and the knee is the limit less the queue. The law lets a few pieces of work queue, so that no worker idles, and keeps
//! the limit there.
//!
//! *The signal* is the lower quartile of the latencies of a window. Waiting delays all work, and the short latencies lie
//! close together, so they show a delay with the least noise. The error of the quartile follows from the sample, and
//! differences within it are ignored.
//!
//! *The baseline* is the difficult part: a server that is always busy never shows it, and a slow dependency looks like a
//! queue. So the law accepts a baseline only if the throughput supports it:
//!
//! - While the limit does not bind, the latency is that of the server.
//! - If a larger limit brought as much more throughput, nothing had queued before.
//! - The *verdict*: if a smaller limit cut the throughput, nothing queues under it. Its latency becomes the baseline, and
//!   the limit returns to the larger one, or beyond it to the demand before the limit bound. Before the first cut after a leap of the latency the law takes a second look, because a window that lies
//!   across a change cannot be compared with another.
//! - A regression over many small steps ([`slope`]): does the throughput of the last hundred windows follow the limit? If
//!   it rises with the limit, nothing queues. If it stays the same, something does. If it *falls*, even the allowed queue
//!   is too long, and less is allowed; a second regression, which also spans leaps of the limit, tells this too.
//! - If none of this has happened for a while, a *probe* lowers the limit for one window to measure the remaining latency.
//!   Probes without news become rarer. If everything that a probe removed had queued, the probe goes further down.
//! - A latency that rose with the limit is not believed: limits that share a server take throughput from each other, and
//!   cause the latency together. Each time the law believes in a slower server, the minimum time to the next doubles, so
//!   that such limits do not drift up together ([`raises`]).
//! - The *shape* of the latencies: waiting adds the same time to all, slower work multiplies them. If the mean and the
//!   quartile rose by the same factor, the law tries a *larger* limit before it cuts. Work of equal length has no shape; for
//!   it a larger limit is tried if the past demand, at the new latency, needs less than twice the limit.
//! - A limit so small that the allowance covers it learns nothing from a smaller one. There the law tries a *larger* one:
//!   if the throughput grows with it at the same latency, nothing had queued.
//!
//! Other signals find the queues that the quartile does not show. If less than three quarters of the work waits, the
//! quartile stays the same and the mean rises above its own baseline. Its error is larger, so it counts only beyond chance
//! and above the allowance. If half as much again brought no more throughput, something queues that only a part of the
//! work needs, and the excess is cut. Failures count as overload only if a smaller limit reduces their share. After an
//! outage of a dependency, in which everything fails, half of the limit is restored at once. Work that ends unheard,
//! because the client has disconnected, counts as late: more is in flight than the samples account for. A queue that
//! disappears by itself and leaves the server idle was a burst, and the next one is admitted (`law::bursts`).
//!
//! Steps are judged only if they are larger than the errors of the two measurements.
//!
//! After every cut, as many samples as were in flight are skipped: that work waited for work admitted before the cut.

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
        if limit < before || limit > before && self.law.tries() {
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
