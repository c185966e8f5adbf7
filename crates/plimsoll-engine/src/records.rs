//! Decisions over requests of which a record is known: a line of a log, with how it was answered.

use http::Extensions;
use plimsoll::{Demand, Reason};
use plimsoll_config::uses::{CostPart, CostSpec};
use plimsoll_tower::Head;

use crate::decide::Decide;
use crate::decision::{Hold, Refusal};
use crate::limits::Limits;
use crate::members::Members;
use crate::parts::Member;
use crate::request::BodyValues;
use crate::resolve::resolve;
use crate::settle::late;

/// How a request was served, as far as a record tells.
///
/// ```
/// use plimsoll_engine::{Limits, Served};
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
///     hold.settle_served(&Served::new(status));
/// }
/// assert!(limits.peek_request(&Head::of(&request)).unwrap().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Served {
    /// The status of the answer.
    pub status: u16,
    /// The bytes of the answer's body, if they are known.
    pub sent: Option<u64>,
    /// The bytes of the request's body, if they are known.
    pub received: Option<u64>,
}

impl Served {
    /// Answered with this status; nothing else is known.
    #[must_use]
    pub const fn new(status: u16) -> Self {
        Self {
            status,
            sent: None,
            received: None,
        }
    }

    /// What a request cost that was served so. `None` if the record does not say, or it was known before.
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

/// What was asked of one limit in a decision.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Asked<'a> {
    /// The position of the limit in the file.
    pub limit: usize,
    /// The key; empty if it has none.
    pub key: &'a str,
    /// What was asked.
    pub cost: u64,
    /// Why it refuses, or would refuse if it were enforced.
    pub denied: Option<Reason>,
}

impl std::fmt::Debug for Asked<'_> {
    /// Without the key: it may be a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut asked = f.debug_struct("Asked");
        asked.field("limit", &self.limit).field("cost", &self.cost);
        asked.field("denied", &self.denied).finish_non_exhaustive()
    }
}

fn asked(members: &Members) -> impl Iterator<Item = Asked<'_>> {
    let list = members.list.iter().enumerate();
    list.map(|(index, member)| Asked {
        limit: member.limit,
        key: members.key(member),
        cost: member.cost,
        denied: (members.denials.get(index))
            .and_then(Option::as_ref)
            .map(plimsoll::Denied::reason),
    })
}

impl Hold {
    /// The position in the file of the route that named the limits, if one did.
    #[must_use]
    pub fn route(&self) -> Option<usize> {
        self.members().route
    }

    /// What was asked of which limits. Unlike [`answers`](Self::answers) it does not look how they stand.
    pub fn asked(&self) -> impl Iterator<Item = Asked<'_>> {
        asked(self.members())
    }

    /// Whether what it costs depends on how the request is answered.
    #[must_use]
    pub fn settles(&self) -> bool {
        let members = self.members();
        let route = members
            .route
            .and_then(|route| members.plan.routes.get(route));
        route.is_some_and(|route| route.settles)
    }

    /// Charges what a request of a route cost that was served like this. What the record does not tell stays as it was taken.
    pub fn settle_served(&mut self, served: &Served) {
        for index in 0..self.members().list.len() {
            let members = self.members();
            let used = members.list[index].used;
            let route = members
                .route
                .and_then(|route| members.plan.routes.get(route));
            let cost = route.and_then(|route| Some(&route.uses.get(used)?.cost));
            if let Some(cost) = cost.and_then(|cost| served.cost(cost)) {
                self.settle_at(index, cost);
            }
        }
    }
}

impl Refusal {
    /// The position in the file of the route that named the limits, if one did.
    #[must_use]
    pub fn route(&self) -> Option<usize> {
        self.members().route
    }

    /// What was asked of which limits. Unlike [`answers`](Self::answers) it does not look how they stand.
    pub fn asked(&self) -> impl Iterator<Item = Asked<'_>> {
        asked(self.members())
    }
}

impl Limits {
    /// Decides by the routes of the file as if each limit stood there alone: one decision for each limit of the request that
    /// `select` chooses by its position in the file. What one limit refuses costs the others as much as what it admits.
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

/// Says that the body of a request is not known: limits whose keys, tiers or costs are read from it find nothing there.
pub fn unknown_body(extensions: &mut Extensions) {
    extensions.insert(BodyValues::default());
}
