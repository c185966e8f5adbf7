//! Operations of the limiters of this workspace for its own layers.

use super::{Limiter, Parts, Target};
use crate::demand::Demand;
use crate::denied::Denied;
use crate::grant::Shareable;
use crate::learning::Insight;
use crate::moment::Moment;
use crate::name::Name;
use crate::permit::Permit;
use crate::reason::Reason;
use crate::snapshot::Snapshot;

/// The implementation of [`LimiterExt`](super::LimiterExt) by limiters of this workspace, where it is better than the
/// defaults.
#[doc(hidden)]
pub trait Internals: Limiter {
    /// See [`LimiterExt::source`](super::LimiterExt::source).
    fn source(&self) -> Option<&dyn Shareable>;

    /// See [`LimiterExt::attempt`](super::LimiterExt::attempt).
    fn attempt(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        self.try_acquire(demand)
    }

    /// See [`LimiterExt::attempt_owned`](super::LimiterExt::attempt_owned).
    fn attempt_owned(&self, demand: Demand) -> Option<Permit<'static>> {
        Internals::attempt(self, demand)
            .ok()
            .map(Permit::into_owned)
    }

    /// See [`LimiterExt::spend`](super::LimiterExt::spend).
    fn spend(&self, cost: u64) -> Option<Moment> {
        let _ = cost;
        None
    }

    /// See [`LimiterExt::undo`](super::LimiterExt::undo).
    fn undo(&self, permit: Permit<'_>) {
        permit.undo();
    }

    /// See [`LimiterExt::charge`](super::LimiterExt::charge).
    fn charge(&self, cost: u64) {
        let _ = cost;
    }

    /// See [`LimiterExt::settle`](super::LimiterExt::settle).
    fn settle(&self, permit: &mut Permit<'_>, cost: u64) {
        settle(
            permit,
            cost,
            |rest| Internals::undo(self, rest),
            |more| Internals::charge(self, more),
        );
    }

    /// See [`LimiterExt::check_saturation`](super::LimiterExt::check_saturation).
    fn check_saturation(&self) -> Result<(), Denied> {
        saturation(&self.snapshot(), Name::of(self.name(), self.metadata()))
    }

    /// See [`LimiterExt::is_remote`](super::LimiterExt::is_remote).
    fn is_remote(&self) -> bool {
        false
    }

    /// See [`LimiterExt::parts`](super::LimiterExt::parts).
    fn parts(&self) -> Parts<'_> {
        Parts::default()
    }

    /// Returns the limiter behind a name, for callers that wait for several limiters at once.
    fn target(&self) -> Option<Result<Target, Denied>> {
        None
    }

    /// See [`LimiterExt::insight`](super::LimiterExt::insight).
    fn insight(&self) -> Option<Insight> {
        None
    }
}

/// Corrects a permit by undoing the excess, or charging the difference.
pub(crate) fn settle<'a>(
    permit: &mut Permit<'a>,
    cost: u64,
    undo: impl FnOnce(Permit<'a>),
    charge: impl FnOnce(u64),
) {
    if let Some(rest) = permit.split(permit.cost().saturating_sub(cost)) {
        undo(rest);
    }
    if !permit.gives_back()
        && let Some((before, _)) = permit.settle(cost)
    {
        charge(cost - before.cost);
    }
}

pub(super) fn saturation(seen: &Snapshot, name: Option<Name>) -> Result<(), Denied> {
    if seen.available > 0 || seen.queued < seen.queue_bound {
        return Ok(());
    }
    Err(refusal(Reason::Saturated, seen, name))
}

pub(super) fn refusal(reason: Reason, seen: &Snapshot, name: Option<Name>) -> Denied {
    Denied::new(reason)
        .with_limit(seen.limit, seen.available)
        .with_name(name)
}
