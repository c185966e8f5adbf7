//! The hold of a request in the HTTP layer, from the decision to the end of the response.

use std::sync::{Arc, OnceLock};

use http::Extensions;
use plimsoll::{Outcome, Permit};
use plimsoll_config::uses::{CostPart, CostSpec};
use plimsoll_tower::internals::{After, Ask, Done, Finding, add_leases};
use plimsoll_tower::{GrantMetadata, Head};

use crate::admit::attempt;
use crate::decide::Decide;
use crate::decision::{Hold, Refusal};
use crate::members::Members;
use crate::report::report_refused;
use crate::settle::{Passed, cost_after, late};
use crate::state::Member;
use crate::timeout::caller_timeout;

/// The hold of one request.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct RequestHold {
    pub(crate) hold: Option<Hold>,
    /// The permit of a decision on the [fast path](crate::fast_path), if one has to be returned.
    pub(crate) permit: Option<Permit<'static>>,
    /// Whether a permit is returned when the work is done.
    pub(crate) returns: bool,
    /// Whether a cost is known only after the response.
    pub(crate) settles: bool,
    /// Whether a limit has metadata.
    pub(crate) has_metadata: bool,
    /// Boxed, because few requests need it.
    pub(crate) rare: Option<Box<Rare>>,
}

#[derive(Debug, Default)]
pub(crate) struct Rare {
    /// The result of a decision that had to wait.
    pub(crate) waited: Option<Arc<OnceLock<Waited>>>,
    /// The bodies, as far as limits count them.
    pub(crate) passed: Option<Passed>,
}

/// The result of a decision, to be taken once.
pub(crate) type Waited = std::sync::Mutex<Option<Result<Hold, Refusal>>>;

impl RequestHold {
    #[inline]
    fn keep(&mut self, hold: Hold, head: &Head<'_>) {
        let members = hold.members();
        let route = members.route.map(|route| &members.plan.routes[route]);
        if let Some(route) = route.filter(|it| it.settles || it.has_metadata || it.watches_bodies) {
            (self.settles, self.has_metadata) = (route.settles, route.has_metadata);
            if route.watches_bodies {
                self.rare.get_or_insert_default().passed = Some(Passed::of(head));
            }
        }
        self.returns = hold.gives_back() || !members.beyond.is_empty();
        self.hold = Some(hold);
    }

    /// Decides, on the fast path of [`attempt`] if it applies.
    #[inline(never)]
    pub(crate) fn take(&mut self, members: Result<Members, Refusal>, head: &Head<'_>) -> Ask {
        match members.map(attempt) {
            Ok(Ok(hold)) => {
                self.keep(hold, head);
                Ask::Pass
            }
            Ok(Err(members)) => self.open(members, head),
            Err(refusal) => {
                report_refused(&refusal);
                self.decided(Err(refusal), head)
            }
        }
    }

    /// Decides after the [fast path](crate::fast_path) was refused: no limit is attempted again before the slow path.
    #[cold]
    pub(crate) fn refused(&mut self, members: Result<Members, Refusal>, head: &Head<'_>) -> Ask {
        let failed = |mut members: Members| {
            members.failed = true;
            members
        };
        self.take(members.map(failed), head)
    }

    /// Decides on the slow path, or begins to wait.
    #[inline(never)]
    fn open(&mut self, mut members: Members, head: &Head<'_>) -> Ask {
        // A grant after the caller has timed out would be wasted.
        if let Some(longest) = caller_timeout(head) {
            members.like = members.like.within(longest);
        }
        let mut decide = Decide::open(members);
        match decide.now() {
            Some(decided) => self.decided(decided, head),
            None => Ask::FindKey(wait(decide, self)),
        }
    }

    #[cold]
    pub(crate) fn decided(&mut self, decided: Result<Hold, Refusal>, head: &Head<'_>) -> Ask {
        match decided {
            Ok(hold) => {
                self.keep(hold, head);
                Ask::Pass
            }
            Err(refusal) => Ask::Refused(refusal.denied().clone()),
        }
    }

    #[inline(never)]
    pub(crate) fn prepare(&self, extensions: &mut Extensions) -> After {
        let mut after = After {
            reads_usage: false,
            outlasts_head: self.returns,
            settles: self.settles,
        };
        let Some(hold) = &self.hold else {
            return after;
        };
        if self.returns {
            for permit in hold.permits() {
                add_leases(permit, extensions);
            }
        }
        if self.has_metadata {
            for (limit, metadata) in hold.metadata() {
                GrantMetadata::add(limit, metadata, extensions);
            }
        }
        if self.settles {
            for part in Self::each(hold).filter_map(|(_, cost)| late(cost)) {
                after.outlasts_head = true;
                after.reads_usage |= part == &CostPart::Usage;
            }
        }
        after
    }

    /// The hold, if a cost is known only after the response.
    pub(crate) fn to_settle(&self) -> Option<&Hold> {
        self.hold.as_ref().filter(|_| self.settles)
    }

    pub(crate) fn give_back(&mut self, outcome: Outcome) {
        if let Some(permit) = &mut self.permit {
            permit.give_back(outcome);
        }
        if let Some(hold) = &mut self.hold {
            hold.give_back(outcome);
        }
    }

    /// The result of a decision that had to wait, once.
    pub(crate) fn take_waited(&mut self) -> Option<Result<Hold, Refusal>> {
        let waited = self.rare.as_ref()?.waited.as_ref()?.get()?;
        let mut waited = waited
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        waited.take()
    }

    /// Corrects the costs that are known now.
    pub(crate) fn settle(&mut self, done: &Done<'_>) {
        let Some(hold) = &mut self.hold else {
            return;
        };
        let mut passed = self.rare.as_mut().and_then(|rare| rare.passed.as_mut());
        if let Some(passed) = &mut passed {
            passed.note(done);
        }
        let passed = passed.as_deref();
        let settled: smallvec::SmallVec<[(usize, u64); 4]> = Self::each(hold)
            .filter_map(|(index, cost)| {
                let cost = cost_after(cost, done, passed, hold.cost_at(index))?;
                Some((index, cost))
            })
            .collect();
        for (index, cost) in settled {
            hold.settle_at(index, cost);
        }
    }

    /// The position of each limit of the hold, and its cost on the route of the request.
    pub(crate) fn each(hold: &Hold) -> impl Iterator<Item = (usize, &CostSpec)> {
        let members = hold.members();
        let route = members.route.map(|route| &members.plan.routes[route]);
        let cost = move |member: &Member| Some(&route?.uses.get(member.used)?.cost);
        let list = members.list.iter().enumerate();
        list.filter_map(move |(index, member)| Some((index, cost(member)?)))
    }
}

/// Waits for a decision, whose result is stored in `held`.
fn wait(decide: Decide, held: &mut RequestHold) -> Finding {
    let waited = Arc::new(OnceLock::new());
    held.rare.get_or_insert_default().waited = Some(Arc::clone(&waited));
    Box::pin(async move {
        let decided = decide.await;
        let _first = waited.set(std::sync::Mutex::new(Some(decided)));
    })
}
