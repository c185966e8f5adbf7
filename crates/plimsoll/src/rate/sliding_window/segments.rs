use crate::Moment;

/// The state of a [`SlidingWindow`](super::SlidingWindow): a ring of counts, ending with that of `newest`.
#[derive(PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Segments {
    pub(super) counts: Box<[u64]>,
    pub(super) newest: u64,
    /// The end of `newest`. Until then no division is needed.
    pub(super) until: Moment,
    /// The index of the count of `newest`: computing it takes a division.
    pub(super) slot: u32,
    pub(super) used: u64,
    pub(super) origin: Moment,
}

impl Clone for Segments {
    fn clone(&self) -> Self {
        Self {
            counts: self.counts.clone(),
            ..*self
        }
    }

    /// In place: a queue forecasts again and again.
    fn clone_from(&mut self, source: &Self) {
        self.counts.clone_from(&source.counts);
        self.newest = source.newest;
        self.until = source.until;
        self.slot = source.slot;
        self.used = source.used;
        self.origin = source.origin;
    }
}

impl Segments {
    /// Whether there are exactly `segments` counts, and their sum is the usage.
    pub(super) fn are_sound(&self, segments: u32) -> bool {
        let sum = self
            .counts
            .iter()
            .try_fold(0_u64, |sum, count| sum.checked_add(*count));
        self.counts.len() == segments as usize && sum == Some(self.used)
    }
}
