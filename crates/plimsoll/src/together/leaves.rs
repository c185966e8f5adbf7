//! Limiters taken apart into those that are asked.

use std::sync::Arc;

use super::List;
use crate::all::Members;
use crate::joint::Joint;
use crate::name::Name;
use crate::{Clock, Limiter, Permit, Source};

/// What a limiter consists of, for those who ask several at once. Only this crate knows.
#[derive(Default)]
pub struct Parts<'a>(Inner<'a>);

#[derive(Default)]
enum Inner<'a> {
    #[default]
    Unknown,
    Gate(&'a dyn Joint),
    Several(&'a Members),
}

impl<'a> Parts<'a> {
    pub(crate) fn gate(gate: &'a dyn Joint) -> Self {
        Self(Inner::Gate(gate))
    }

    pub(crate) fn several(members: &'a Members) -> Self {
        Self(Inner::Several(members))
    }
}

impl std::fmt::Debug for Parts<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Parts")
    }
}

/// A limiter that is asked as a whole.
#[derive(Clone)]
pub(crate) struct Member {
    pub(crate) limiter: Arc<dyn Limiter>,
    /// The gate, if it is one.
    pub(crate) gate: Option<Arc<dyn Joint>>,
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
    pub(crate) fn one(&self) -> One<'_> {
        One {
            limiter: &*self.limiter,
            gate: self.gate.as_deref(),
        }
    }

    fn new(limiter: &Arc<dyn Limiter>, gate: Option<&dyn Joint>) -> Self {
        Self {
            limiter: Arc::clone(limiter),
            gate: gate.map(Joint::to_arc),
        }
    }
}

/// A limiter of which somebody asks for something.
#[derive(Clone)]
pub(crate) struct Part<U> {
    pub(crate) member: Member,
    /// The name of a refusal, if the limiter has none.
    pub(crate) name: Option<Name>,
    /// How its cost is found.
    pub(crate) of: U,
}

/// Limiters taken apart, each there once.
pub(crate) struct Leaves<U> {
    pub(crate) members: Box<[Member]>,
    /// For each of them, who asks for it: the name of its refusals, and how its cost is found.
    pub(crate) uses: Box<[(Option<Name>, Vec<U>)]>,
    /// Those that were taken apart.
    pub(crate) nested: Box<[(Arc<Members>, U)]>,
    pub(crate) local: usize,
    pub(crate) one_clock: bool,
    pub(crate) precise: bool,
}

impl<U: Clone> Leaves<U> {
    /// Takes limiters apart; `times` makes of how the cost of a limiter is found how that of a part of it is, which is
    /// asked for so many times.
    pub(crate) fn new<'a>(
        limiters: impl IntoIterator<Item = (&'a Arc<dyn Limiter>, Option<Name>, U)>,
        times: impl Fn(&U, u32) -> U,
    ) -> Self {
        let mut parts: Vec<Part<U>> = Vec::new();
        let mut nested = Vec::new();
        for (limiter, name, of) in limiters {
            match limiter.parts().0 {
                Inner::Several(members) => {
                    nested.push((members.shared(), of.clone()));
                    let inner = members.nested();
                    nested.extend(inner.map(|members| (Arc::clone(members), of.clone())));
                    parts.extend(members.parts().map(|part| Part {
                        member: part.member,
                        name: part.name.or(name),
                        of: times(&of, part.of),
                    }));
                }
                Inner::Gate(gate) => parts.push(Part {
                    member: Member::new(limiter, Some(gate)),
                    name,
                    of,
                }),
                Inner::Unknown => parts.push(Part {
                    member: Member::new(limiter, None),
                    name,
                    of,
                }),
            }
        }
        Self::merged(parts, nested)
    }

    /// Counts a refusal by those that were taken apart and of which the one that refused is a part.
    #[cold]
    pub(crate) fn count_denied(&self, refuser: usize) {
        if let Some(member) = self.members.get(refuser) {
            for (nested, _) in &self.nested {
                nested.count_denied_by(member.one().address());
            }
        }
    }

    fn merged(mut parts: Vec<Part<U>>, nested: Vec<(Arc<Members>, U)>) -> Self {
        parts.sort_by_key(|part| part.member.limiter.is_remote());
        let mut members: Vec<Member> = Vec::with_capacity(parts.len());
        let mut uses: Vec<(Option<Name>, Vec<U>)> = Vec::with_capacity(parts.len());
        for part in parts {
            let address = part.member.one().address();
            let mut known = members.iter().map(|member| member.one().address());
            match known.position(|known| known == address) {
                Some(known) => {
                    let known = &mut uses[known];
                    known.0 = known.0.or(part.name);
                    known.1.push(part.of);
                }
                None => {
                    members.push(part.member);
                    uses.push((part.name, vec![part.of]));
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
            nested: nested.into(),
            local,
            one_clock,
        }
    }
}

/// Permits of limiters of which nothing is known, and whose they are. Up to four are kept without allocating.
#[derive(Default)]
pub(crate) struct Held<'a> {
    few: [Option<(usize, Permit<'a>)>; 4],
    more: Vec<(usize, Permit<'a>)>,
}

impl<'a> Held<'a> {
    pub(crate) fn push(&mut self, index: usize, permit: Permit<'a>) {
        match self.few.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some((index, permit)),
            None => self.more.push((index, permit)),
        }
    }

    /// Takes that of one out.
    pub(crate) fn take(&mut self, index: usize) -> Option<Permit<'a>> {
        let few = self.few.iter_mut();
        let mut places = few.filter(|place| matches!(place, Some((of, _)) if *of == index));
        if let Some(place) = places.next() {
            return place.take().map(|(_, permit)| permit);
        }
        let at = self.more.iter().position(|(of, _)| *of == index)?;
        Some(self.more.swap_remove(at).1)
    }

    pub(crate) fn contains(&self, index: usize) -> bool {
        let held = self.few.iter().flatten().chain(&self.more);
        held.into_iter().any(|(of, _)| *of == index)
    }

    /// As if they had never been granted. A permit need not know its limiter: the limiter takes it back.
    pub(crate) fn undo(&mut self, list: impl List<'a>) {
        while let Some((index, permit)) = self.more.pop() {
            list.member(index).limiter.undo(permit);
        }
        for place in self.few.iter_mut().rev() {
            if let Some((index, permit)) = place.take() {
                list.member(index).limiter.undo(permit);
            }
        }
    }
}
