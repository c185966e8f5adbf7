use plimsoll::Moment;

/// Where something borrowed came from, so that it can go back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tag {
    /// When it was taken, by the clock of the store.
    pub(super) taken: Moment,
    /// From when on it is not used any more, by the clock of this process.
    pub(super) use_by: Moment,
    /// From when on giving it back is of no use, by the same.
    pub(super) counts_until: Option<Moment>,
    /// Whether it can only go back to the very moment at which it was taken, so that nothing is put together with it.
    pub(super) exact: bool,
}

/// Some of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Portion {
    pub(super) left: u64,
    pub(super) tag: Tag,
}
