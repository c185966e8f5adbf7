//! Limiters that are asked together, prepared once.

use std::sync::Arc;

use super::List;
use crate::joint::Joint;
use crate::limiter::{Kind, Limiter, Part, Several};
use crate::name::Name;
use crate::{Clock, Demand, Denied, Source};

/// Limiters that are asked together.
///
/// Limiters that consist of others are replaced by their members, and a limiter that occurs several times, also as a
/// member of a member, is one member of the group, asked for the sum. `U` says what a limiter is there for: the
/// [cost](Self::ask) of a request is found by it.
pub struct Group<U> {
    /// Those in stores are the last.
    members: Box<[Member]>,
    uses: Box<[Uses<U>]>,
    /// The limiters that were replaced by their members: they count what is granted and refused.
    several: Box<[(Arc<dyn Several>, U)]>,
    local: usize,
    one_clock: bool,
    precise: bool,
    /// The name of refusals by limiters that have none.
    name: Option<Name>,
}

/// One limiter of a group.
struct Member {
    limiter: Arc<dyn Limiter>,
    gate: Option<Arc<dyn Joint>>,
}

/// What a member is there for.
struct Uses<U> {
    name: Option<Name>,
    /// Where the limiter was in the list that the group was made of.
    position: usize,
    /// How many times its cost is asked for.
    first: (U, u32),
    more: Vec<(U, u32)>,
}

impl<U: Copy + PartialEq> Uses<U> {
    fn add(&mut self, name: Option<Name>, of: U, times: u32) {
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
    pub(crate) limiter: &'a dyn Limiter,
    /// The gate, if it is one.
    pub(crate) gate: Option<&'a dyn Joint>,
}

impl<'a> One<'a> {
    /// Where its permits go back to.
    #[inline]
    pub(crate) fn source(self) -> &'a dyn Source {
        match self.gate {
            Some(gate) => gate,
            None => self.limiter.source(),
        }
    }

    #[inline]
    pub(crate) fn clock(self) -> &'a Clock {
        match self.gate {
            Some(gate) => Joint::clock(gate),
            None => self.limiter.clock(),
        }
    }

    /// Two with the same address are the same limiter.
    pub(crate) fn address(self) -> usize {
        std::ptr::from_ref(self.source()).cast::<()>().addr()
    }
}

impl Member {
    #[inline]
    fn one(&self) -> One<'_> {
        One {
            limiter: &*self.limiter,
            gate: self.gate.as_deref(),
        }
    }
}

impl<U: Copy + PartialEq> Group<U> {
    /// A group of these limiters. A refusal by a limiter without a name of its own carries the name given here.
    pub fn new<'a>(
        limiters: impl IntoIterator<Item = (&'a Arc<dyn Limiter>, Option<&'a str>, U)>,
    ) -> Self {
        let mut parts = Vec::new();
        let mut several = Vec::new();
        for (limiter, name, of) in limiters {
            let name = name.map(Name::new);
            let part = |gate: Option<&dyn Joint>| Part {
                limiter: Arc::clone(limiter),
                gate: gate.map(Joint::to_arc),
                name,
                times: 1,
            };
            match limiter.parts().kind() {
                Kind::Several(inner) => {
                    several.extend(inner.all_several().into_iter().map(|inner| (inner, of)));
                    parts.extend(inner.parts().into_iter().map(|part| {
                        let name = part.name.or(name);
                        (Part { name, ..part }, of)
                    }));
                }
                Kind::Gate(gate) => parts.push((part(Some(gate)), of)),
                Kind::Unknown => parts.push((part(None), of)),
            }
        }
        Self::merged(parts, several)
    }

    fn merged(parts: Vec<(Part, U)>, several: Vec<(Arc<dyn Several>, U)>) -> Self {
        let mut parts: Vec<_> = parts.into_iter().enumerate().collect();
        parts.sort_by_key(|(_, (part, _))| part.limiter.is_remote());
        let mut members: Vec<Member> = Vec::with_capacity(parts.len());
        let mut uses: Vec<Uses<U>> = Vec::with_capacity(parts.len());
        for (position, (part, of)) in parts {
            let (limiter, gate) = (part.limiter, part.gate);
            let member = Member { limiter, gate };
            let address = member.one().address();
            let mut known = members.iter().map(|member| member.one().address());
            match known.position(|known| known == address) {
                Some(known) => uses[known].add(part.name, of, part.times),
                None => {
                    members.push(member);
                    uses.push(Uses {
                        name: part.name,
                        position,
                        first: (of, part.times),
                        more: Vec::new(),
                    });
                }
            }
        }
        let local = members.partition_point(|member| !member.limiter.is_remote());
        let clocks = || members[..local].iter().map(|member| member.one().clock());
        let one_clock = clocks().zip(clocks().skip(1)).all(|(a, b)| a.is_same(b));
        let gates = members[..local].iter().filter_map(|it| it.gate.as_ref());
        let precise = gates.into_iter().any(|gate| !gate.is_in_word());
        Self {
            precise,
            members: members.into(),
            uses: uses.into(),
            several: several.into(),
            local,
            one_clock,
            name: None,
        }
    }

    /// Names refusals by limiters that have no name and were given none.
    pub(crate) fn named(mut self, name: Option<Name>) -> Self {
        self.name = name;
        self
    }

    /// A request to the group: `cost` says what is asked of the limiters of one use, if anything; `like` says the rest.
    #[inline]
    pub fn ask<C>(&self, like: Demand, cost: C) -> Request<'_, U, C>
    where
        C: Fn(U) -> Option<u32> + Copy,
    {
        Request {
            group: self,
            like,
            cost,
        }
    }

    /// Whether a member is in a store.
    #[inline]
    pub fn is_remote(&self) -> bool {
        self.local < self.members.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    /// Each member, and how many times its cost is asked for by its first use.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (One<'_>, u32)> {
        let members = self.members.iter().zip(&self.uses);
        members.map(|(member, uses)| (member.one(), uses.first.1))
    }

    /// What a limiter that has these members is replaced by.
    pub(crate) fn parts(&self) -> Vec<Part> {
        let members = self.members.iter().zip(&self.uses);
        let part = |(member, uses): (&Member, &Uses<U>)| Part {
            limiter: Arc::clone(&member.limiter),
            gate: member.gate.clone(),
            name: uses.name.or(self.name),
            times: uses.first.1,
        };
        members.map(part).collect()
    }

    /// Those of its limiters that consist of others.
    pub(crate) fn several(&self) -> impl Iterator<Item = &Arc<dyn Several>> {
        self.several.iter().map(|(several, _)| several)
    }
}

impl<U> std::fmt::Debug for Group<U> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.members.iter().map(|member| member.limiter.name());
        f.debug_list().entries(names).finish()
    }
}

/// What is asked of a [`Group`].
#[derive(Clone, Copy)]
#[must_use = "nothing is asked before one of its methods is called"]
pub struct Request<'a, U, C> {
    group: &'a Group<U>,
    like: Demand,
    cost: C,
}

impl<U, C> std::fmt::Debug for Request<'_, U, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request")
            .field("group", self.group)
            .field("like", &self.like)
            .finish_non_exhaustive()
    }
}

impl<'a, U, C> Request<'a, U, C>
where
    U: Copy + PartialEq,
    C: Fn(U) -> Option<u32> + Copy,
{
    /// The same request with another priority and deadline.
    pub(crate) fn with(self, like: Demand) -> Self {
        Self { like, ..self }
    }

    /// The first member that is asked, in the order in which the limiters were given.
    pub(crate) fn first(self) -> Option<usize> {
        let asked = (0..self.len()).filter(|&index| self.cost(index).is_some());
        asked.min_by_key(|&index| self.group.uses[index].position)
    }

    /// The limiters that are asked and consist of others.
    #[inline]
    pub(crate) fn several(self) -> impl Iterator<Item = &'a Arc<dyn Several>> {
        let several = self.group.several.iter();
        several.filter_map(move |(several, of)| (self.cost)(*of).map(|_| several))
    }
}

impl<'a, U, C> List<'a> for Request<'a, U, C>
where
    U: Copy + PartialEq,
    C: Fn(U) -> Option<u32> + Copy,
{
    #[inline]
    fn len(self) -> usize {
        self.group.members.len()
    }

    #[inline]
    fn member(self, index: usize) -> One<'a> {
        self.group.members[index].one()
    }

    #[inline]
    fn local(self) -> usize {
        self.group.local
    }

    #[inline]
    fn precise(self) -> bool {
        self.group.precise
    }

    #[inline]
    fn one_clock(self) -> bool {
        self.group.one_clock
    }

    #[inline]
    fn cost(self, index: usize) -> Option<u64> {
        let uses = self.group.uses.get(index)?;
        let cost = |&(of, times): &(U, u32)| Some(u64::from((self.cost)(of)?) * u64::from(times));
        let more = uses.more.iter().filter_map(cost);
        more.chain(cost(&uses.first)).reduce(u64::saturating_add)
    }

    #[inline]
    fn like(self) -> Demand {
        self.like
    }

    #[cold]
    fn count_denied(self, refuser: usize) {
        let address = self.member(refuser).address();
        for (several, _) in &self.group.several {
            several.count_denied_by(address);
        }
    }

    fn name_refusal(self, index: usize, denied: Denied) -> Denied {
        let name = self.group.uses.get(index).and_then(|uses| uses.name);
        match name.or(self.group.name) {
            Some(name) if denied.limiter().is_none() => denied.with_limiter(name.as_str()),
            _ => denied,
        }
    }
}
