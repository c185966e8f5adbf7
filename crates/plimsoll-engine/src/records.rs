//! Decisions over recorded requests: lines of an access log, with the status of the response.

use http::Extensions;
use plimsoll::{Demand, Reason};
use plimsoll_config::uses::{CostPart, CostSpec};
use plimsoll_tower::Head;

use crate::decide::Decide;
use crate::decision::{Hold, Refusal};
use crate::limits::Limits;
use crate::members::Members;
use crate::request::BodyValues;
use crate::resolve::resolve;
use crate::settle::late;
use crate::state::Member;

/// The response to a request, as far as a record contains it.
///
/// ```
/// use plimsoll_engine::{Limits, RecordedResponse};
/// use plimsoll_tower::Head;
///
/// let limits = Limits::from_yaml("
/// limits: { failed: { rate: 2/h, cost: { status: [401] } } }
/// routes: [{ match: /login, limits: [failed] }]
/// ")?;
/// let request = http::Request::post("/login").body(())?;
/// for status in [200, 401, 200, 401] {
///     let mut decide = limits.decide_request(&Head::of(&request), 1).unwrap();
///     let mut hold = decide.now().unwrap().unwrap();
///     hold.settle_recorded(&RecordedResponse::new(status));
/// }
/// assert!(limits.peek_request(&Head::of(&request)).unwrap().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct RecordedResponse {
    /// The status of the response.
    pub status: u16,
    /// The bytes of the response body, if they are known.
    pub sent: Option<u64>,
    /// The bytes of the request body, if they are known.
    pub received: Option<u64>,
}

impl RecordedResponse {
    /// Creates a response with this status. Nothing else is known about it.
    #[must_use]
    pub const fn new(status: u16) -> Self {
        Self {
            status,
            sent: None,
            received: None,
        }
    }

    /// The actual cost of the request. `None` if the record does not contain it, or the cost was known before.
    fn cost(&self, cost: &CostSpec) -> Option<u64> {
        if let CostSpec::Status(ranges) = cost {
            return Some(
                ranges
                    .iter()
                    .any(|range| range.contains(self.status))
                    .into(),
            );
        }
        match late(cost)? {
            CostPart::ResponseBytes => self.sent,
            CostPart::RequestBytes => self.received,
            _ => None,
        }
    }
}

/// One ask of a decision, with the position of its limit. [`Hold::asked`] and [`Refusal::asked`] list them.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct AskRecord<'a> {
    /// The position of the limit in the file.
    pub limit: usize,
    /// The key; empty if the ask has none.
    pub key: &'a str,
    /// The cost that was asked for.
    pub cost: u64,
    /// The reason of its refusal, or in shadow mode of the refusal that it would have been.
    pub denied: Option<Reason>,
}

impl std::fmt::Debug for AskRecord<'_> {
    /// Leaves out the key, because it may be a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut asked = f.debug_struct("AskRecord");
        asked.field("limit", &self.limit).field("cost", &self.cost);
        asked.field("denied", &self.denied).finish_non_exhaustive()
    }
}

fn asked(members: &Members) -> impl Iterator<Item = AskRecord<'_>> {
    let list = members.list.iter().enumerate();
    list.map(|(index, member)| AskRecord {
        limit: member.limit,
        key: members.key(member),
        cost: member.cost,
        denied: (members.denials.get(index))
            .and_then(Option::as_ref)
            .map(plimsoll::Denied::reason),
    })
}

impl Hold {
    /// Returns the position in the file of the route that named the limits, if one did.
    #[must_use]
    pub fn route(&self) -> Option<usize> {
        self.members().route
    }

    /// Returns the asks of the decision. Cheaper than [`answers`](Self::answers), because it does not read standings.
    pub fn asked(&self) -> impl Iterator<Item = AskRecord<'_>> {
        asked(self.members())
    }

    /// Returns whether a cost depends on the response.
    #[must_use]
    pub fn settles(&self) -> bool {
        let members = self.members();
        let route = members
            .route
            .and_then(|route| members.plan.routes.get(route));
        route.is_some_and(|route| route.settles)
    }

    /// Corrects the costs of a request by its recorded response. A cost that the record does not contain stays as it
    /// was charged.
    pub fn settle_recorded(&mut self, response: &RecordedResponse) {
        for index in 0..self.members().list.len() {
            let members = self.members();
            let used = members.list[index].used;
            let route = members
                .route
                .and_then(|route| members.plan.routes.get(route));
            let cost = route.and_then(|route| Some(&route.uses.get(used)?.cost));
            if let Some(cost) = cost.and_then(|cost| response.cost(cost)) {
                self.settle_at(index, cost);
            }
        }
    }
}

impl Refusal {
    /// Returns the position in the file of the route that named the limits, if one did.
    #[must_use]
    pub fn route(&self) -> Option<usize> {
        self.members().route
    }

    /// Returns the asks of the decision. Cheaper than [`answers`](Self::answers), because it does not read standings.
    pub fn asked(&self) -> impl Iterator<Item = AskRecord<'_>> {
        asked(self.members())
    }
}

impl Limits {
    /// Makes one decision for each limit of a request's route, as if it were the only one. `select` chooses limits by their
    /// position in the file; `each` gets that position and the decision. A refusal of one limit does not affect the others.
    ///
    /// ```
    /// use plimsoll_engine::Limits;
    /// use plimsoll_tower::Head;
    ///
    /// let limits = Limits::from_yaml("
    /// limits: { one: 1/h, two: 2/h }
    /// routes: [{ match: /**, limits: [one, two] }]
    /// ")?;
    /// let request = http::Request::get("/").body(())?;
    /// let mut refused = [0, 0];
    /// for _ in 0..5 {
    ///     limits.decide_each(&Head::of(&request), 1, |_| true, |limit, mut decide| {
    ///         refused[limit] += u32::from(decide.now().unwrap().is_err());
    ///     });
    /// }
    /// assert_eq!(refused, [4, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn decide_each(
        &self,
        head: &Head<'_>,
        like: impl Into<Demand>,
        select: impl Fn(usize) -> bool,
        mut each: impl FnMut(usize, Decide),
    ) {
        let plan = self.plan();
        let Ok(Some(members)) = resolve(&plan, head, like.into(), false) else {
            return;
        };
        for member in members.list.iter().filter(|member| select(member.limit)) {
            let mut alone = Members::new(std::sync::Arc::clone(&plan), members.like);
            alone.route = members.route;
            alone.keys.push_str(members.key(member));
            let key = 0..alone.keys.len();
            alone.list.push(Member {
                key,
                ..member.clone()
            });
            each(member.limit, Decide::start(alone));
        }
    }
}

/// Marks the body of a request as unknown: limits find no keys, tiers or costs in it, and do not refuse because the
/// [`BodyLayer`](crate::BodyLayer) is missing.
pub fn unknown_body(extensions: &mut Extensions) {
    extensions.insert(BodyValues::default());
}
