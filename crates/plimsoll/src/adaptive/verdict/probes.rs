//! The schedule of probes with a smaller limit.

/// The number of saturated windows between a probe with news and the next one.
const SOON: f64 = 2.0;
/// The number after ordinary windows have shown that nothing queues.
const CALM: f64 = 32.0;
/// The maximum number: each probe without news doubles it.
const RARELY: f64 = 256.0;

/// A window in which the baseline is doubtful counts this many times.
const HASTE: f64 = 2.0;

/// The schedule of probes, counted in saturated windows.
///
/// A probe costs throughput, so it is made as rarely as the baseline changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probes {
    wait: f64,
    gap: f64,
}

impl Probes {
    pub(super) const fn new() -> Self {
        Self {
            wait: SOON,
            gap: SOON,
        }
    }

    /// Counts a window in which the limit was binding.
    pub(super) const fn count(&mut self, doubtful: bool) {
        self.wait -= if doubtful { HASTE } else { 1.0 };
    }

    pub(super) const fn is_due(&self) -> bool {
        self.wait <= 0.0
    }

    /// Records that the limit did not bind, so that the latency was that of the server.
    pub(super) const fn nothing_queued(&mut self) {
        self.gap = CALM;
        self.wait = CALM;
    }

    /// Records that a larger limit brought as much more throughput.
    pub(super) const fn growth_paid(&mut self) {
        self.gap = self.gap.max(CALM);
        self.wait = self.gap;
    }

    /// Records that a much larger limit brought nothing: something queues, perhaps already in the baseline.
    pub(super) const fn growth_failed(&mut self) {
        self.wait = self.wait.min(1.0);
    }

    /// Records that the baseline changed for another reason.
    pub(super) const fn learnt(&mut self) {
        self.gap = SOON;
        self.wait = CALM;
    }

    /// Records the end of a probe.
    pub(super) const fn probed(&mut self, news: bool) {
        self.gap = if news {
            SOON
        } else {
            (self.gap * 2.0).min(RARELY)
        };
        self.wait = self.gap;
    }
}
