use plimsoll::Moment;

/// The origin of a borrowed permit, with which it can be returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tag {
    /// The moment at which it was taken, on the clock of the store.
    pub(super) taken: Moment,
    /// The moment from which it must not be used, on the clock of this process.
    pub(super) use_by: Moment,
    /// The moment from which a return has no effect, on the same clock.
    pub(super) counts_until: Option<Moment>,
    /// Whether a return must name the exact moment of the grant, so that portions cannot be merged.
    pub(super) exact: bool,
}

/// A part of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Portion {
    pub(super) left: u64,
    pub(super) tag: Tag,
}
