//! Resolves a request, or a list of asks, to the members of a decision: route, limits, keys, terms and costs.

use std::ops::Range;
use std::sync::Arc;

use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use plimsoll::{Demand, Denied, Priority, Reason};
use plimsoll_config::uses::{CostPart, CostSpec, PrioritySpec, WithoutKey};
use plimsoll_tower::internals::BodyBytes;
use plimsoll_tower::{Head, PriorityFrom, PriorityHeader};

use crate::ask::Ask;
use crate::decision::Refusal;
use crate::keys::write_key;
use crate::limit::Limit;
use crate::members::Members;
use crate::plan::{Plan, Route, RouteUse};
use crate::request::BodyValues;
use crate::state::Member;

impl Plan {
    /// The first route of the file that matches this request.
    #[inline]
    pub(crate) fn route(&self, head: &Head<'_>) -> Option<usize> {
        let fits = |route: usize| self.routes[route].fits(head);
        self.router.find(head.uri().path(), fits)
    }
}

/// The members of a request by its route, for a decision: its keys have the tiers of the request from now on. `None` if no route
/// matches. With `take`, [simple](Limit::is_simple) limits are asked while they are resolved.
pub(crate) fn resolve(
    plan: &Arc<Plan>,
    head: &Head<'_>,
    like: Demand,
    take: bool,
) -> Result<Option<Members>, Refusal> {
    let Some(route) = plan.route(head) else {
        return Ok(None);
    };
    by_route(plan, route, head, like, take).map(Some)
}

/// Like [`resolve`], for a route that is known.
pub(crate) fn by_route(
    plan: &Arc<Plan>,
    route: usize,
    head: &Head<'_>,
    like: Demand,
    take: bool,
) -> Result<Members, Refusal> {
    let members = find(plan, route, head, like, take)?;
    members.note_terms();
    Ok(members)
}

/// Like [`resolve`], to look only: nothing is taken, and the tiers of keys are not stored.
pub(crate) fn look(
    plan: &Arc<Plan>,
    head: &Head<'_>,
    like: Demand,
) -> Result<Option<Members>, Refusal> {
    let Some(route) = plan.route(head) else {
        return Ok(None);
    };
    find(plan, route, head, like, false).map(Some)
}

fn find(
    plan: &Arc<Plan>,
    number: usize,
    head: &Head<'_>,
    like: Demand,
    take: bool,
) -> Result<Members, Refusal> {
    let route = &plan.routes[number];
    let mut members = Members::new(Arc::clone(plan), like);
    let (_, state) = members.split();
    state.route = Some(number);
    // A priority that is read from the request is known only after all members are resolved.
    let mut taking = take && route.simple && !route.says_priority;
    if (route.reads_body || route.counts_body) && lacks_body(route, head) {
        let limit = route
            .uses
            .first()
            .map_or("", |by| &*plan.limits[by.limit].name);
        return Err(Refusal::before(members, limit, Denied::new(Reason::NoKey)));
    }
    for (used, by) in route.uses.iter().enumerate() {
        let limit = &plan.limits[by.limit];
        let start = state.keys.len();
        if !limit.key.is_empty() && !write_key(&limit.key, head, &route.name, &mut state.keys) {
            match limit.without_key {
                WithoutKey::Skip => continue,
                WithoutKey::Share => {}
                _ => {
                    let denied = Denied::new(Reason::NoKey);
                    return Err(Refusal::before(members, &limit.name, denied));
                }
            }
        }
        let key = start..state.keys.len();
        let terms = match route.simple {
            true => 0,
            false => terms(limit, key.clone(), head, &route.name, &mut state.keys),
        };
        let cost = match by.cost {
            CostSpec::Fixed(cost) => cost,
            _ => cost_before(&by.cost, head),
        };
        if taking {
            taking = state.take(limit, key.clone(), cost);
        }
        state.list.push(Member {
            limit: by.limit,
            terms,
            key,
            cost,
            used,
        });
    }
    if state.failed {
        members.undo();
        return Ok(members);
    }
    if route.says_priority {
        let asked = state.list.iter().map(|member| &plan.limits[member.limit]);
        let said = asked.filter_map(|limit| limit.priority.as_ref());
        let priority = route.priority.as_ref().or_else(|| said.into_iter().next());
        if let Some(priority) = priority {
            state.like = state.like.priority(priority_of(priority, head));
        }
    }
    Ok(members)
}

/// The members of a list of asks. With `take`, [simple](Limit::is_simple) limits are asked while they are resolved.
pub(crate) fn find_asked(
    plan: Arc<Plan>,
    asks: &[Ask<'_>],
    like: Demand,
    take: bool,
) -> Result<Members, Refusal> {
    let mut members = Members::new(plan, like);
    let (plan, state) = members.split();
    let (mut taking, alone) = (take, asks.len() == 1);
    for ask in asks {
        let Some(number) = plan.limit(ask.limit) else {
            let denied = Denied::new(Reason::Closed);
            return Err(Refusal::before(members, ask.limit, denied));
        };
        let limit = &plan.limits[number];
        let start = state.keys.len();
        let key = ask.key.unwrap_or_default();
        state.keys.push_str(key);
        let terms = limit.terms_of(key, ask.tier);
        let key = start..state.keys.len();
        if taking {
            taking = limit.is_simple()
                && (alone || limit.is_undoable(0))
                && state.take(limit, key.clone(), ask.cost);
        }
        state.list.push(Member {
            limit: number,
            terms,
            key,
            cost: ask.cost,
            used: 0,
        });
    }
    if state.failed {
        members.undo();
    }
    Ok(members)
}

/// The ask of a request to one limit of its route: an owned [`Ask`]. [`Limits::asks_of`](crate::Limits::asks_of)
/// returns it.
///
/// It separates reading a request from deciding on it, for example to decide in another process, or later:
///
/// ```
/// use http::Request;
/// use plimsoll_engine::Limits;
/// use plimsoll_tower::Head;
///
/// let limits = Limits::from_yaml("
/// limits: { user: { rate: 10/s, key: header:x-user, cost: 2 } }
/// routes: [{ match: /**, limits: [user] }]
/// ")?;
/// let request = Request::get("/items").header("x-user", "anna").body(()).unwrap();
/// let (asks, _priority) = limits.asks_of(&Head::of(&request)).unwrap().unwrap();
/// assert_eq!((&*asks[0].limit, asks[0].key.as_deref(), asks[0].cost), ("user", Some("anna"), 2));
///
/// let asks: Vec<_> = asks.iter().map(|ask| ask.ask()).collect();
/// assert!(limits.try_decide(&asks).is_ok());
/// # Ok::<(), plimsoll_engine::ConfigError>(())
/// ```
///
/// `Debug` leaves out the key, because it may be a secret.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestAsk {
    /// The name of the limit.
    pub limit: Arc<str>,
    /// The key, for a limit with keys. `None` if the request has no key and shares one state with others that have none.
    pub key: Option<String>,
    /// The tier, for a limit with tiers.
    pub tier: Option<String>,
    /// The cost, as far as it is known before the request is served. 0 if all of it [is late](Self::is_late).
    pub cost: u64,
    /// Whether the cost is known only after the request has been served, and charged then.
    pub is_late: bool,
}

impl RequestAsk {
    /// Returns the ask, for [`Limits::try_decide`](crate::Limits::try_decide) and the other methods that decide by name.
    #[must_use]
    pub fn ask(&self) -> Ask<'_> {
        let mut ask = Ask::new(&self.limit).cost(self.cost);
        (ask.key, ask.tier) = (self.key.as_deref(), self.tier.as_deref());
        ask
    }
}

impl std::fmt::Debug for RequestAsk {
    /// Leaves out the key, because it may be a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.ask().fmt(f)
    }
}

/// The asks of a request and its priority. `None` if no route matches.
pub(crate) fn asks(
    plan: &Arc<Plan>,
    head: &Head<'_>,
) -> Result<Option<(Vec<RequestAsk>, Priority)>, Refusal> {
    let Some(members) = look(plan, head, Demand::ONE)? else {
        return Ok(None);
    };
    let route = members.route.and_then(|number| plan.routes.get(number));
    let ask = |member: &Member| {
        let limit = members.limit(member);
        let by = route.and_then(|route| route.uses.get(member.used));
        let is_late =
            |by: &RouteUse| matches!(&by.cost, CostSpec::Measured(part) if part.is_late());
        RequestAsk {
            limit: Arc::clone(&limit.name),
            key: (!member.key.is_empty()).then(|| members.key(member).to_owned()),
            tier: route.and_then(|route| tier(limit, head, &route.name)),
            cost: member.cost,
            is_late: by.is_some_and(is_late),
        }
    };
    let asks = members.list.iter().map(ask).collect();
    Ok(Some((asks, members.like.priority)))
}

/// The tier of a request, if the limit has tiers.
fn tier(limit: &Limit, head: &Head<'_>, route: &str) -> Option<String> {
    let mut tier = String::new();
    let by = limit.tier_source()?;
    by.write(head, route, &mut tier).then_some(tier)
}

/// Whether a limit needs the body of the request, which has not been read.
pub(crate) fn lacks_body(route: &Route, head: &Head<'_>) -> bool {
    let is_read = || head.extensions().get::<BodyValues>().is_some();
    let is_counted = || {
        !head.headers().contains_key(TRANSFER_ENCODING)
            || head.extensions().get::<BodyBytes>().is_some()
    };
    (route.reads_body && !is_read()) || (route.counts_body && !is_counted())
}

/// The terms of a key: those of its override or tier, or the limit's own. Uses the end of `keys` as a buffer for the tier.
pub(crate) fn terms(
    limit: &Limit,
    key: Range<usize>,
    head: &Head<'_>,
    route: &str,
    keys: &mut String,
) -> usize {
    let Some(by) = limit.tier_source() else {
        return limit.terms_of(&keys[key], None);
    };
    let start = keys.len();
    let written = by.write(head, route, keys);
    let terms = limit.terms_of(&keys[key], written.then_some(&keys[start..]));
    keys.truncate(start);
    terms
}

fn priority_of(priority: &PrioritySpec, head: &Head<'_>) -> Priority {
    match priority {
        PrioritySpec::Constant(priority) => *priority,
        PrioritySpec::Header(name) => {
            let header = PriorityHeader::named(name);
            header.map_or(Priority::Normal, |header| header.priority(head))
        }
        _ => Priority::Normal,
    }
}

/// The cost that is charged before a request is served.
pub(crate) fn cost_before(cost: &CostSpec, head: &Head<'_>) -> u64 {
    match cost {
        CostSpec::Fixed(cost) => *cost,
        // Until the status is known, a request counts as charged, so that requests sent at once gain nothing.
        CostSpec::Status(_) => 1,
        // A cost that is known only later is 0 now: the request is admitted while anything remains.
        CostSpec::Measured(part) => read(part, head).unwrap_or(match part.is_late() {
            true => 0,
            false => 1,
        }),
        CostSpec::Estimated {
            estimate,
            default,
            max,
            ..
        } => {
            let cost = read(estimate, head).unwrap_or(*default);
            max.map_or(cost, |max| cost.min(max))
        }
        _ => 1,
    }
}

/// The cost in one part of a request, read before it is served.
fn read(part: &CostPart, head: &Head<'_>) -> Option<u64> {
    match part {
        CostPart::ContentLength | CostPart::RequestBytes => {
            let lengths = head.headers().get_all(CONTENT_LENGTH).iter();
            lengths.map(|line| number(line.as_bytes())).max().flatten()
        }
        CostPart::Header(name) => number(head.headers().get(name)?.as_bytes()),
        CostPart::Json(pointer) => head.extensions().get::<BodyValues>()?.number(pointer),
        _ => None,
    }
}

/// A number that consists of digits only. Saturates.
pub(crate) fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        Some(number.saturating_mul(10).saturating_add(digit))
    })
}
