//! The result of a decision: a [`Hold`] or a [`Refusal`], with an [`Answer`] for each limit.

use std::fmt;
use std::time::Duration;

use plimsoll::{Denied, Metadata, Outcome, Permit, Reason, Standing};

use crate::members::Members;
use crate::state::{Denials, Member, StoreStandings};
use crate::stats::ShadowExcess;

/// The answer of one limit in a decision. Each limit that was asked has one, even if another limit refused.
///
/// ```
/// use plimsoll_engine::{Ask, Limits};
///
/// let limits = Limits::from_yaml("limits: { api: 10/s, mail: { rate: 1/h, mode: shadow } }")?;
/// let asks = [Ask::new("api").cost(3), Ask::new("mail").cost(2)];
/// let hold = limits.try_decide(&asks).unwrap();
/// let [api, mail] = hold.answers().collect::<Vec<_>>().try_into().unwrap();
/// assert_eq!((api.limit, api.standing.unwrap().remaining), ("api", Some(7)));
/// assert!(mail.shadow && !mail.is_granted()); // it would refuse if it were enforced
/// # Ok::<(), plimsoll_engine::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Answer<'d> {
    /// The name of the limit.
    pub limit: &'d str,
    /// The cost that was asked for.
    pub cost: u64,
    /// Whether the limit is in shadow mode: it counts, and refuses nothing.
    pub shadow: bool,
    /// The standing of the key after the decision. `None` for a tier that is unlimited.
    pub standing: Option<Standing>,
    /// The refusal, or in shadow mode the refusal that it would have been.
    pub denied: Option<&'d Denied>,
    /// The metadata of the limit in the file: a phrase, a code, other pairs.
    pub metadata: Option<&'d Metadata>,
}

impl Answer<'_> {
    /// Returns whether the limit grants the cost. The answer of a limit in shadow mode may be `false` although the
    /// decision is admitted.
    #[must_use]
    pub const fn is_granted(&self) -> bool {
        self.denied.is_none()
    }

    /// Returns the time after which the limit would grant the cost, if no other demand came. `None` if it grants, or if the time is
    /// unknown.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.denied?.retry_after()
    }
}

/// An admitted decision, with the permits of its limits.
///
/// Dropping it returns the slots of concurrency limits; the costs of rates stay charged. [`settle`](Self::settle) corrects a
/// cost that was estimated. [`finish`](Self::finish) returns the slots with an outcome, which adaptive limits learn from.
/// [`undo`](Self::undo) refunds rates too.
///
/// ```
/// use plimsoll_engine::{Ask, Limits};
///
/// let limits = Limits::from_yaml("limits: { tokens: { rate: 100/h, burst: 100 }, slots: { concurrency: 1 } }")?;
/// let asks = [Ask::new("tokens").cost(40), Ask::new("slots")];
/// let mut hold = limits.try_decide(&asks).unwrap();
/// assert!(limits.try_decide(&asks).is_err()); // the slot is taken
/// hold.settle("tokens", 10); // it cost less than was estimated
/// drop(hold); // the slot is returned
/// let hold = limits.try_decide(&asks).unwrap();
/// assert_eq!(hold.answers().next().unwrap().standing.unwrap().remaining, Some(50));
/// # Ok::<(), plimsoll_engine::ConfigError>(())
/// ```
#[must_use = "permits are returned when the hold is dropped"]
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

    /// Stores the refusal of a member in shadow mode.
    pub(crate) fn would_refuse(
        &mut self,
        index: usize,
        denied: Denied,
        beyond: Option<ShadowExcess>,
    ) {
        let denials = &mut self.members.denials;
        if denials.len() <= index {
            denials.resize_with(index + 1, || None);
        }
        denials[index] = Some(denied);
        self.members.beyond.extend(beyond);
    }

    /// Returns the answer of each limit, in the order of the asks.
    pub fn answers(&self) -> impl Iterator<Item = Answer<'_>> {
        answers(&self.members)
    }

    /// Returns the permits that the hold returns, in the order of the asks. Limits whose permits are not returned have
    /// none.
    pub fn permits(&self) -> impl Iterator<Item = &Permit<'static>> {
        self.members.permits.iter().flatten()
    }

    /// Returns the metadata of the limits, each with the name of its limit.
    pub fn metadata(&self) -> impl Iterator<Item = (&str, &Metadata)> {
        let limits = self.members.list.iter().map(|it| self.members.limit(it));
        limits.filter_map(|limit| Some((&*limit.name, limit.metadata.as_ref()?)))
    }

    /// Returns whether a permit is returned when the work is done, as slots are and tokens are not.
    #[must_use]
    pub fn gives_back(&self) -> bool {
        self.permits().any(Permit::gives_back)
    }

    /// The cost that was asked of the limit at this position.
    pub(crate) fn cost_at(&self, index: usize) -> u64 {
        self.members.list.get(index).map_or(0, |member| member.cost)
    }

    /// Corrects the cost of the limit at this position to the actual `cost`.
    ///
    /// A lower cost refunds the difference. A higher one is charged in full, as a debt if it exceeds the limit. Does nothing if
    /// there is no such position.
    pub fn settle_at(&mut self, index: usize, cost: u64) {
        let permit = self.members.permits.get_mut(index).and_then(Option::take);
        let (Some(member), Some(mut permit)) = (self.members.list.get(index), permit) else {
            return;
        };
        self.members.subject(member).settle(&mut permit, cost);
        self.members.store_permit(index, permit);
    }

    /// Corrects the cost of a limit by name: see [`settle_at`](Self::settle_at). Does nothing if the limit is not part of the
    /// decision.
    pub fn settle(&mut self, limit: &str, cost: u64) {
        let is = |member: &Member| &*self.members.limit(member).name == limit;
        if let Some(index) = self.members.list.iter().position(is) {
            self.settle_at(index, cost);
        }
    }

    /// Returns the permits with the outcome of the work, which adaptive limits learn from. Dropping the hold is the same as
    /// [`Outcome::Ignore`].
    pub fn finish(mut self, outcome: Outcome) {
        self.give_back(outcome);
    }

    /// Like [`finish`](Self::finish), in place.
    #[doc(hidden)]
    pub fn give_back(&mut self, outcome: Outcome) {
        for permit in self.members.permits.iter_mut().flatten() {
            permit.give_back(outcome);
        }
        self.members.beyond.clear();
    }

    /// Undoes the decision: returns the permits, and refunds rates, as if it had not been made.
    ///
    /// ```
    /// use plimsoll_engine::{Ask, Limits};
    ///
    /// let limits = Limits::from_yaml("limits: { mail: { rate: 1/h, burst: 1 } }")?;
    /// let hold = limits.try_decide(&[Ask::new("mail")]).unwrap();
    /// hold.undo(); // nothing was sent after all
    /// assert!(limits.try_decide(&[Ask::new("mail")]).is_ok());
    /// # Ok::<(), plimsoll_engine::ConfigError>(())
    /// ```
    pub fn undo(mut self) {
        self.undo_all();
    }

    /// Like [`undo`](Self::undo), in place.
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

/// A refused decision. Nothing was taken from any limit; limits that count refusals have counted it.
///
/// ```
/// use plimsoll_engine::{Ask, Limits};
///
/// let limits = Limits::from_yaml("limits: { second: { rate: 1/s, burst: 1 }, hour: { rate: 1/h, burst: 1 } }")?;
/// let asks = [Ask::new("second"), Ask::new("hour")];
/// let _ = limits.try_decide(&asks);
/// let refusal = limits.try_decide(&asks).unwrap_err();
/// assert_eq!((refusal.limit(), refusal.binding()), ("hour", Some(1))); // it takes longest to grant
/// assert!(refusal.answers().all(|answer| !answer.is_granted()));
/// # Ok::<(), plimsoll_engine::ConfigError>(())
/// ```
#[derive(Clone)]
pub struct Refusal(Box<Refused>);

#[derive(Clone)]
struct Refused {
    members: Members,
    /// The position of the binding limit, if any limit was asked.
    binding: Option<usize>,
    denied: Denied,
    compensated: bool,
}

impl Refusal {
    /// A refusal by the members with a denial. The binding one is the one that takes longest to grant.
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
                // Among equals, the first one binds.
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
        // A gate adds its metadata itself; a store and an `all` do not.
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

    /// A refusal before the decision, because the limit of this name cannot be asked.
    pub(crate) fn before(mut members: Members, limit: &str, denied: Denied) -> Self {
        // Members before it may have granted already.
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

    /// Adds the standings that stores reported, and whether grants of stores were undone.
    #[cfg(feature = "redis")]
    pub(crate) fn with_store_standings(
        mut self,
        standings: StoreStandings,
        compensated: bool,
    ) -> Self {
        self.0.members.store_standings = standings;
        self.0.compensated = compensated;
        self
    }

    /// Returns whether one store granted, and was undone because another one refused. This can happen if a decision
    /// asks several stores, or several slots of a cluster. In the meantime, another decision may have been refused
    /// because of the grant.
    #[must_use]
    pub fn is_compensated(&self) -> bool {
        self.0.compensated
    }

    /// Returns the answer of each limit, in the order of the asks.
    pub fn answers(&self) -> impl Iterator<Item = Answer<'_>> {
        answers(&self.0.members)
    }

    /// Returns the refusal of the binding limit: the limit that refuses and takes longest to grant. Its
    /// [`retry_after`](Denied::retry_after) is that of the whole decision.
    #[must_use]
    pub fn denied(&self) -> &Denied {
        &self.0.denied
    }

    /// Returns the position of the binding limit among the [answers](Self::answers). `None` if no limit was asked,
    /// because a key is missing or the file has no such limit.
    #[must_use]
    pub fn binding(&self) -> Option<usize> {
        self.0.binding
    }

    /// Returns the name of the binding limit.
    #[must_use]
    pub fn limit(&self) -> &str {
        self.0.denied.limiter().unwrap_or_default()
    }

    /// Returns the time after which the decision would be admitted, if no other demand came. `None` if it is not known.
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

/// The answer of each member, in the order of the asks.
pub(crate) fn answers(members: &Members) -> impl Iterator<Item = Answer<'_>> {
    members.list.iter().enumerate().map(|(index, member)| {
        let limit = members.limit(member);
        let permit = members.permits.get(index).and_then(Option::as_ref);
        let standing = store_standing(&members.store_standings, index)
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

fn store_standing(standings: &StoreStandings, index: usize) -> Option<Standing> {
    let mut standings = standings.iter();
    standings
        .find(|(at, _)| *at == index)
        .map(|(_, standing)| *standing)
}
