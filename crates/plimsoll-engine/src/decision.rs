//! How a decision ends: admitted with a hold, or refused, with an answer for each limit.

use std::fmt;
use std::time::Duration;

use plimsoll::{Denied, Metadata, Outcome, Permit, Reason, Standing};

use crate::members::Members;
use crate::parts::{Denials, Member, Told};
use crate::seen::Beyond;

/// What one limit says in a decision. Each limit that was asked has one, also where another one refused.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Answer<'d> {
    /// The name of the limit.
    pub limit: &'d str,
    /// What was asked of it.
    pub cost: u64,
    /// Whether it only counts, and refuses nothing.
    pub shadow: bool,
    /// How it stands after the decision. `None` for a tier that is unlimited.
    pub standing: Option<Standing>,
    /// Why it refuses, or would refuse if it were enforced.
    pub denied: Option<&'d Denied>,
    /// What the file says about it, for callers: a phrase, a code, other pairs.
    pub metadata: Option<&'d Metadata>,
}

impl Answer<'_> {
    /// Whether it grants what was asked.
    #[must_use]
    pub const fn is_granted(&self) -> bool {
        self.denied.is_none()
    }

    /// How long to wait before what was asked would be granted, if no other demand came.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.denied?.retry_after()
    }
}

/// An admitted decision: what it holds, and what each limit answered.
///
/// Dropping it returns slots, and keeps what rates have charged. [`settle`](Self::settle) corrects an estimate,
/// [`undo`](Self::undo) takes everything back.
#[must_use = "what is held is returned when it is dropped"]
pub struct Hold {
    members: Members,
}

impl Hold {
    pub(crate) const fn new(members: Members) -> Self {
        Self { members }
    }

    pub(crate) const fn members(&self) -> &Members {
        &self.members
    }

    pub(crate) const fn members_mut(&mut self) -> &mut Members {
        &mut self.members
    }

    /// Notes that a member in shadow mode would have refused.
    pub(crate) fn would_refuse(&mut self, index: usize, denied: Denied, beyond: Option<Beyond>) {
        let denials = &mut self.members.denials;
        if denials.len() <= index {
            denials.resize_with(index + 1, || None);
        }
        denials[index] = Some(denied);
        self.members.beyond.extend(beyond);
    }

    /// What each limit says, in the order in which they were asked.
    pub fn answers(&self) -> impl Iterator<Item = Answer<'_>> {
        answers(&self.members)
    }

    /// The permits of limits that were asked and have something to return, in the order of the decision.
    pub fn permits(&self) -> impl Iterator<Item = &Permit<'static>> {
        self.members.permits.iter().flatten()
    }

    /// What the limits that admitted it say about themselves, by their names.
    pub fn metadata(&self) -> impl Iterator<Item = (&str, &Metadata)> {
        let limits = self.members.list.iter().map(|it| self.members.limit(it));
        limits.filter_map(|limit| Some((&*limit.name, limit.metadata.as_ref()?)))
    }

    /// Whether anything is returned when the work is done, as slots are and tokens are not.
    #[must_use]
    pub fn gives_back(&self) -> bool {
        self.permits().any(Permit::gives_back)
    }

    /// What was asked of the limit of this position.
    pub(crate) fn cost_at(&self, index: usize) -> u64 {
        self.members.list.get(index).map_or(0, |member| member.cost)
    }

    /// Corrects what was taken from the limit of this position, for work that turned out to cost `cost`.
    ///
    /// More than was taken is charged in full, as a debt if it has to be.
    pub fn settle_at(&mut self, index: usize, cost: u64) {
        let permit = self.members.permits.get_mut(index).and_then(Option::take);
        let (Some(member), Some(mut permit)) = (self.members.list.get(index), permit) else {
            return;
        };
        self.members.subject(member).settle(&mut permit, cost);
        self.members.keep_permit(index, permit);
    }

    /// Corrects what was taken from a limit by name. Of a limit that is not part of the decision nothing is taken.
    pub fn settle(&mut self, limit: &str, cost: u64) {
        let is = |member: &Member| &*self.members.limit(member).name == limit;
        if let Some(index) = self.members.list.iter().position(is) {
            self.settle_at(index, cost);
        }
    }

    /// Returns what is held, and says how the work went, for adaptive limits.
    pub fn finish(mut self, outcome: Outcome) {
        self.give_back(outcome);
    }

    /// [`finish`](Self::finish) in place.
    #[doc(hidden)]
    pub fn give_back(&mut self, outcome: Outcome) {
        for permit in self.members.permits.iter_mut().flatten() {
            permit.give_back(outcome);
        }
        self.members.beyond.clear();
    }

    /// Takes the decision back, also from rates, as if it had not been made.
    pub fn undo(mut self) {
        self.undo_all();
    }

    /// [`undo`](Self::undo) in place.
    #[doc(hidden)]
    pub fn undo_all(&mut self) {
        self.members.undo();
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold")
            .field("limits", &self.members)
            .finish_non_exhaustive()
    }
}

/// A refused decision. Nothing was taken, except that limits which count refusals noted their own.
#[derive(Clone)]
pub struct Refusal(Box<Refused>);

#[derive(Clone)]
struct Refused {
    members: Members,
    /// The position of the binding limit, if it was asked at all.
    binding: Option<usize>,
    denied: Denied,
    compensated: bool,
}

impl Refusal {
    /// Of members that refuse, finds the one that is binding.
    pub(crate) fn new(mut members: Members, denials: Denials, first: usize) -> Self {
        let enforced = |(index, _): &(usize, &Denied)| {
            let member = &members.list[*index];
            members.is_asked(member)
        };
        let refusing = denials.iter().enumerate();
        let refusing = refusing.filter_map(|(index, denied)| Some((index, denied.as_ref()?)));
        let binding = refusing
            .filter(enforced)
            .max_by_key(|(index, denied)| {
                let never = matches!(denied.reason(), Reason::TooLarge | Reason::Closed);
                // Of equal ones the first.
                (never, denied.retry_after(), std::cmp::Reverse(*index))
            })
            .map_or(first, |(index, _)| index);
        let denied = denials.get(binding).cloned().flatten();
        let denied = denied.unwrap_or_else(|| Denied::new(Reason::Unavailable));
        let limit = members.limit(&members.list[binding]);
        let denied = match denied.limiter() {
            Some(limiter) if limiter == &*limit.name => denied,
            _ => denied.with_limiter(&limit.name),
        };
        // A gate has its metadata already; a store and an `all` do not.
        let denied = match &limit.metadata {
            Some(metadata) if denied.metadata() != Some(metadata) => denied.with_metadata(metadata),
            _ => denied,
        };
        members.denials = denials;
        Self(Box::new(Refused {
            binding: Some(binding),
            denied,
            members,
            compensated: false,
        }))
    }

    /// A decision that was refused before anything was asked, because of the limit of this name.
    pub(crate) fn before(mut members: Members, limit: &str, denied: Denied) -> Self {
        // Others may have granted before that was seen.
        members.undo();
        let known = members.plan.limit(limit);
        let known = known.and_then(|known| members.plan.limits[known].metadata.as_ref());
        let denied = match known {
            Some(metadata) => denied.with_metadata(metadata),
            None => denied,
        };
        Self(Box::new(Refused {
            members,
            binding: None,
            denied: denied.with_limiter(limit),
            compensated: false,
        }))
    }

    /// The same, from the answers of stores.
    #[cfg(feature = "redis")]
    pub(crate) fn told(mut self, told: Told, compensated: bool) -> Self {
        self.0.members.told = told;
        self.0.compensated = compensated;
        self
    }

    /// Whether something had been taken before it was known that the decision is refused, and was undone: where several
    /// stores are asked, or several slots of a cluster. Meanwhile others may have been refused because of it.
    #[must_use]
    pub fn is_compensated(&self) -> bool {
        self.0.compensated
    }

    /// What each limit says, in the order in which they were asked.
    pub fn answers(&self) -> impl Iterator<Item = Answer<'_>> {
        answers(&self.0.members)
    }

    /// The refusal of the binding limit: of those that refuse, the one that takes longest to grant. It says when the whole
    /// decision would be admitted, if no other demand came.
    #[must_use]
    pub fn denied(&self) -> &Denied {
        &self.0.denied
    }

    /// The position of the binding limit among the [answers](Self::answers). `None` if nothing was asked, because a key is
    /// missing or there is no such limit.
    #[must_use]
    pub fn binding(&self) -> Option<usize> {
        self.0.binding
    }

    /// The name of the binding limit.
    #[must_use]
    pub fn limit(&self) -> &str {
        self.0.denied.limiter().unwrap_or_default()
    }

    /// How long to wait before the decision would be admitted, if no other demand came. `None` if that is not known.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.denied.retry_after()
    }

    pub(crate) fn members(&self) -> &Members {
        &self.0.members
    }
}

impl fmt::Debug for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refusal")
            .field("limits", &self.0.members)
            .field("denied", &self.0.denied)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.denied.fmt(f)
    }
}

impl std::error::Error for Refusal {}

/// What each limit says, in the order in which they were asked.
pub(crate) fn answers(members: &Members) -> impl Iterator<Item = Answer<'_>> {
    members.list.iter().enumerate().map(|(index, member)| {
        let limit = members.limit(member);
        let permit = members.permits.get(index).and_then(Option::as_ref);
        let standing = told(&members.told, index)
            .or_else(|| permit.and_then(Permit::standing))
            .or_else(|| members.standing(member));
        Answer {
            limit: &limit.name,
            cost: member.cost,
            shadow: limit.shadow,
            standing,
            denied: members.denials.get(index).and_then(Option::as_ref),
            metadata: limit.metadata.as_ref(),
        }
    })
}

fn told(told: &Told, index: usize) -> Option<Standing> {
    let mut told = told.iter();
    told.find(|(at, _)| *at == index)
        .map(|(_, standing)| *standing)
}
