use crate::Moment;

/// What a [`SlidingWindow`](super::SlidingWindow) remembers: a ring of counts, the newest of which is that of `newest`.
#[derive(PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Segments {
    pub(super) counts: Box<[u64]>,
    pub(super) newest: u64,
    /// When `newest` ends and the next begins. As long as that has not come, nothing has to be divided.
    pub(super) until: Moment,
    /// Where the count of `newest` is: to find it takes a division.
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

    /// In place: a queue looks ahead again and again.
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
    /// Whether there are so many, and they come to what is used.
    pub(super) fn are_sound(&self, segments: u32) -> bool {
        let sum = self
            .counts
            .iter()
            .try_fold(0_u64, |sum, count| sum.checked_add(*count));
        self.counts.len() == segments as usize && sum == Some(self.used)
    }
}
