//! The members of a decision whose limits are in stores: asked together, in one round trip for each store.

use std::future::Future;
use std::pin::Pin;

use plimsoll::{Demand, Permit};
use plimsoll_redis::{FleetAsk, FleetKey, StoreAnswers};

use crate::members::Members;
use crate::state::{Denials, Member, StoreStandings};

/// The answers of the stores of a decision.
pub(crate) struct StoreDecision {
    /// The positions of the members that were asked.
    positions: Vec<usize>,
    answers: StoreAnswers,
    /// The permits, if all enforced members have granted.
    pub(crate) permits: Option<Vec<(usize, Permit<'static>)>>,
    pub(crate) compensated: bool,
}

/// The future of [`ask`].
pub(crate) type StoreFuture = Pin<Box<dyn Future<Output = StoreDecision> + Send>>;

/// A subject in a store, with the sum of the costs of all members that ask it.
struct Subject {
    first: usize,
    key: FleetKey,
    cost: u64,
    shadow: bool,
}

/// Asks the stores of all members whose limit is in one, with the priority and until the deadline of `like`.
pub(crate) fn ask(members: &Members, like: Demand) -> StoreFuture {
    let (positions, places, subjects) = subjects(members);
    Box::pin(async move {
        let asks: Vec<FleetAsk<'_>> = subjects.iter().map(Subject::ask).collect();
        let decision = FleetAsk::decide_all(&asks, like).await;
        let each = decision.answers().clone();
        let compensated = decision.is_compensated();
        let answers = places.iter().map(|&place| each[place].clone()).collect();
        let permits = decision.into_result().ok().map(|permits| {
            let charged =
                |(place, subject): &(usize, &Subject)| !subject.shadow || each[*place].grants();
            let charged = subjects.iter().enumerate().filter(charged);
            let firsts = charged.map(|(_, subject)| subject.first);
            firsts.zip(permits.into_each()).collect()
        });
        StoreDecision {
            positions,
            answers,
            permits,
            compensated,
        }
    })
}

impl Subject {
    fn ask(&self) -> FleetAsk<'_> {
        let ask = FleetAsk::new(&self.key, self.cost);
        match self.shadow {
            true => ask.shadow(),
            false => ask,
        }
    }
}

/// Refunds the cost of a member to its store. Returns false if its limit is in no store.
pub(crate) fn refund(members: &Members, member: &Member) -> bool {
    if !members.handle(member).is_remote() {
        return false;
    }
    let id = members.limit(member).id(member.terms);
    let set = members.plan.set.as_ref();
    if let Some(key) = set.and_then(|set| set.fleet_key(id, members.key(member))) {
        key.refund(member.cost);
    }
    true
}

/// The positions of the members in stores, the index of the subject of each, and the subjects.
fn subjects(members: &Members) -> (Vec<usize>, Vec<usize>, Vec<Subject>) {
    let mut positions = Vec::new();
    let mut places = Vec::new();
    let mut subjects: Vec<Subject> = Vec::new();
    let set = members.plan.set.as_ref();
    for (index, member) in members.list.iter().enumerate() {
        if !members.handle(member).is_remote() {
            continue;
        }
        let (limit, text) = (members.limit(member), members.key(member));
        let same = |subject: &Subject| {
            let other = &members.list[subject.first];
            (other.limit, other.terms) == (member.limit, member.terms) && members.key(other) == text
        };
        let known = subjects.iter().position(same);
        let place = match known {
            Some(place) => {
                subjects[place].cost = subjects[place].cost.saturating_add(member.cost);
                place
            }
            None => {
                let key = set.and_then(|set| set.fleet_key(limit.id(member.terms), text));
                let Some(key) = key else {
                    continue;
                };
                subjects.push(Subject {
                    first: index,
                    key,
                    cost: member.cost,
                    shadow: limit.shadow,
                });
                subjects.len() - 1
            }
        };
        positions.push(index);
        places.push(place);
    }
    (positions, places, subjects)
}

/// Whether a member is in a store.
pub(crate) fn has_any(members: &Members) -> bool {
    let is_remote = |member: &Member| members.handle(member).is_remote();
    members.list.iter().any(is_remote)
}

impl StoreDecision {
    /// The standing of each limit, by position.
    pub(crate) fn standings(&self) -> StoreStandings {
        let each = self.positions.iter().zip(self.answers.iter());
        each.map(|(&index, answer)| (index, answer.standing))
            .collect()
    }

    /// The denial of each of `members` members, also in shadow mode.
    pub(crate) fn denials(&self, members: usize) -> Denials {
        let mut denials = Denials::new();
        denials.resize_with(members, || None);
        for (&index, answer) in self.positions.iter().zip(self.answers.iter()) {
            denials[index] = answer.denied.clone();
        }
        denials
    }

    /// The position of the first enforced member that refuses.
    pub(crate) fn first_refuser(&self) -> Option<usize> {
        let mut each = self.positions.iter().zip(self.answers.iter());
        let refuses = each.find(|(_, answer)| !answer.shadow && !answer.grants());
        refuses.map(|(&index, _)| index)
    }
}
