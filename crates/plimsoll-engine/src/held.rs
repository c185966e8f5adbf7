//! What the layer holds of limits while a request is worked on.

use std::sync::{Arc, OnceLock};

use http::Extensions;
use plimsoll::{Outcome, Permit};
use plimsoll_config::uses::{CostPart, CostSpec};
use plimsoll_tower::internals::{After, Ask, Done, Finding, add_leases};
use plimsoll_tower::{GrantMetadata, Head};

use crate::admit::attempt;
use crate::caller::patience;
use crate::decide::Decide;
use crate::decision::{Hold, Refusal};
use crate::members::Members;
use crate::parts::Member;
use crate::settle::{Passed, cost_after, late};
use crate::tell::note_refused;

/// What a request holds of them.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct Held {
    pub(crate) hold: Option<Hold>,
    /// What is kept of a decision that was made [quickly](crate::quick), if anything is.
    pub(crate) permit: Option<Permit<'static>>,
    /// Whether anything is returned when the work is done.
    pub(crate) returns: bool,
    /// Whether what it costs is known only when it was answered.
    pub(crate) settles: bool,
    /// Whether a limit says something about itself.
    pub(crate) says: bool,
    /// Apart, because most requests have nothing of it.
    pub(crate) rare: Option<Box<Rare>>,
}

#[derive(Debug, Default)]
pub(crate) struct Rare {
    /// What the decision came to, when it had to wait.
    pub(crate) waited: Option<Arc<OnceLock<Waited>>>,
    /// What passes with bodies, where limits count it.
    pub(crate) passed: Option<Passed>,
}

/// A decision that is taken out once.
pub(crate) type Waited = std::sync::Mutex<Option<Result<Hold, Refusal>>>;

impl Held {
    #[inline]
    fn keep(&mut self, hold: Hold, head: &Head<'_>) {
        let members = hold.members();
        let route = members.route.map(|route| &members.plan.routes[route]);
        if let Some(route) = route.filter(|it| it.settles || it.says || it.watches_bodies) {
            (self.settles, self.says) = (route.settles, route.says);
            if route.watches_bodies {
                self.rare.get_or_insert_default().passed = Some(Passed::of(head));
            }
        }
        self.returns = hold.gives_back() || !members.beyond.is_empty();
        self.hold = Some(hold);
    }

    /// Decides.
    #[inline(never)]
    pub(crate) fn take(&mut self, members: Result<Members, Refusal>, head: &Head<'_>) -> Ask {
        match members.map(attempt) {
            Ok(Ok(hold)) => {
                self.keep(hold, head);
                Ask::Pass
            }
            Ok(Err(members)) => self.open(members, head),
            Err(refusal) => {
                note_refused(&refusal);
                self.decided(Err(refusal), head)
            }
        }
    }

    /// Decides what was [refused](Quick::Refused), or begins to wait.
    #[cold]
    pub(crate) fn refused(&mut self, members: Result<Members, Refusal>, head: &Head<'_>) -> Ask {
        let failed = |mut members: Members| {
            members.failed = true;
            members
        };
        self.take(members.map(failed), head)
    }

    /// Decides what could not be [attempted](attempt), or begins to wait.
    #[inline(never)]
    fn open(&mut self, mut members: Members, head: &Head<'_>) -> Ask {
        // A turn that comes when the caller has left is in vain.
        if let Some(longest) = patience(head) {
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
        if self.says {
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

    /// The decision, if what it costs is known only when it was answered.
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

    /// The decision that was waited for, if it is there.
    pub(crate) fn take_waited(&mut self) -> Option<Result<Hold, Refusal>> {
        let waited = self.rare.as_ref()?.waited.as_ref()?.get()?;
        let mut waited = waited
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        waited.take()
    }

    /// Charges what is known now.
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

    /// The limits that were asked, each with its position and what it costs where the request went.
    pub(crate) fn each(hold: &Hold) -> impl Iterator<Item = (usize, &CostSpec)> {
        let members = hold.members();
        let route = members.route.map(|route| &members.plan.routes[route]);
        let cost = move |member: &Member| Some(&route?.uses.get(member.used)?.cost);
        let list = members.list.iter().enumerate();
        list.filter_map(move |(index, member)| Some((index, cost(member)?)))
    }
}

/// Waits for a decision. What it comes to is left in `held`.
fn wait(decide: Decide, held: &mut Held) -> Finding {
    let waited = Arc::new(OnceLock::new());
    held.rare.get_or_insert_default().waited = Some(Arc::clone(&waited));
    Box::pin(async move {
        let decided = decide.await;
        let _first = waited.set(std::sync::Mutex::new(Some(decided)));
    })
}
