//! The fast path of the layer: requests of which nothing is needed any more once their limits have granted.
//!
//! A [`Hold`](crate::Hold) keeps what it takes to say how limits stand, to settle a cost and to undo a decision. Where the
//! response says nothing of limits and every cost is known before, nobody asks for that, and only what comes back is kept.

use std::borrow::Cow;

use plimsoll::{Demand, Grant, Moment, Permit};
use plimsoll_config::uses::CostSpec;
use plimsoll_tower::Head;

use crate::keys::AddressText;
use crate::limit::Limit;
use crate::plan::{MOST_QUICK as MOST, Plan, Route, RouteUse};
use crate::pool;

/// What it came to.
pub(crate) enum Quick {
    Granted,
    /// A limit does not grant at once. Nothing is held.
    Refused,
    /// Nothing is decided or held: it is decided in the other way.
    Open,
}

/// Takes for a request by its route, all or none. At most one permit has to be kept, and is left in `kept`.
#[inline]
pub(crate) fn take(
    plan: &Plan,
    route: &Route,
    head: &Head<'_>,
    like: Demand,
    kept: &mut Option<Permit<'static>>,
) -> Quick {
    if !route.quick || plan.audience.is_there() {
        return Quick::Open;
    }
    let [by] = &route.uses[..] else {
        return take_all(plan, route, head, like, kept);
    };
    let (limit, cost) = (&plan.limits[by.limit], fixed(by));
    let mut address = AddressText::default();
    let Some(key) = key(limit, head, route, &mut address) else {
        return Quick::Open;
    };
    if limit.own().spend(&key, cost).is_none() {
        *kept = limit.own().attempt_slowly(&key, like.cost(cost));
        if kept.is_none() {
            return Quick::Refused;
        }
    }
    if pool::sampled() {
        limit.seen.sample(&key, cost);
    }
    Quick::Granted
}

/// What was taken so far.
struct Taken {
    /// When, of limits that need not be told who returns it.
    at: [Moment; MOST],
    /// The limit whose permit is kept.
    kept: usize,
}

/// The same for several limits.
#[inline(never)]
fn take_all(
    plan: &Plan,
    route: &Route,
    head: &Head<'_>,
    like: Demand,
    kept: &mut Option<Permit<'static>>,
) -> Quick {
    if pool::is_sampled() {
        return Quick::Open;
    }
    let mut taken = Taken {
        at: [Moment::ORIGIN; MOST],
        kept: MOST,
    };
    for (index, (by, at)) in route.uses.iter().zip(&mut taken.at).enumerate() {
        let (limit, cost) = (&plan.limits[by.limit], fixed(by));
        let mut address = AddressText::default();
        let Some(key) = key(limit, head, route, &mut address) else {
            undo(plan, route, head, like, (index, &taken), kept);
            return Quick::Open;
        };
        let granted = match limit.own().spend(&key, cost) {
            Some(moment) => {
                *at = moment;
                true
            }
            None if kept.is_some() => {
                undo(plan, route, head, like, (index, &taken), kept);
                return Quick::Open;
            }
            None => {
                *kept = limit.own().attempt_slowly(&key, like.cost(cost));
                taken.kept = index;
                kept.is_some()
            }
        };
        if !granted {
            undo(plan, route, head, like, (index, &taken), kept);
            return Quick::Refused;
        }
    }
    pool::sampled();
    Quick::Granted
}

/// The key of a request for a limit on such a route. `None` if it has none.
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

/// The cost of a limit on such a route.
#[inline]
const fn fixed(by: &RouteUse) -> u64 {
    match by.cost {
        CostSpec::Fixed(cost) => cost,
        _ => 1,
    }
}

/// Undoes what the first limits have granted. Their keys are read again.
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
