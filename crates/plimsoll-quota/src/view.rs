//! What members have and want, to be shown.

use plimsoll::Moment;

use crate::demand::Usage;
use crate::member::{Member, State};
use crate::share::Share;
use crate::timing::Timing;

/// What a member has and wants.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MemberView {
    /// Which.
    pub member: Member,
    /// The share that was assigned to it last; none if that has expired.
    pub share: Share,
    /// The most that it may hold, because it may not have heard of less: nanotokens per second.
    pub held_rate: u64,
    /// The most that it may spend at once, because it may not have heard of less.
    pub held_burst: u32,
    /// What it would spend, in nanotokens per second, once it is known.
    pub wants: Option<u64>,
    /// Whether it was refusing requests when it reported last.
    pub denied: bool,
    /// When it has nothing any more, unless it is sent again.
    pub expires: Option<Moment>,
    /// Whether it has gone, or cannot be reached.
    pub left: bool,
    /// All that it has reported.
    pub total: Usage,
}

impl MemberView {
    pub(crate) fn of(member: Member, state: &State, timing: Timing) -> Self {
        let (held_rate, held_burst) = state.holding.held();
        Self {
            member,
            share: state.holding.share(),
            held_rate,
            held_burst,
            wants: state.demand.rate(),
            denied: state.denied,
            expires: state.holding.until(timing),
            left: state.left,
            total: state.total,
        }
    }
}

/// What all have and want.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DivisionView {
    /// What is divided, in nanotokens per second.
    pub rate: u64,
    /// The most that is spent at once, by all together.
    pub burst: u64,
    /// What members may hold of the rate: never more than it, unless it was lowered a moment ago.
    pub held_rate: u64,
    /// What members may hold of the burst; with `tokens` never more than it.
    pub held_burst: u64,
    /// Whole tokens that are assigned to no member.
    pub tokens: u64,
    /// Until when no shares are pushed, after a restart.
    pub learning: Option<Moment>,
    /// All members, from the oldest on.
    pub members: Vec<MemberView>,
}
