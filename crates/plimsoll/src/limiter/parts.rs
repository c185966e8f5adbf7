//! The parts of a limiter, for callers that ask several limiters at once.

use std::sync::Arc;

use super::Limiter;
use crate::joint::{Joint, KeyGate, WatchReplaced};
use crate::name::Name;
use crate::{Demand, Permit};

/// The parts of a limiter: a gate, several limiters, or unknown.
///
/// Only limiters of this crate return more than the default. A limiter that wraps another returns the parts of that
/// one.
#[derive(Default)]
pub struct Parts<'a>(PartsKind<'a>);

#[derive(Default)]
pub(crate) enum PartsKind<'a> {
    #[default]
    Unknown,
    Gate(&'a dyn Joint),
    Several(&'a dyn Several),
}

impl<'a> Parts<'a> {
    pub(crate) fn gate(gate: &'a dyn Joint) -> Self {
        Self(PartsKind::Gate(gate))
    }

    pub(crate) fn several(several: &'a dyn Several) -> Self {
        Self(PartsKind::Several(several))
    }

    pub(crate) fn kind(self) -> PartsKind<'a> {
        self.0
    }
}

impl std::fmt::Debug for Parts<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Parts")
    }
}

/// The limiter behind a key, or behind a name with limiters that replace each other.
pub struct Target {
    pub(crate) of: TargetOf,
    pub(crate) watch: Option<Arc<dyn WatchReplaced>>,
}

pub(crate) enum TargetOf {
    Key(KeyGate),
    Limiter(Arc<dyn Limiter>),
}

impl Target {
    pub(crate) fn key(gate: KeyGate) -> Self {
        let (of, watch) = (TargetOf::Key(gate), None);
        Self { of, watch }
    }

    /// Creates a limiter.
    #[must_use]
    pub fn limiter(limiter: Arc<dyn Limiter>) -> Self {
        let (of, watch) = (TargetOf::Limiter(limiter), None);
        Self { of, watch }
    }

    /// The same, until `watch` reports that another has replaced it.
    #[must_use]
    pub fn watched(self, watch: impl WatchReplaced + 'static) -> Self {
        let watch: Option<Arc<dyn WatchReplaced>> = Some(Arc::new(watch));
        Self { watch, ..self }
    }
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Target")
    }
}

/// A limiter that consists of others, which are asked in its place. It only counts.
pub(crate) trait Several: Send + Sync {
    /// The limiters that are asked in its place.
    fn parts(&self) -> Vec<Part>;

    /// Itself, and its members that consist of others.
    fn all_several(&self) -> Vec<Arc<dyn Several>>;

    /// Combines the permits of its parts for one of its demands. The grant is counted.
    fn gather(&self, permits: Vec<Permit<'static>>, demand: Demand) -> Permit<'static>;

    /// Counts a grant.
    fn count_granted(&self);

    /// Counts a grant that was undone.
    fn count_undone(&self);

    /// Counts a refusal by the limiter at this address, if that is one of its parts.
    fn count_denied_by(&self, address: usize);
}

/// One of the limiters that are asked in the place of another.
pub(crate) struct Part {
    pub(crate) limiter: Arc<dyn Limiter>,
    pub(crate) gate: Option<Arc<dyn Joint>>,
    /// The name of its refusals, if it has none itself.
    pub(crate) name: Option<Name>,
    /// The factor of its cost.
    pub(crate) times: u64,
}
