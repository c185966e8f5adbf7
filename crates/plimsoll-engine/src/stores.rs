//! The members of a decision that are kept in stores: asked together, in one round trip for each store.

use std::future::Future;
use std::pin::Pin;

use plimsoll::{Demand, Permit};
use plimsoll_redis::{FleetAsk, FleetKey, StoreAnswers};

use crate::members::Members;
use crate::parts::{Denials, Member, Told};

/// What stores answer.
pub(crate) struct StoresSaid {
    /// The positions of the members that were asked.
    positions: Vec<usize>,
    answers: StoreAnswers,
    /// The permits, if all that are enforced have granted.
    pub(crate) permits: Option<Vec<(usize, Permit<'static>)>>,
    pub(crate) compensated: bool,
}

/// Stores that are asked.
pub(crate) type AskStores = Pin<Box<dyn Future<Output = StoresSaid> + Send>>;

/// A subject, asked once for all members that ask it.
struct Subject {
    first: usize,
    key: FleetKey,
    cost: u64,
    shadow: bool,
}

/// Asks the stores for all members that are kept in one, with the priority and until the deadline of `like`.
pub(crate) fn ask(members: &Members, like: Demand) -> AskStores {
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
        StoresSaid {
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

/// Gives a limit in a store back what a member took from it. False if it is kept in none.
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

/// The members in stores, which subject each asks, and the subjects.
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

/// Whether a decision asks stores.
pub(crate) fn has_any(members: &Members) -> bool {
    let is_remote = |member: &Member| members.handle(member).is_remote();
    members.list.iter().any(is_remote)
}

impl StoresSaid {
    /// How each limit stood.
    pub(crate) fn told(&self) -> Told {
        let each = self.positions.iter().zip(self.answers.iter());
        each.map(|(&index, answer)| (index, answer.standing))
            .collect()
    }

    /// Why limits refuse, or would refuse in shadow mode, of so many members.
    pub(crate) fn denials(&self, members: usize) -> Denials {
        let mut denials = Denials::new();
        denials.resize_with(members, || None);
        for (&index, answer) in self.positions.iter().zip(self.answers.iter()) {
            denials[index] = answer.denied.clone();
        }
        denials
    }

    /// The first member that refuses the decision.
    pub(crate) fn first_refuser(&self) -> Option<usize> {
        let mut each = self.positions.iter().zip(self.answers.iter());
        let refuses = each.find(|(_, answer)| !answer.shadow && !answer.grants());
        refuses.map(|(&index, _)| index)
    }
}
