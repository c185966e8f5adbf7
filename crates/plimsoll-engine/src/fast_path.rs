//! The fast path: decisions without a [`Hold`](crate::Hold).
//!
//! A hold stores what is needed to report standings, to settle a cost and to undo the decision. A caller that needs none of
//! that takes from its limits directly. There are two such callers: the HTTP layer, for routes whose costs are fixed and whose
//! responses carry no standings ([`take`]), and servers that ask one rate for one key ([`Limits::take_now`]). Where the fast
//! path does not apply it takes nothing, and the caller makes an ordinary decision.

use std::borrow::Cow;

use plimsoll::{Demand, Denied, Grant, Moment, Permit, Standing};
use plimsoll_config::uses::CostSpec;
use plimsoll_tower::Head;

use crate::ask::Ask;
use crate::decision::Answer;
use crate::keys::AddressText;
use crate::limit::Limit;
use crate::limits::Limits;
use crate::plan::{MAX_FAST_LIMITS as MAX, Plan, Route, RouteUse};
use crate::pool;

/// The result of the fast path.
pub(crate) enum FastPath {
    /// All limits have granted.
    Granted,
    /// The only limit of the route has refused, and the refusal is counted.
    Denied(Denied),
    /// A limit does not grant at once. Nothing is held, and the slow path decides.
    Refused,
    /// The fast path does not apply. Nothing is held, and an ordinary decision follows.
    Undecided,
}

/// Takes from all limits of a route, or from none. At most one of them grants a permit that has to be returned; it is stored
/// in `kept`.
#[inline]
pub(crate) fn take(
    plan: &Plan,
    route: &Route,
    head: &Head<'_>,
    like: Demand,
    kept: &mut Option<Permit<'static>>,
) -> FastPath {
    if !route.fast || plan.subscribers.any() {
        return FastPath::Undecided;
    }
    let [by] = &route.uses[..] else {
        return take_all(plan, route, head, like, kept);
    };
    let (limit, cost) = (&plan.limits[by.limit], fixed(by));
    let mut address = AddressText::default();
    let Some(key) = key(limit, head, route, &mut address) else {
        return FastPath::Undecided;
    };
    if limit.own().spend(&key, cost).is_none()
        && let Some(refused) = ask(limit, &key, like.cost(cost), kept)
    {
        return refused;
    }
    if pool::sampled() {
        limit.stats.sample(&key, cost);
    }
    FastPath::Granted
}

/// Asks the only limit of a route when `Handle::spend` has decided nothing. `None` if it grants: the permit is stored in
/// `kept`. A refusal is counted.
#[inline(never)]
fn ask(
    limit: &Limit,
    key: &str,
    demand: Demand,
    kept: &mut Option<Permit<'static>>,
) -> Option<FastPath> {
    let own = limit.own();
    let has_queue = own.has_queue();
    // A keyed limit without a queue is asked once: the answer is exact, and a second lookup is saved.
    if has_queue || !own.is_keyed() {
        *kept = own.attempt_slowly(key, demand);
        match kept {
            Some(_) => return None,
            None if has_queue => return Some(FastPath::Refused),
            None => {}
        }
    }
    let subject = own.of(key);
    let denied = match subject.try_acquire(demand) {
        Ok(permit) => {
            *kept = Some(permit);
            return None;
        }
        Err(denied) => denied,
    };
    // As in a decision: the times are those of the next demand, unless it is refused for another reason.
    let denied = match subject.estimate(0, demand.at_once()) {
        Err(next) if next.reason() == denied.reason() => next,
        _ => denied,
    };
    let denied = match denied.limiter() {
        Some(name) if name == &*limit.name => denied,
        _ => denied.with_limiter(&limit.name),
    };
    limit.stats.refused(&denied, key);
    pool::sampled();
    Some(FastPath::Denied(denied))
}

/// What the limits of a route have granted so far.
struct Taken {
    /// The moment of each grant, for limits that are undone by moment and cost.
    at: [Moment; MAX],
    /// The index of the limit whose permit is in `kept`; [`MAX`] if none is.
    kept: usize,
}

/// Like [`take`], for a route with several limits.
#[inline(never)]
fn take_all(
    plan: &Plan,
    route: &Route,
    head: &Head<'_>,
    like: Demand,
    kept: &mut Option<Permit<'static>>,
) -> FastPath {
    if pool::is_sampled() {
        return FastPath::Undecided;
    }
    let mut taken = Taken {
        at: [Moment::ORIGIN; MAX],
        kept: MAX,
    };
    for (index, (by, at)) in route.uses.iter().zip(&mut taken.at).enumerate() {
        let (limit, cost) = (&plan.limits[by.limit], fixed(by));
        let mut address = AddressText::default();
        let Some(key) = key(limit, head, route, &mut address) else {
            undo(plan, route, head, like, (index, &taken), kept);
            return FastPath::Undecided;
        };
        let granted = match limit.own().spend(&key, cost) {
            Some(moment) => {
                *at = moment;
                true
            }
            None if kept.is_some() => {
                undo(plan, route, head, like, (index, &taken), kept);
                return FastPath::Undecided;
            }
            None => {
                *kept = limit.own().attempt_slowly(&key, like.cost(cost));
                taken.kept = index;
                kept.is_some()
            }
        };
        if !granted {
            undo(plan, route, head, like, (index, &taken), kept);
            return FastPath::Refused;
        }
    }
    pool::sampled();
    FastPath::Granted
}

/// The key of a request for a limit with at most one key source. `None` if the request has no such key.
#[inline]
fn key<'a>(
    limit: &'a Limit,
    head: &Head<'a>,
    route: &'a Route,
    address: &'a mut AddressText,
) -> Option<Cow<'a, str>> {
    match &limit.key[..] {
        [source] => source.read(head, &route.name, address),
        _ => Some("".into()),
    }
}

/// The cost of a limit on a route of the fast path, where all costs are fixed.
#[inline]
const fn fixed(by: &RouteUse) -> u64 {
    match by.cost {
        CostSpec::Fixed(cost) => cost,
        _ => 1,
    }
}

/// Undoes the grants of the first `first` limits. Their keys are read again.
#[cold]
fn undo(
    plan: &Plan,
    route: &Route,
    head: &Head<'_>,
    like: Demand,
    (first, taken): (usize, &Taken),
    kept: &mut Option<Permit<'static>>,
) {
    for (index, by) in route.uses.iter().take(first).enumerate().rev() {
        let limit = &plan.limits[by.limit];
        let permit = match index == taken.kept {
            true => kept.take(),
            false => {
                let grant = Grant::of(like.cost(fixed(by)));
                Some(Permit::spent(grant.taken(taken.at[index]).timed(true)))
            }
        };
        let mut address = AddressText::default();
        let key = key(limit, head, route, &mut address);
        if let Some(permit) = permit {
            limit.own().of(&key.unwrap_or_default()).undo(permit);
        }
    }
}

impl Limits {
    /// Fast path for one ask of one rate: takes the cost and returns the standing of the key, without a [`Hold`](crate::Hold).
    ///
    /// Returns `None`, and takes nothing, if the limit is not a keyed rate in memory, is in shadow mode or has tiers, does not
    /// grant at once, or if there are subscribers to events. [`decide`](Self::decide) then decides.
    #[doc(hidden)]
    #[must_use]
    pub fn take_now(&self, ask: Ask<'_>) -> Option<Standing> {
        let plan = self.plan();
        let limit = &plan.limits[plan.limit(ask.limit)?];
        if plan.subscribers.any() {
            return None;
        }
        take_now(limit, ask)
    }

    /// Like [`take_now`](Self::take_now), with its result as the answer of a decision. Also returns `None` if the ask
    /// names a tier, or the limit has metadata, which belongs in the answer.
    #[doc(hidden)]
    #[must_use]
    pub fn answer_now<'a>(&self, ask: Ask<'a>) -> Option<Answer<'a>> {
        let plan = self.plan();
        let limit = &plan.limits[plan.limit(ask.limit)?];
        if plan.subscribers.any() || limit.metadata.is_some() || ask.tier.is_some() {
            return None;
        }
        let standing = take_now(limit, ask)?;
        Some(Answer {
            limit: ask.limit,
            cost: ask.cost,
            shadow: false,
            standing: Some(standing),
            denied: None,
            metadata: None,
        })
    }
}

fn take_now(limit: &Limit, ask: Ask<'_>) -> Option<Standing> {
    let key = ask.key.unwrap_or_default();
    let standing = limit.take_now(key, ask.cost)?;
    if pool::sampled() {
        limit.stats.sample(key, ask.cost);
    }
    Some(standing)
}

#[cfg(test)]
mod tests;
