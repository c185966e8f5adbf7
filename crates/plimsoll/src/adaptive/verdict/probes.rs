//! When to look below.

/// How many saturated windows to wait after a probe that brought news.
const SOON: f64 = 2.0;
/// And after it became clear in passing that nothing queued.
const CALM: f64 = 32.0;
/// A probe without news doubles the wait, up to this.
const RARELY: f64 = 256.0;

/// A window in which the baseline is doubtful counts for so many.
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

    /// A window in which the limit held work back.
    pub(super) const fn count(&mut self, doubtful: bool) {
        self.wait -= if doubtful { HASTE } else { 1.0 };
    }

    pub(super) const fn is_due(&self) -> bool {
        self.wait <= 0.0
    }

    /// The limit was not in the way, so the latency was the server's own.
    pub(super) const fn nothing_queued(&mut self) {
        self.gap = CALM;
        self.wait = CALM;
    }

    /// A larger limit brought as much more throughput.
    pub(super) const fn growth_paid(&mut self) {
        self.gap = self.gap.max(CALM);
        self.wait = self.gap;
    }

    /// A much larger limit brought nothing: something queues, and the baseline may be part of it.
    pub(super) const fn growth_failed(&mut self) {
        self.wait = self.wait.min(1.0);
    }

    /// The baseline was found to be another one by other means.
    pub(super) const fn learnt(&mut self) {
        self.gap = SOON;
        self.wait = CALM;
    }

    /// A probe is over.
    pub(super) const fn probed(&mut self, news: bool) {
        self.gap = if news {
            SOON
        } else {
            (self.gap * 2.0).min(RARELY)
        };
        self.wait = self.gap;
    }
}
