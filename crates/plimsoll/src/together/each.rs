//! A request for a list of asks, and a permit for each of them.

use super::asks::Ask;
use super::{Group, List, Request, Taken};
use crate::{Demand, Permit};

/// Permits, each with its member.
pub(super) type Granted = Vec<(usize, Permit<'static>)>;

impl Group<usize> {
    pub(super) fn ask_each<'a>(
        &'a self,
        asks: &'a [Ask<'a>],
    ) -> Request<'a, usize, impl Fn(usize) -> Option<u64> + Copy + use<'a>> {
        Request {
            group: self,
            asks,
            demand_of: Some(|group, asks, of| group.behind.demand(asks, of)),
            like: asks.first().map_or(Demand::ONE, |ask| ask.demand),
            cost: move |of: usize| Some(self.behind.demand(asks, of).cost),
        }
    }
}

impl<'a, C: Fn(usize) -> Option<u64> + Copy> Request<'a, usize, C> {
    /// The position of the first ask of a member.
    pub(super) fn ask_of(self, leaf: usize) -> usize {
        let first = self.group.uses_of(leaf).next();
        first.map_or(0, |(of, _)| self.group.behind.root(of))
    }

    /// The permits for the grants.
    pub(super) fn permits(self, mut taken: Taken<'a>) -> Granted {
        let permit = |leaf| Some((leaf, taken.permit(self, leaf)?.into_owned()));
        (0..self.local()).filter_map(permit).collect()
    }

    pub(super) fn undo(self, granted: Granted) {
        for (leaf, permit) in granted.into_iter().rev() {
            self.member(leaf).limiter().undo(permit);
        }
    }

    /// Combines the permits of the members into one permit for each ask.
    pub(super) fn gather(self, granted: Granted) -> Vec<Option<Permit<'static>>> {
        let behind = &self.group.behind;
        let parts = granted.into_iter().flat_map(|(leaf, permit)| {
            let mut permit = Some(permit);
            let mut uses = self.group.uses_of(leaf).peekable();
            let mut parts = Vec::with_capacity(1);
            while let Some((of, times)) = uses.next() {
                let cost = behind.demand(self.asks, of).cost.saturating_mul(times);
                let part = match uses.peek() {
                    Some(_) => permit.as_mut().and_then(|permit| permit.split(cost)),
                    None => permit.take(),
                };
                parts.extend(part.map(|part| (of, part)));
            }
            parts
        });
        behind.gather(self.asks, parts)
    }
}
