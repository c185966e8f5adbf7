//! Limiters that are asked together, prepared once.

use std::sync::Arc;

use super::Request;
use super::asks::{Ask, Asked};
use super::behind::Behind;
use super::words::MOST;
use crate::grant::Era;
use crate::joint::{Joint, KeyLease};
use crate::limiter::LimiterExt;
use crate::limiter::{Limiter, Part, PartsKind, Several};
use crate::name::Name;
use crate::{Clock, Demand, Grant, Permit, Source};

/// Limiters that are asked together.
///
/// Limiters that consist of others are replaced by their members, and a limiter that occurs several times, also as a
/// member of a member, is one member of the group, asked for the sum. `U` is the use of a limiter: the
/// [cost](Self::ask) of a request is computed from it.
pub struct Group<U> {
    /// Members in stores come last.
    pub(super) members: Box<[Member]>,
    pub(super) uses: Box<[Uses<U>]>,
    /// The limiters that were replaced by their members: they count grants and refusals.
    pub(super) several: Box<[(Arc<dyn Several>, U)]>,
    pub(super) local: usize,
    pub(super) one_clock: bool,
    pub(super) precise: bool,
    /// Whether [`take_words`](super::take_words) may be tried.
    pub(super) few_words: bool,
    /// The name of refusals by limiters without a name.
    pub(super) name: Option<Name>,
    pub(super) behind: Behind,
}

/// One limiter of a group.
pub(super) struct Member {
    pub(super) owner: Owner,
    // Before the lease: when the lease has ended, the gate is unused.
    pub(super) gate: Option<Arc<dyn Joint>>,
    /// Of the gate of a key, or behind a name.
    pub(super) lease: Option<Box<dyn KeyLease>>,
    /// The address of the name, if it is one.
    pub(super) known: Option<usize>,
}

/// The location of a limiter.
pub(super) enum Owner {
    Group(Arc<dyn Limiter>),
    /// In the list that comes with each request.
    Asks(usize),
}

/// The uses of a member.
pub(super) struct Uses<U> {
    pub(super) name: Option<Name>,
    /// The position of the limiter in the list from which the group was made.
    pub(super) position: usize,
    /// The first use, and the factor of its cost.
    pub(super) first: (U, u64),
    pub(super) more: Vec<(U, u64)>,
}

impl<U: Copy + PartialEq> Uses<U> {
    pub(super) fn iter(&self) -> impl Iterator<Item = (U, u64)> {
        std::iter::once(self.first).chain(self.more.iter().copied())
    }

    fn add(&mut self, name: Option<Name>, of: U, times: u64) {
        self.name = self.name.or(name);
        let mut known = std::iter::once(&mut self.first).chain(&mut self.more);
        match known.find(|(known, _)| *known == of) {
            Some((_, known)) => *known = known.saturating_add(times),
            None => self.more.push((of, times)),
        }
    }
}

/// One limiter of a list.
#[derive(Clone, Copy)]
pub(crate) struct One<'a> {
    member: &'a Member,
    asks: &'a [Ask<'a>],
}

impl<'a> One<'a> {
    /// The gate, if it is one.
    #[inline]
    pub(crate) fn gate(self) -> Option<&'a dyn Joint> {
        self.member.gate.as_deref()
    }

    #[inline]
    pub(crate) fn limiter(self) -> Asked<'a> {
        match &self.member.owner {
            Owner::Group(limiter) => Asked::Limiter(&**limiter),
            Owner::Asks(index) => self.asks[*index].of,
        }
    }

    /// The source of its permits, unless they are those of a key.
    #[inline]
    pub(crate) fn source(self) -> Option<&'a dyn Source> {
        match (self.gate(), self.limiter()) {
            (Some(gate), _) => Some(gate),
            (None, Asked::Limiter(limiter)) => limiter.source().map(|source| source as _),
            (None, Asked::Key(_)) => None,
        }
    }

    #[inline]
    pub(crate) fn clock(self) -> &'a Clock {
        match self.gate() {
            Some(gate) => Joint::clock(gate),
            None => self.limiter().clock(),
        }
    }

    /// A permit for a grant of its gate.
    #[inline]
    pub(super) fn permit(self, gate: &'a dyn Joint, grant: Grant, era: Era) -> Permit<'a> {
        match &self.member.lease {
            Some(lease) => lease.permit(grant, era),
            None => Permit::new(gate, grant, gate.gives_back()).in_era(era),
        }
    }

    /// The address by which limiters that it is a member of know it.
    pub(super) fn known_address(self) -> usize {
        self.member.known.unwrap_or_else(|| self.address())
    }

    /// Whether its gate is that of a key, or behind a name.
    pub(super) fn is_leased(self) -> bool {
        self.member.lease.is_some()
    }

    /// The gate, if it is one, to wait for.
    pub(super) fn gate_to_wait(self) -> Option<Arc<dyn Joint>> {
        self.member.gate.clone()
    }

    /// The identity of the limiter. Keys without a gate count as different.
    pub(crate) fn address(self) -> usize {
        match (self.source(), self.limiter()) {
            (Some(source), _) => std::ptr::from_ref(source).cast::<()>().addr(),
            (None, Asked::Key(key)) => std::ptr::from_ref(key).cast::<()>().addr(),
            (None, Asked::Limiter(limiter)) => std::ptr::from_ref(limiter).cast::<()>().addr(),
        }
    }
}

impl Member {
    #[inline]
    pub(super) fn one<'a>(&'a self, asks: &'a [Ask<'a>]) -> One<'a> {
        One { member: self, asks }
    }
}

/// A member, the name of its refusals, its use, and the factor of its cost.
pub(super) type Use<U> = (Member, Option<Name>, U, u64);

/// Adds the parts of a limiter that consists of others.
fn add_several<U: Copy>(
    inner: &dyn Several,
    name: Option<Name>,
    of: U,
    parts: &mut Vec<Use<U>>,
    several: &mut Vec<(Arc<dyn Several>, U)>,
) {
    several.extend(inner.all_several().into_iter().map(|inner| (inner, of)));
    parts.extend(inner.parts().into_iter().map(|part| {
        let member = Member {
            owner: Owner::Group(part.limiter),
            gate: part.gate,
            lease: None,
            known: None,
        };
        (member, part.name.or(name), of, part.times)
    }));
}

impl<U: Copy + PartialEq> Group<U> {
    /// Creates a group of these limiters. A refusal by a limiter without a name of its own carries the name set here.
    pub fn new<'a>(
        limiters: impl IntoIterator<Item = (&'a Arc<dyn Limiter>, Option<&'a str>, U)>,
    ) -> Self {
        let mut parts = Vec::new();
        let mut several = Vec::new();
        for (limiter, name, of) in limiters {
            let name = name.map(Name::new);
            let member = |gate: Option<&dyn Joint>| Member {
                owner: Owner::Group(Arc::clone(limiter)),
                gate: gate.map(Joint::to_arc),
                lease: None,
                known: None,
            };
            match limiter.parts().kind() {
                PartsKind::Several(inner) => add_several(inner, name, of, &mut parts, &mut several),
                PartsKind::Gate(gate) => parts.push((member(Some(gate)), name, of, 1)),
                PartsKind::Unknown => parts.push((member(None), name, of, 1)),
            }
        }
        Self::merged(parts, several, &[])
    }

    pub(super) fn merged(
        parts: Vec<Use<U>>,
        several: Vec<(Arc<dyn Several>, U)>,
        asks: &[Ask<'_>],
    ) -> Self {
        let is_remote = |member: &Member| member.one(asks).limiter().is_remote();
        let mut parts: Vec<_> = parts.into_iter().enumerate().collect();
        parts.sort_by_key(|(_, (member, ..))| is_remote(member));
        let mut members: Vec<Member> = Vec::with_capacity(parts.len());
        let mut uses: Vec<Uses<U>> = Vec::with_capacity(parts.len());
        for (position, (member, name, of, times)) in parts {
            let address = member.one(asks).address();
            let mut known = members.iter().map(|member| member.one(asks).address());
            match known.position(|known| known == address) {
                Some(known) => uses[known].add(name, of, times),
                None => {
                    members.push(member);
                    uses.push(Uses {
                        name,
                        position,
                        first: (of, times),
                        more: Vec::new(),
                    });
                }
            }
        }
        let local = members.partition_point(|member| !is_remote(member));
        let clocks = || {
            members[..local]
                .iter()
                .map(|member| member.one(asks).clock())
        };
        let one_clock = clocks().zip(clocks().skip(1)).all(|(a, b)| a.is_same(b));
        let gates = || members[..local].iter().filter_map(|it| it.gate.as_ref());
        let precise = gates().any(|gate| !gate.is_in_word());
        let few_words = (1..=MOST).contains(&local) && gates().count() == members.len();
        Self {
            precise,
            few_words: few_words && one_clock && !precise,
            members: members.into(),
            uses: uses.into(),
            several: several.into(),
            local,
            one_clock,
            name: None,
            behind: Behind::default(),
        }
    }

    /// Sets the name of refusals by limiters that have no name and for which none was set.
    pub(crate) fn named(mut self, name: Option<Name>) -> Self {
        self.name = name;
        self
    }

    /// Returns a request to the group: `cost` returns the cost for the limiters of one use, if any; `like` has the
    /// priority and the time-out.
    #[inline]
    pub fn ask<C>(&self, like: Demand, cost: C) -> Request<'_, U, C>
    where
        C: Fn(U) -> Option<u64> + Copy,
    {
        Request {
            group: self,
            asks: &[],
            demand_of: None,
            like,
            cost,
        }
    }

    /// Returns whether a member is in a store.
    #[inline]
    pub fn is_remote(&self) -> bool {
        self.local < self.members.len()
    }

    pub(super) fn local(&self) -> usize {
        self.local
    }

    /// Whether a member that is not in a store is not a gate: perhaps a name.
    pub(crate) fn has_others(&self) -> bool {
        let local = &self.members[..self.local];
        local.iter().any(|member| member.gate.is_none())
    }

    /// The uses of a member, each with the factor of its cost.
    pub(super) fn uses_of(&self, index: usize) -> impl Iterator<Item = (U, u64)> {
        self.uses[index].iter()
    }

    /// Each member, and the factor of the cost of its first use.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (One<'_>, u64)> {
        // Two slices that are iterated backwards together would be truncated to the same length first.
        let indices = 0..self.members.len();
        indices.map(|index| (self.members[index].one(&[]), self.uses[index].first.1))
    }

    /// Each limiter, and the factor of the cost of its first use.
    pub(crate) fn limiters(&self) -> impl Iterator<Item = (&dyn Limiter, u64)> {
        let members = self.members.iter().zip(&self.uses);
        members.filter_map(|(member, uses)| match &member.owner {
            Owner::Group(limiter) => Some((&**limiter, uses.first.1)),
            Owner::Asks(_) => None,
        })
    }

    /// The parts of a limiter with these members.
    pub(crate) fn parts(&self) -> Vec<Part> {
        let members = self.members.iter().zip(&self.uses);
        let parts = members.filter_map(|(member, uses)| match &member.owner {
            Owner::Group(limiter) => Some(Part {
                limiter: Arc::clone(limiter),
                gate: member.gate.clone(),
                name: uses.name.or(self.name),
                times: uses.first.1,
            }),
            Owner::Asks(_) => None,
        });
        parts.collect()
    }

    /// The limiters of the group that consist of others.
    pub(crate) fn several(&self) -> impl Iterator<Item = &Arc<dyn Several>> {
        self.several.iter().map(|(several, _)| several)
    }
}

impl<U> std::fmt::Debug for Group<U> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Group")
            .field("members", &self.members.len())
            .finish_non_exhaustive()
    }
}
